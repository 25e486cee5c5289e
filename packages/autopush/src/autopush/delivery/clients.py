"""What the node knows of a client from its upgrade request.

Rule: connections of the same client software share one object, as there are many of them; how many
objects are kept for that is bounded.
"""

from functools import lru_cache
from typing import Final

from autopush.protocol.session_metrics import SessionMetrics
from autopush.telemetry.metrics import Metrics
from autopush.telemetry.user_agent_names import MAX_HEADER, UserAgentNames, parse_user_agent

CACHED: Final = 2048
MAX_HOST: Final = 255


class Client:
    """`host`: of the Host header. `metrics`: for sessions that take messages."""

    __slots__ = ("host", "metrics", "names")

    def __init__(self, names: UserAgentNames, host: str, metrics: SessionMetrics) -> None:
        self.names = names
        self.host = host
        self.metrics = metrics


class Clients:
    """The clients of one node, by their headers."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._session_metrics: dict[tuple[str, str], SessionMetrics] = {}
        self._find = lru_cache(CACHED)(self._new)

    def find(self, user_agent: str, host: str) -> Client:
        """The client that sends these headers, "" for one that it does not send."""
        return self._find(user_agent[:MAX_HEADER], host[:MAX_HOST])

    def _new(self, user_agent: str, host: str) -> Client:
        names = parse_user_agent(user_agent)
        families = names.metric_os, names.metric_browser
        if families not in self._session_metrics:
            self._session_metrics[families] = SessionMetrics(self._metrics, names)
        return Client(names, host, self._session_metrics[families])
