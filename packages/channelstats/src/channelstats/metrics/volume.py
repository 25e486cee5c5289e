"""How much was written, by how many, and how unevenly: what is measured of all authors together.

Rule: "half" is decided on whole numbers.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final

import msgspec

from channelstats.facts.facts import Slice
from channelstats.metrics.quantities import Quantity, percent, ranked, ratio
from channelstats.metrics.query import BY_MESSAGES, BY_WORDS, aggregated
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import User

WORDS_ON_A_PAGE: Final = 500
_TOP: Final = 10


class Volume(msgspec.Struct, frozen=True):
    """Authors, and what each wrote, in the order of their ranking; ``users`` are all known."""

    counts: Counts
    users: Mapping[str, User]
    by_messages: Sequence[str]
    by_words: Sequence[str]
    messages_each: Sequence[int]
    words_each: Sequence[int]

    @property
    def posters(self) -> int:
        return len(self.by_words)

    @property
    def _known(self) -> list[User]:
        return [self.users[uid] for uid in self.by_words if uid in self.users]

    @property
    def active_posters(self) -> int:
        """How many of the active accounts posted."""
        accounts = sum(not (user.deleted or user.unlisted) for user in self._known)
        return min(accounts, self.counts.active_users)

    @property
    def share_of_accounts(self) -> Quantity:
        return percent(self.active_posters, self.counts.active_users)

    @property
    def share_of_members(self) -> Quantity | None:
        """None where no list has all members, as of posters who may be some nothing is known."""
        posters, unknown = (
            sum(user.is_member for user in self._known),
            self.posters - len(self._known),
        )
        members = self.counts.active_humans
        return percent(posters, members) if members and members >= posters + unknown else None

    @property
    def messages(self) -> int:
        return sum(self.messages_each)

    @property
    def words(self) -> int:
        return sum(self.words_each)


def volume(part: Slice) -> Volume:
    return part.once("volume", lambda: _volume(part))


def _volume(part: Slice) -> Volume:
    authors = aggregated(part, ("person",), ("messages", "words"))
    by_messages, by_words = (ranked(authors, order, "person") for order in (BY_MESSAGES, BY_WORDS))
    return Volume(
        counts=part.counts,
        users=part.facts.inputs.users,
        by_messages=by_messages["person"].to_list(),
        by_words=by_words["person"].to_list(),
        messages_each=by_messages["messages"].to_list(),
        words_each=by_words["words"].to_list(),
    )


def share_of_top(falling: Sequence[int]) -> Fraction:
    """The percentage of the ten largest."""
    return percent(sum(falling[:_TOP]), sum(falling))


def median(falling: Sequence[int]) -> int:
    """The middle of numbers in falling order, the lower one of two; 0 without any."""
    return falling[len(falling) // 2] if falling else 0


def half(falling: Sequence[int]) -> int:
    """How few of the largest make at least half of all; 0 where all is nothing."""
    total = sum(falling)
    return sum(2 * reached < total for reached in accumulate(falling)) + 1 if total else 0


def authors_of_half(authors: Sequence[str], falling: Sequence[int]) -> list[str]:
    """Authors while they make at most half of all together, and the one who passes it."""
    total = sum(falling)
    if not total:
        return []
    up_to_half = sum(2 * reached <= total for reached in accumulate(falling))
    return list(authors[: up_to_half + 1])


def gini(values: Sequence[int]) -> Fraction:
    """How unevenly a sum is spread: 0 when everybody has the same."""
    n, total = len(values), sum(values)
    weighted = sum((2 * i - n - 1) * value for i, value in enumerate(sorted(values), 1))
    return ratio(weighted, n * total)
