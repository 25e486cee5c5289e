"""What nodes ask of each other about a user agent, and what becomes of it.

    Push              deliver a message
    CheckStorage      read what is stored for it
    FindConnection    nothing: is it connected?
    EndDuplicate      close an older connection

A call reaches the node of the user agent in one of three ways, and its outcome is the same in all:
within the process (`answering`), by the socket to another worker (`net.siblings`), or as HTTP to
another machine (`net.link`; `node_http` has both directions).
"""

from enum import Enum
from typing import Self

from msgspec import Struct

from autopush.webpush.notification import Notification, from_node
from autopush.webpush.urgency import HIGHEST


class Outcome(Enum):
    """What became of a message or a call. The first three also say what became of a push."""

    DONE = "done"
    """The user agent was sent the message, or has it; storage is read; the duplicate is closed."""
    STORED = "stored"
    """The message waits in storage; a connected user agent reads it by itself, later."""
    DISCARDED = "discarded"
    """The TTL is 0, and the user agent is not connected or takes only higher urgencies."""
    BUSY = "busy"
    """The user agent is connected but cannot take more now; it will read storage."""
    ABSENT = "absent"
    """The user agent is not connected there."""
    GONE = "gone"
    """Another process has the node's place."""
    REFUSED = "refused"
    """Nothing listens there now, or no host has that name: perhaps the answer of a firewall."""
    SILENT = "silent"
    """No answer; the node may be slow, stopped, cut off or overloaded."""

    @property
    def means_gone(self) -> bool:
        """Whether the router record may stop naming the node."""
        return self is Outcome.ABSENT or self is Outcome.GONE

    @property
    def may_be_back(self) -> bool:
        """Whether the node may have the user agent, and could not be told."""
        return self is Outcome.REFUSED or self is Outcome.SILENT

    @property
    def is_failure(self) -> bool:
        return self is Outcome.GONE or self.may_be_back


class Push(Struct, array_like=True, tag=1, gc=False, frozen=True):
    """Deliver a message. `only_subscribed`: not if the user agent is not known to have subscribed
    to the channel, which the caller has not checked. BUSY: also then.
    """

    uaid: str
    message: bytes
    """As from node to node."""
    only_subscribed: bool = False

    @classmethod
    def of(cls, notification: Notification, *, only_subscribed: bool = False) -> Self:
        return cls(notification.uaid, notification.to_node(), only_subscribed)

    def notification(self) -> Notification:
        """:raises ValueError: the message is none"""
        return from_node(self.uaid, self.message)


class CheckStorage(Struct, array_like=True, tag=2, gc=False, frozen=True):
    """Read storage. `urgency`: of the message that was stored. STORED: it is read later."""

    uaid: str
    urgency: str = HIGHEST


class FindConnection(Struct, array_like=True, tag=3, gc=False, frozen=True):
    """Has no effect. BUSY: the node's version does not know the call."""

    uaid: str


class EndDuplicate(Struct, array_like=True, tag=4, gc=False, frozen=True):
    """Close the connection of that time (ms), and wait until its acks are stored. DONE: it is
    closed. ABSENT: there is none. BUSY: the acks are not stored yet. `or_older`: also one from
    before, which only workers of one service know of each other.
    """

    uaid: str
    connected_at: int
    or_older: bool = False

    def ends(self, connected_at: int) -> bool:
        return connected_at == self.connected_at or (
            self.or_older and connected_at < self.connected_at
        )


NodeCall = Push | CheckStorage | FindConnection | EndDuplicate
