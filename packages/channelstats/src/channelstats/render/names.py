"""What people, channels and emoji are called, and where messages are.

Rule: who or what is not known is shown by its ID.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Self

from emoji import emojize

from channelstats.identifiers import UNLISTED_CHANNEL
from channelstats.metrics.table import Kind
from channelstats.render.words import printable
from channelstats.tables import Tables
from channelstats.tables.directory import Channel, User

EXTERNAL: Final = " (external)"
"""Follows the name of somebody from outside."""

_TONES: Final = {f"skin-tone-{number}": chr(0x1F3FB + number - 2) for number in range(2, 7)}


@dataclass(frozen=True)
class Directory:
    """With ``signs`` an emoji is its sign alone where it has one, as in a mail."""

    people: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    slack_name: str = ""
    signs: bool = False

    @classmethod
    def of_rows(
        cls, users: Mapping[str, User], channels: Mapping[str, Channel], slack_name: str = ""
    ) -> Self:
        """The names in rows of the tables."""
        people = {
            uid: f"{user.name}{EXTERNAL if user.is_stranger else ''}" for uid, user in users.items()
        }
        return cls(people, {cid: channel.name for cid, channel in channels.items()}, slack_name)

    def person(self, uid: str) -> str:
        return printable(self.people.get(uid, "")) or uid

    def channel(self, cid: str) -> str:
        return printable(self.channels.get(cid, "")) or cid

    def called(self, cell: str, kind: Kind) -> str:
        """What the text of a cell is read as: a name, `#channel`, `:emoji:`, the address of a
        message, or the text itself.
        """
        if kind is Kind.PERSON:
            return self.person(cell)
        if kind is Kind.CHANNEL:
            return f"#{self.channel(cell)}"
        if kind is Kind.MESSAGE:
            return self.permalink(cell)
        if kind is Kind.EMOJI:
            return (self.signs and emoji_sign(cell)) or f":{cell}:"
        return cell

    def permalink(self, message: str) -> str:
        """The address of a message `CID/ts/thread_ts`; "" where the workspace's is not known."""
        if not (message and self.slack_name):
            return ""
        cid, ts, thread_ts = message.split("/")
        if cid.startswith(UNLISTED_CHANNEL):
            return ""  # Slack knows no such ID.
        address = f"https://{self.slack_name}.slack.com/archives/{cid}/p{ts.replace('.', '')}"
        return f"{address}?thread_ts={thread_ts}&cid={cid}" if thread_ts else address


async def load(tables: Tables, slack_name: str = "") -> Directory:
    """The real names. ``slack_name`` is the one of the settings."""
    name = await tables.configuration.slack_name(slack_name)
    return Directory.of_rows(await tables.users.all(), await tables.channels.all(), name)


@lru_cache(1_000)
def emoji_sign(name: str) -> str:
    """The sign of an emoji, with its skin tone; "" for one that a workspace made itself."""
    base, _, tone = name.partition("::")
    called = f":{base.replace('-', '_')}:"
    sign = emojize(called, language="alias")
    return "" if sign == called else sign + _TONES.get(tone, "")
