"""What routing records, a small object for each place. Every series is looked up once."""

from collections.abc import Mapping
from typing import Final

from autopush.delivery.bridge_contract import RouterError
from autopush.telemetry.metric_table import (
    BRIDGE_ERROR,
    BRIDGE_SENT,
    BRIDGES,
    CLIENT_DELETED,
    DROP_USER,
    HOST_GONE,
    NODE_CONNECT_ERROR,
    NODE_TIMEOUT,
    SAVE_TIME,
)
from autopush.telemetry.metrics import OTHER, Metrics
from autopush.webpush.errors import Errno, PushError

REASONS: Final[Mapping[int, str]] = {
    Errno.BACK_OFF: "busy",
    Errno.BRIDGE_MISCONFIGURED: "misconfigured",
    Errno.BRIDGE_REFUSED: "credentials",
    Errno.BRIDGE_TIMEOUT: "timeout",
    Errno.BRIDGE_UNREACHABLE: "unreachable",
    Errno.ENDPOINT_UNAVAILABLE: "critical",
    Errno.EXPIRED_ENDPOINT: "unregistered",
    Errno.INVALID_SUBSCRIPTION: "unregistered",
    Errno.PAYLOAD_TOO_LARGE: "too_large",
    Errno.UNKNOWN: "failed",
}
"""The reason of a bridge's error; of any other errno it is `OTHER`."""


class NodeMetrics:
    """Of calls to other nodes."""

    def __init__(self, metrics: Metrics) -> None:
        self.unreachable = metrics.counter(NODE_CONNECT_ERROR)
        self.unanswered = metrics.counter(NODE_TIMEOUT)


class RouteMetrics:
    """Of messages on their way to a user agent, and of users that are found to be gone."""

    def __init__(self, metrics: Metrics) -> None:
        self.host_gone = metrics.counter(HOST_GONE)
        self.deleted = metrics.counter(CLIENT_DELETED)
        self.without_table = metrics.counter(DROP_USER, errno="102")
        self.table_gone = metrics.counter(DROP_USER, errno="103")
        self.save_time = metrics.histogram(SAVE_TIME)


class BridgeMetrics:
    """Of messages that go to a bridge."""

    def __init__(self, metrics: Metrics) -> None:
        self._sent = metrics.counters(BRIDGE_SENT)
        self._errors = metrics.counters(BRIDGE_ERROR)
        self.dropped = metrics.counter(DROP_USER, errno="100")

    def sent(self, router_type: str) -> None:
        """The bridge took one."""
        self._sent[(platform(router_type),)].add()

    def refused(self, router_type: str, refusal: PushError) -> None:
        """It did not, or was not asked to."""
        reason = REASONS.get(refusal.errno, OTHER)
        if isinstance(refusal, RouterError) and refusal.router_data == {}:
            reason = "unregistered"
        self._errors[platform(router_type), reason].add()


def platform(router_type: str) -> str:
    """The label of a router type behind a bridge."""
    return router_type if router_type in BRIDGES else OTHER
