"""Work that nobody waits for and that must not get lost: acked rows to delete, messages to save.

Rule: a job that fails because the store cannot just now is tried again, less and less often, until
it is done or the process ends; how many may wait for another try is bounded.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from autopush.net.timers import TimerWheel
from autopush.telemetry import logs
from keytables import TableNotFound, Throttled, Unavailable

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
MAX_RETRIES: Final = 100_000
POLL: Final = 0.05

Job = Callable[[], Awaitable[object]]

_log = logs.get("jobs")


class Jobs:
    """The jobs under way, and those that wait for another try. Pauses are seconds."""

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._running: set[asyncio.Future[object]] = set()
        self._retries = 0

    def start(self, job: Job, over: Callable[[], None] | None = None) -> None:
        """Begin the job now; `over` is called when it is done, or given up."""
        self._try(job, over, FIRST_PAUSE)

    def _try(self, job: Job, over: Callable[[], None] | None, pause: float) -> None:
        future = asyncio.ensure_future(job())
        self._running.add(future)
        future.add_done_callback(partial(self._ended, job, over, pause))

    def _ended(
        self,
        job: Job,
        over: Callable[[], None] | None,
        pause: float,
        future: asyncio.Future[object],
    ) -> None:
        self._running.discard(future)
        error = None if future.cancelled() else future.exception()
        if isinstance(error, TableNotFound):
            _log.warning("A job's table is gone, and what it was about", table=error.table)
        elif isinstance(error, Throttled | Unavailable):
            if self._retries < MAX_RETRIES:
                self._retries += 1
                self._wheel.after(pause, self._again, job, over, min(pause * 2, LONGEST_PAUSE))
                return
            _log.error("Gave up on a job: too many wait already", error=type(error).__name__)
        elif error is not None:
            _log.exception("A job failed for good", error=error)
        if over is not None:
            over()

    def _again(self, job: Job, over: Callable[[], None] | None, pause: float) -> None:
        self._retries -= 1
        self._try(job, over, pause)

    async def finished(self, seconds: float) -> None:
        """Wait until all jobs are done, for at most so long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (self._running or self._retries) and (left := deadline - loop.time()) > 0:
            if self._running:
                await asyncio.wait(self._running, timeout=left)
            else:  # all that is left has failed and waits for its next try
                await asyncio.sleep(min(left, POLL))
