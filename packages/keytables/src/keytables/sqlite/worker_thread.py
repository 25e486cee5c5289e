"""A thread for calls that may block, and how a busy event loop lets it run.

Rule: the loop notices the end of a job within milliseconds, even if it is never idle.

A thread that returns from the disk needs the interpreter lock. A busy event loop releases that lock
only for the microsecond of its poll, and acquires it again before the thread has woken; each
release also restarts the interval after which the interpreter would force a switch. Measured, a
commit was then noticed up to ten seconds late. So while a job is running, the loop now and then
waits for it a fraction of a millisecond *without* the interpreter lock. An idle loop pays nothing:
the job ends before the first of these waits.

``ThreadPoolExecutor`` cannot replace it: it has no such wait, and the interpreter does not exit
before its threads end, while a job of this one may be blocked by another process for good.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

Job: TypeAlias = Callable[[], Exception | None]
"""Runs in the thread; returns the error, if any."""

_FIRST_WAIT: Final = 0.001
_MAX_INTERVAL: Final = 0.016
"""Seconds after which the loop waits for a job first, and between two waits at most."""

_WAIT: Final = 0.0003
"""Seconds of one wait."""


class WorkerThread:
    """A daemon thread that runs one job at a time for one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._finished = threading.Lock()
        self._finished.acquire()
        self._error: Exception | None = None
        self._on_done: Callable[[Exception | None], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._on_abandoned: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._on_done is not None

    def submit(self, job: Job, on_done: Callable[[Exception | None], None]) -> None:
        """Run ``job`` in the thread, then call ``on_done`` with its error on the loop."""
        assert self._on_done is None, "one job at a time"
        self._timer = self._loop.call_later(_FIRST_WAIT, self._wait, _FIRST_WAIT)
        self._on_done = on_done
        self._jobs.put(job)

    def stop(self, on_abandoned: Callable[[], None] | None = None) -> None:
        """End the thread after its job, without waiting for it.

        If a job is running, the thread then calls ``on_abandoned``; the process may exit before.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._on_done is not None:
            self._on_abandoned = on_abandoned
        self._on_done = None
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._error = job()
            except Exception as error:  # noqa: BLE001 - given to the callback on the loop
                self._error = error
            except BaseException as error:  # noqa: BLE001 - the thread goes on in any case
                self._error = RuntimeError(f"{type(error).__name__}: {error}")
            self._finished.release()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._on_message)
            del job
        if self._on_abandoned is not None:
            self._on_abandoned()

    def _on_message(self) -> None:
        # If a wait has noticed the end first, no job is running, or the next one.
        if self._on_done is not None and self._finished.acquire(False):
            self._end()

    def _wait(self, interval: float) -> None:
        if self._finished.acquire(timeout=_WAIT):
            self._end()
        else:
            interval = min(interval * 1.5, _MAX_INTERVAL)
            self._timer = self._loop.call_later(interval, self._wait, interval)

    def _end(self) -> None:
        on_done, error = self._on_done, self._error
        if self._timer is not None:
            self._timer.cancel()
        self._on_done = self._timer = self._error = None
        assert on_done is not None
        on_done(error)
