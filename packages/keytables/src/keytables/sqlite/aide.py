"""One thread for calls that may block, and how a busy loop lets it run.

The one rule: a job's end is noticed within milliseconds, even by a loop that never sleeps.

A thread that comes back from the disk needs the interpreter lock. A loop thread with work at hand
gives that lock up only for the microsecond of a poll and takes it again before the sleeping thread
has woken; and each such moment restarts the interval after which the interpreter would force a
switch. Measured, a commit then took up to ten seconds to be noticed. So while a job is out, the
loop stops now and then and waits a fraction of a millisecond *without* the interpreter lock. When
the loop is idle this costs nothing: the job is done before the first look.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

__all__ = ["Aide", "Job"]

Job: TypeAlias = Callable[[], Exception | None]
"""Runs in the thread; returns what went wrong, if anything."""

_FIRST_LOOK: Final = 0.001
_LAST_LOOK: Final = 0.016
_PATIENCE: Final = 0.0003


class Aide:
    """A thread that does one job at a time for one event loop."""

    __slots__ = (
        "_finished",
        "_jobs",
        "_last",
        "_look",
        "_loop",
        "_outcome",
        "_then",
        "_thread",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._finished = threading.Lock()
        self._finished.acquire()
        self._outcome: Exception | None = None
        self._then: Callable[[Exception | None], None] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._last: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a job is out."""
        return self._then is not None

    def do(self, job: Job, then: Callable[[Exception | None], None]) -> None:
        """Run ``job`` in the thread, then call ``then`` with its outcome on the loop."""
        assert self._then is None, "one job at a time"
        self._then = then
        self._jobs.put(job)
        self._look = self._loop.call_later(_FIRST_LOOK, self._look_after, _FIRST_LOOK)

    def stop(self, last: Callable[[], None] | None = None) -> None:
        """End the thread once its job is done, without waiting for it.

        ``last`` is what the thread does then, if a job is out now; the process may end before.
        """
        if self._look is not None:
            self._look.cancel()
        if self.busy:
            self._last = last
        self._then = None
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._outcome = job()
            except Exception as error:  # noqa: BLE001 - handed to the loop, which judges it
                self._outcome = error
            self._finished.release()
            with contextlib.suppress(RuntimeError):  # the loop was closed without us
                self._loop.call_soon_threadsafe(self._told)
            del job
        if self._last is not None:
            self._last()

    def _told(self) -> None:
        # A look may have found out first; then there is no job out, or another one.
        if self._then is not None and self._finished.acquire(False):
            self._end()

    def _look_after(self, pause: float) -> None:
        if self._finished.acquire(timeout=_PATIENCE):
            self._end()
        else:
            pause = min(pause * 1.5, _LAST_LOOK)
            self._look = self._loop.call_later(pause, self._look_after, pause)

    def _end(self) -> None:
        then, outcome = self._then, self._outcome
        if self._look is not None:
            self._look.cancel()
        self._then = self._look = self._outcome = None
        assert then is not None
        then(outcome)
