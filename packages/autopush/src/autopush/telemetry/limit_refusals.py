"""What limits have refused: a counter of each limit, and a log line a minute.

Rule: a refusal costs the service next to nothing, however many there are; the operator learns of
them all the same.
"""

import time
from collections.abc import Callable
from typing import Final

from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.telemetry.metrics import Metrics

INTERVAL: Final = 60.0
"""Seconds between two lines about one limit."""

_log = logs.get(__name__)


class LimitRefusals:
    """The refusals of one worker."""

    def __init__(
        self, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._counters = {
            limit: counter for (limit,), counter in metrics.counters(LIMIT_REFUSED).items()
        }
        self._lines = RepeatLimiter(1, INTERVAL, monotonic=monotonic)

    def add(self, limit: str, address: str = "") -> None:
        """A limit has refused something. `limit`: of LIMITS; `address`: of the client, where it is
        known.
        """
        self._counters[limit].add()
        count = self._lines.admit(limit)
        if count is not None:
            client = {"remote_ip": address} if address else {}
            _log.warning("Refused by a limit", limit=limit, **client, **count)
