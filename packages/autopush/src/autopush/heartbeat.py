"""Which workers of the service serve: each records once a second that its event loop runs.

Rule: a worker that ended, that is stopped or whose event loop is stuck counts as missing within
`MISSING_AFTER` seconds, whichever worker is asked. So times are those of the monotonic clock, which
all processes of a machine share.
"""

import time
from collections.abc import Callable
from typing import Final

from autopush.net.timers import Timer, TimerWheel
from autopush.telemetry.metric_table import WORKER_HEARTBEAT, WORKER_READY
from autopush.telemetry.metrics import Metrics, SharedMetrics

BEAT_INTERVAL: Final = 1.0
"""Seconds between two heartbeats."""
MISSING_AFTER: Final = 5.0
"""Seconds without a heartbeat after which a worker counts as missing."""


class Heartbeat:
    """The heartbeat of this worker, from `start` to `stop`."""

    def __init__(
        self, metrics: Metrics, wheel: TimerWheel, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ready = metrics.gauge(WORKER_READY)
        self._beat = metrics.gauge(WORKER_HEARTBEAT)
        self._wheel = wheel
        self._clock = clock
        self._timer: Timer | None = None

    def start(self) -> None:
        """The worker serves."""
        self._on_timer()
        self._ready.set(1)

    def stop(self) -> None:
        """The worker serves no more."""
        self._ready.set(0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._beat.set(self._clock())
        self._timer = self._wheel.after(BEAT_INTERVAL, self._on_timer)


def ready_workers(shared: SharedMetrics, now: float) -> int:
    """How many workers serve; `now` is the monotonic clock's."""
    beats = shared.per_worker(WORKER_HEARTBEAT)
    ready = shared.per_worker(WORKER_READY)
    return sum(
        bool(is_ready) and now - beat <= MISSING_AFTER
        for is_ready, beat in zip(ready, beats, strict=True)
    )
