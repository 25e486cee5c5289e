"""What taking in a workspace from the Web API reports, as values: whoever runs it shows them.

Rule: an event names channels, methods and numbers; never what somebody wrote, never a token.
"""

from typing import TypeAlias

import msgspec

from channelstats.slack.export import Problem

__all__ = [
    "ChannelSynced",
    "ChannelsDone",
    "Failed",
    "Gap",
    "LeftOut",
    "MembersRead",
    "MessagesStarted",
    "Outside",
    "Problem",
    "Refused",
    "Stopped",
    "SyncEvent",
    "SyncFinished",
    "UsersDone",
]


class UsersDone(msgspec.Struct, frozen=True):
    """The users are stored; ``new`` ones were seen for the first time."""

    users: int
    active: int
    new: int


class ChannelsDone(msgspec.Struct, frozen=True):
    """The channels are stored, and the members of so many of them in this run."""

    channels: int
    archived: int
    memberships: int


class MembersRead(msgspec.Struct, frozen=True):
    """Who is in a channel is stored: in the ``number``-th of ``channels``."""

    slack_cid: str
    name: str
    number: int
    channels: int


class MessagesStarted(msgspec.Struct, frozen=True):
    """Messages are asked for. ``done`` channels were read before an interruption."""

    channels: int
    done: int


class ChannelSynced(msgspec.Struct, frozen=True):
    """A channel is stored: the ``number``-th of ``channels``; messages and threads read, rows that
    say something else than before, messages found edited, and found deleted.
    """

    slack_cid: str
    name: str
    number: int
    channels: int
    messages: int
    threads: int
    changed: int
    edited: int
    deleted: int


class Failed(msgspec.Struct, frozen=True):
    """A part or a channel that could not be read. What was stored of it stays."""

    place: str
    reason: str

    def __str__(self) -> str:
        if self.reason.startswith(f"{self.place}: "):  # the place is the method
            return self.reason
        return f"{self.place}: {self.reason}"


class Refused(Failed, frozen=True):
    """A channel that Slack does not let the token read, however often it is asked."""


class Outside(Refused, frozen=True):
    """A channel that the token's bot has to be in to read it, and is not."""


class Gap(msgspec.Struct, frozen=True):
    """A channel that was read up to ``until`` and now from ``since`` on (seconds): what was said in
    between was not read.
    """

    name: str
    until: int
    since: int


class LeftOut(msgspec.Struct, frozen=True):
    """An archived channel that the token's bot was never in: nobody can change that."""

    slack_cid: str
    name: str


class Stopped(msgspec.Struct, frozen=True):
    """Nothing more can be asked of Slack. What was taken in until then is stored."""

    reason: str

    def __str__(self) -> str:
        return f"stopped: {self.reason}"


class SyncFinished(msgspec.Struct, frozen=True):
    """The end of a run: channels whose messages were read in it, and the sums over them; problems
    that cost single objects; what failed; why it stopped, "" if it did not. ``left_out`` channels
    are archived, and the token's bot was never in them.
    """

    channels: int = 0
    messages: int = 0
    changed: int = 0
    edited: int = 0
    deleted: int = 0
    problems: int = 0
    failed: tuple[Failed, ...] = ()
    left_out: int = 0
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for is stored."""
        return not self.failed and not self.stopped


SyncEvent: TypeAlias = (
    Problem
    | UsersDone
    | ChannelsDone
    | MembersRead
    | MessagesStarted
    | ChannelSynced
    | Failed
    | Gap
    | LeftOut
    | Stopped
    | SyncFinished
)
