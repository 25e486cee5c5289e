"""An event loop that has only a clock: tests advance it."""

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

T = TypeVar("T")


class FakeHandle:
    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.when = when
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """`time`, `call_at`, `call_later`, `call_soon`, `run_in_executor` and `call_exception_handler`,
    nothing else.
    """

    def __init__(self, start: float = 1000.0) -> None:
        self.now = start
        self.busy = 0.0
        """Seconds that callbacks have taken; a test adds to it."""
        self.errors: list[dict[str, Any]] = []
        self._queue: list[tuple[float, int, FakeHandle]] = []
        self._count = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """This object, typed as the code under test expects."""
        return cast(asyncio.AbstractEventLoop, self)

    @property
    def scheduled(self) -> list[float]:
        """When the calls not yet made are due, earliest first."""
        return sorted(when for when, _, handle in self._queue if not handle.cancelled)

    def time(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        """A clock that, unlike `time`, moves on during a turn of the loop."""
        return self.now + self.busy

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> FakeHandle:
        handle = FakeHandle(when, callback, args)
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, handle))
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> FakeHandle:
        return self.call_at(self.now + delay, callback, *args)

    def call_soon(self, callback: Callable[..., object], *args: Any) -> FakeHandle:
        return self.call_at(self.now, callback, *args)

    def run_in_executor(self, _: object, function: Callable[[], T]) -> "Future[T]":
        """Done at once."""
        future: Future[T] = Future()
        future.set_result(function())
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def turn(self) -> None:
        """One turn of the loop: the calls that are due now, without those they schedule."""
        due = []
        while self._queue and self._queue[0][0] <= self.now:
            due.append(heapq.heappop(self._queue)[2])
        for handle in due:
            if not handle.cancelled:
                handle.callback(*handle.args)

    def advance(self, seconds: float = 0.0, *, stall: bool = False) -> None:
        """Let time pass and make the calls that fall due.

        With `stall` the clock jumps first and the calls are made late, as in a blocked process.
        """
        end = self.now + seconds
        if stall:
            self.now = end
        while self._queue and self._queue[0][0] <= end:
            when, _, handle = heapq.heappop(self._queue)
            if not handle.cancelled:
                self.now = max(self.now, when)
                handle.callback(*handle.args)
        self.now = end
