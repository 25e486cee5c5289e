"""What sessions count, each for its line in the log and all of them for the metrics: in memory, so
that a session does it itself and stays without I/O.
"""

from functools import cached_property
from typing import Final

from msgspec import Struct

from autopush.telemetry.metric_table import (
    UA_ACK,
    UA_CHANNEL_COUNT,
    UA_HELLO,
    UA_LIFESPAN,
    UA_MESSAGE_DATA,
    UA_NACK,
    UA_NOTIFICATION_SENT,
    UA_NOTIFICATION_TOPIC,
    UA_REGISTER,
    UA_UNREGISTER,
)
from autopush.telemetry.metrics import OTHER, Counter, Metrics
from autopush.telemetry.user_agent_names import UserAgentNames
from autopush.webpush.notification import Notification

NACK_CODES: Final[dict[int | None, str]] = {code: str(code) for code in (301, 302, 303)}
"""The worker threw, its promise was rejected, or the user agent itself failed."""
UNREGISTER_CODES: Final = {code: str(code) for code in (200, 201, 202)}
"""The page or the user did it, the quota was exceeded, or the permission was revoked."""
MANUAL: Final = 200


class SessionCounts(Struct, gc=False):
    """What happened in one session.

    `stored_retrieved`: notifications read from storage and sent. `stored_acked`: those of them that
    were acked. `direct_acked`: the others that were acked.
    """

    registers: int = 0
    unregisters: int = 0
    direct_acked: int = 0
    stored_retrieved: int = 0
    stored_acked: int = 0
    nacks: int = 0


NOTHING_COUNTED: Final = SessionCounts()
"""Shared by all sessions in which nothing has happened; one that counts makes its own."""


class SessionMetrics:
    """The series of one kind of user agent, looked up once for all its sessions.

    The kind is its families, and whether it takes messages or, in SimplePush, versions.
    """

    def __init__(
        self, metrics: Metrics, names: UserAgentNames, *, is_simplepush: bool = False
    ) -> None:
        self._metrics = metrics
        self._names = names
        base = {
            "ua_os_family": names.metric_os,
            "ua_browser_family": names.metric_browser,
            "use_webpush": str(not is_simplepush),
        }
        self._new = metrics.counter(UA_HELLO, **base, uaid="new")
        self._existing = metrics.counter(UA_HELLO, **base, uaid="existing")
        self._reassigned = metrics.counter(UA_HELLO, **base, uaid="reassigned")
        self.register = metrics.counter(UA_REGISTER, **base)
        self._unregister = {
            code: metrics.counter(UA_UNREGISTER, **base, code=code)
            for code in UA_UNREGISTER.labels["code"]
        }
        self.ack = metrics.counter(UA_ACK, **base)
        self._nack = {code: metrics.counter(UA_NACK, code=code) for code in UA_NACK.labels["code"]}
        self.lifespan = metrics.histogram(UA_LIFESPAN, **base)
        self.channel_count = metrics.histogram(UA_CHANNEL_COUNT)
        self.direct = SentNotifications(metrics, "Direct", names.metric_os, is_simplepush)
        self.stored = SentNotifications(metrics, "Stored", names.metric_os, is_simplepush)

    @cached_property
    def of_simplepush(self) -> "SessionMetrics":
        """The same for a session that turns out to be one of SimplePush."""
        return SessionMetrics(self._metrics, self._names, is_simplepush=True)

    def hello(self, *, presented: bool, new: bool) -> None:
        """A user agent that presented a UAID or did not has got a new one or kept its own."""
        counter = self._existing
        if new:
            counter = self._reassigned if presented else self._new
        counter.add()

    def unregister(self, code: int | None) -> None:
        """A channel was unregistered with that code."""
        name = UNREGISTER_CODES.get(MANUAL if code is None else code, OTHER)
        self._unregister[name].add()

    def nack(self, code: int | None) -> None:
        """A notification could not be processed."""
        self._nack[NACK_CODES.get(code, "0")].add()


class SentNotifications:
    """Notifications from one source, with their data."""

    __slots__ = ("_data", "_has_topics", "_plain", "_topics", "_with_topic")

    def __init__(self, metrics: Metrics, source: str, os: str, is_simplepush: bool) -> None:
        sent = UA_NOTIFICATION_SENT
        self._plain: Counter = metrics.counter(sent, source=source, topic="false", os=os)
        self._with_topic: Counter = metrics.counter(sent, source=source, topic="true", os=os)
        self._topics: Counter = metrics.counter(UA_NOTIFICATION_TOPIC)
        self._data: Counter = metrics.counter(UA_MESSAGE_DATA, source=source)
        self._has_topics = not is_simplepush  # all versions have the same, which is none

    def add(self, notification: Notification) -> None:
        """One was sent."""
        if notification.topic is None or not self._has_topics:
            self._plain.value += 1
        else:
            self._with_topic.value += 1
            self._topics.value += 1
        if notification.data is not None:
            self._data.value += len(notification.data)
