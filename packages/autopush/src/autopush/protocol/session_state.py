"""What a session counts, and what of it goes on in another process."""

from typing import Final

from msgspec import Struct

from autopush.protocol.drain import Drain
from autopush.protocol.simplepush import SimplePushState
from autopush.telemetry.metric_table import (
    UA_ACK,
    UA_BELOW_FILTER,
    UA_CHANNEL_COUNT,
    UA_HELLO,
    UA_LIFESPAN,
    UA_MESSAGE_DATA,
    UA_NACK,
    UA_NOTIFICATION_ACKED,
    UA_NOTIFICATION_SENT,
    UA_NOTIFICATION_UNUSABLE,
    UA_REGISTER,
    UA_UNREGISTER,
)
from autopush.telemetry.metrics import Metrics
from autopush.webpush.stored import Row
from autopush.webpush.urgency import LOWEST


class SessionCounts(Struct, gc=False):
    """`stored_retrieved`: notifications read from storage and sent. `stored_acked`: those of them
    that were acked. `direct_acked`: the others that were acked.
    """

    registers: int = 0
    unregisters: int = 0
    direct_acked: int = 0
    stored_retrieved: int = 0
    stored_acked: int = 0
    nacks: int = 0


NOTHING_COUNTED: Final = SessionCounts()
"""Shared by sessions in which nothing has happened."""


class SessionMetrics:
    """The series of all sessions of a node, labelled by `Session.kind`."""

    def __init__(self, metrics: Metrics) -> None:
        self.hello = metrics.counters(UA_HELLO)
        self.register = metrics.counters(UA_REGISTER)
        self.unregister = metrics.counters(UA_UNREGISTER)
        self.ack = metrics.counters(UA_ACK)
        self.nack = metrics.counters(UA_NACK)
        self.lifespan = metrics.histograms(UA_LIFESPAN)
        self.channel_count = metrics.histogram(UA_CHANNEL_COUNT)
        self.sent = metrics.counters(UA_NOTIFICATION_SENT)
        self.acked = metrics.counter(UA_NOTIFICATION_ACKED)
        self.unusable = metrics.counters(UA_NOTIFICATION_UNUSABLE)
        self.data = metrics.counters(UA_MESSAGE_DATA)
        self.below_filter = metrics.counters(UA_BELOW_FILTER)


class UnackedState(Struct, array_like=True, frozen=True):
    """An `Unacked` on its way to another process. `notification`: as from node to node."""

    channel_id: str
    notification: bytes | None
    row: Row | None
    of_page: bool
    is_overdue: bool = False


class SessionState(Struct, array_like=True, frozen=True):
    """An identified session on its way to another process.

    A field is the session's attribute of that name, with or without an underscore. New ones come
    last and have a default: the next version may know more fields than this one, or fewer.
    """

    uaid: str
    connected_at: int
    channels: tuple[str, ...] | None
    unacked: dict[str, UnackedState]
    simplepush: SimplePushState | None
    is_existing: bool | None
    is_reset: bool
    counts: SessionCounts
    counted_messages: int
    drain: Drain | None
    recheck: bool
    last_ping: float
    table: str
    """The name of the `TableState`."""
    broadcasts: dict[str, str]
    """The versions that the user agent was sent."""
    min_urgency: str = LOWEST


NOT_EXPORTED: Final = frozenset(
    {
        "state",  # only a session in `ACTIVE` is exported
        "output_paused",  # its socket has no unsent output
        "kind",  # follows from the headers of the upgrade, and from `simplepush`
        "_settings",
        "_is_timed",  # the other process sets a timer of its own
        "metrics",
    }
)
"""Attributes of a session that are not in its `SessionState`."""
