"""SIGTERM during the start, before there is anything to finish: it ends the process.

Rule: on an event loop, where most of the waiting is done, the signal handler raises nothing: what
is raised in the callback of a weak reference or in a `__del__` is lost, and a loop has many of the
former. The handler cancels what the loop runs. Elsewhere it raises, and what is lost there is
noticed by the next step of the start.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class StartStopped(SystemExit):
    """The signal came. An event loop lets a SystemExit pass."""


class StopSignal:
    """The signal, and the steps of the start that it ends."""

    def __init__(self) -> None:
        self._is_received = False
        self._cancel: Callable[[], object] | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle it, until the service does so itself."""
        previous = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    def check(self) -> None:
        """:raises StartStopped: the signal has come"""
        if self._is_received:
            raise StartStopped

    def run(
        self,
        step: Coroutine[Any, Any, T],
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> T:
        """As `asyncio.run`.

        :raises StartStopped: the signal has come, or came meanwhile
        """
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                return runner.run(self._cancellable(step))
        except asyncio.CancelledError:
            self.check()
            raise

    async def _cancellable(self, step: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(step)
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._is_received:
            task.cancel()
        try:
            return await task
        finally:
            self._cancel = None

    def _on_signal(self, *_: object) -> None:
        self._is_received = True
        if self._cancel is None:
            raise StartStopped
        self._cancel()
