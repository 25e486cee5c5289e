"""What an import reports, as values: whoever runs it decides how they are shown.

Rule: an event names files, channels and numbers; never what somebody wrote.
"""

from typing import TypeAlias

import msgspec

from channelstats.slack.export import Problem

__all__ = ["ChannelDone", "Event", "Finished", "Problem", "Reached", "Started"]


class Started(msgspec.Struct, frozen=True):
    """The lists are read. ``done`` channels were imported before an interruption."""

    users: int
    channels: int
    done: int


class Reached(msgspec.Struct, frozen=True):
    """How far it is: in this channel, with so many bytes of JSON done of all there are (those done
    before an interruption among them), and so many messages of this run.
    """

    name: str
    bytes_done: int
    bytes: int
    messages: int


class ChannelDone(msgspec.Struct, frozen=True):
    """A channel is stored: the ``number``-th of ``channels``; messages read, rows that changed."""

    slack_cid: str
    name: str
    number: int
    channels: int
    messages: int
    changed: int


class Finished(msgspec.Struct, frozen=True):
    """Everything is stored: channels of this run and of interrupted ones, messages and rows of this
    run, problems met in it, and the newest timestamp, "" without messages.
    """

    channels: int
    messages: int
    changed: int
    problems: int
    newest: str


Event: TypeAlias = Started | Problem | Reached | ChannelDone | Finished
