"""What a run takes in from the Web API.

Rule: days are counted back from now; what is left out by name is left out everywhere.
"""

from typing import Final

import msgspec

from channelstats.slack.api_objects import ListedChannel

DAY: Final = 86_400

UNANSWERED: Final = 5
"""Channels in a row without an answer after which Slack counts as out of reach."""


class SyncChoice(msgspec.Struct, frozen=True):
    """``refetch`` days before the newest message known are read again, for late reactions, edits
    and deletions. Nothing said more than ``max_age`` days ago is taken in for the first time. Late
    replies are looked for in threads begun up to ``thread_max_age`` days ago. Where ``since`` is
    given (seconds), everything from then on is read, whatever is known. ``only`` (none: all) and
    ``exclude`` are IDs or names of channels; ``concurrency`` of them are read at once. ``join``:
    the token's bot becomes a member of the public channels that it could not read otherwise.
    ``exclude_people`` are IDs, user names or display names. ``kept``: days after which messages go
    (none: never).
    """

    refetch: int = 7
    max_age: int = 21
    thread_max_age: int = 90
    include_private: bool = False
    only: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    concurrency: int = 4
    since: int | None = None
    join: bool = False
    exclude_people: frozenset[str] = frozenset()
    kept: int | None = None

    def __post_init__(self) -> None:
        if min(self.refetch, self.max_age, self.thread_max_age) < 0:
            raise ValueError("refetch, max_age, thread_max_age: expected days, none below 0")
        if self.concurrency < 1:
            raise ValueError("concurrency: expected at least 1")

    def wants(self, channel: ListedChannel) -> bool:
        keys = {channel.id, channel.name or channel.id}
        if channel.is_private and not self.include_private:
            return False
        return not keys & self.exclude and (not self.only or bool(keys & self.only))

    @property
    def mark(self) -> str:
        """What tells this choice from another that reads other channels, or from another time."""
        return f"{self.since} {self.include_private} {sorted(self.only)} {sorted(self.exclude)}"

    def window(self, watermark: int, now: int) -> int:
        """The second from which on messages are read again."""
        if self.since is not None:
            return max(self.since, 0)
        return max(watermark - self.refetch * DAY, now - self.max_age * DAY, 0)

    def leaves_a_gap(self, read: int, now: int) -> bool:
        """Whether a channel with this window is not read from ``read`` on, where it was read up to
        before (0: never). What would be removed is not missing.
        """
        oldest = 0 if self.kept is None else now - self.kept * DAY
        return read > 0 and max(read, oldest) < self.window(read, now)

    def threads(self, now: int) -> int:
        """The second from which on heads are looked after."""
        return max(now - self.thread_max_age * DAY, 0)
