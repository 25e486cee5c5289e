"""Event loops of tests: which ones coroutine tests run on, one in a thread, and none at all.

A conftest imports the hook: modules below it that say `BOTH_LOOPS = True` then run their coroutine
tests on uvloop, which serves in production, and in CI on asyncio too; those that say
`VIRTUAL_TIME = True` on a loop whose time passes only when nothing is left to do. If it imports
`collect_what_is_left`, a module whose tests leave a transport open fails.
"""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Self, TypeVar

import pytest
import uvloop

from support.simulation.virtual_loop import VirtualLoop
from support.soak import CI, SOAK

IDLE = 3
"""Turns of a loop without a callback, after which none comes by itself."""

Factories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Factories:
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    assert isinstance(item, pytest.Function)
    if getattr(item.module, "VIRTUAL_TIME", False):
        return {"virtual": VirtualLoop}
    if not getattr(item.module, "BOTH_LOOPS", False):
        del loops["uvloop"]
    elif not (CI or SOAK):
        del loops["asyncio"]
    return loops


@pytest.fixture(scope="module", autouse=True)
def collect_what_is_left() -> Iterator[None]:
    """Collect what the tests of a module left, so that its last test fails for an open transport.

    Otherwise a later test of any module does, whenever the collector finds it. What still exists is
    frozen, so that the next module pays only for its own objects.
    """
    yield
    gc.collect()
    gc.freeze()


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


def has_callbacks() -> bool:
    """Whether anything but the caller runs in this turn of the loop or the next. That of a loop
    which does not show it may.
    """
    return bool(getattr(asyncio.get_running_loop(), "_ready", True))


async def turns(most: int, before: Callable[[], object], after: Callable[[], object]) -> None:
    """Take turns of the loop, and call these before and after each, until in some of them nothing
    else has happened; or so many.
    """
    idle = 0
    for _ in range(most):
        before()
        await asyncio.sleep(0)
        after()
        idle = 0 if has_callbacks() else idle + 1
        if idle == IDLE:
            return


async def until(condition: Callable[[], object]) -> None:
    """Wait for what has no event: only the inside of a server or a thread shows it."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def at_once(coro: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine; fails if it has to wait."""
    try:
        coro.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    coro.close()
    pytest.fail("it had to wait")
