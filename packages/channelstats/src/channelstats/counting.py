"""Which messages count, as data.

Rule: every figure is taken over counted messages, and this table alone says which those are.

    subtype
    none                                    counts
    thread_broadcast me_message file_share  counts
    bot_message                             counts, if bots are included
    those of ``further``                    counts
    every other                             does not
    author is a bot                         counts, if bots are included
    no author, or deleted                   does not
"""

from collections.abc import Collection
from typing import Final

import msgspec
import polars as pl

from channelstats.identifiers import SLACKBOT

TOMBSTONE: Final = "tombstone"
"""Subtype of a deleted head whose replies are still there."""

HUDDLE: Final = "huddle_thread"
HUDDLES: Final = frozenset({HUDDLE, "sh_room_created"})
"""Subtypes of huddles. The second is older; where both tell of one, the first counts."""

BOT_MESSAGE: Final = "bot_message"
JOINED: Final = frozenset({"channel_join", "group_join"})
LEFT: Final = frozenset({"channel_leave", "group_leave"})

PEOPLE_SUBTYPES: Final = frozenset({"thread_broadcast", "me_message", "file_share"})
"""Subtypes of messages that people write."""


class Counting(msgspec.Struct, frozen=True):
    """One way to count. ``further`` are subtypes that count as well, sorted."""

    include_bots: bool = False
    further: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name that tells this way from every other."""
        bots = " with bots" if self.include_bots else ""
        further = f" and {', '.join(self.further)}" if self.further else ""
        return f"modern{bots}{further}"

    @property
    def people_subtypes(self) -> frozenset[str]:
        """Subtypes that count for people."""
        return PEOPLE_SUBTYPES | frozenset(self.further)

    @property
    def subtypes(self) -> frozenset[str]:
        """Every subtype that counts."""
        return self.people_subtypes | ({BOT_MESSAGE} if self.include_bots else frozenset())

    def counts(self, author: str, subtype: str, bots: Collection[str]) -> bool:
        """Whether a message counts that is not deleted. ``bots`` are the users known as such."""
        if not author or (subtype and subtype not in self.subtypes):
            return False
        return self.include_bots or not is_bot(author, bots)

    def counted(self, bots: Collection[str]) -> pl.Expr:
        """The same judgement over the columns of messages, deleted ones included."""
        subtype = pl.col("subtype")
        counting = subtype.is_null() | subtype.is_in(sorted(self.subtypes))
        counts = pl.col("slack_uid").is_not_null() & counting & ~pl.col("deleted")
        return counts if self.include_bots else counts & ~bot_expression(bots)


def is_bot(author: str, bots: Collection[str]) -> bool:
    """A user marked as one, an author known by its `bot_id` alone, or Slackbot."""
    return author.startswith("B") or author == SLACKBOT or author in bots


def bot_expression(bots: Collection[str], column: str = "slack_uid") -> pl.Expr:
    """`is_bot` over a column of people, that of authors by default; false without one."""
    author = pl.col(column)
    known = author.is_in([SLACKBOT, *sorted(bots)])
    return (author.cat.starts_with("B") | known).fill_null(value=False)
