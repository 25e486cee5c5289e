"""An event loop in a thread of its own, for asynchronous resources that several tests share.

It is a context manager; what was started on it must be stopped on it before it ends.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for synchronous code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop of tests")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        """Run to the end and give back its value or its exception.

        :raises TimeoutError: it took longer than `seconds`
        """
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)
