"""Run a coroutine at once, and make a task only if it has to wait.

The rule: what finishes without suspending costs no task and no turn of the loop.

The part before the first suspension runs in the caller, outside any task of its own. In that part

- `asyncio.current_task()` is the caller's task, or None in a callback: `asyncio.timeout`,
  `asyncio.TaskGroup` and (from 3.12) `asyncio.wait_for` raise RuntimeError there, or act on the
  caller. A coroutine that needs them awaits `asyncio.sleep(0)` first: after it, it is in its task;
- a context variable that is set is set for the caller too.

The task starts with a copy of the caller's context as it is at the first suspension.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Yielded = asyncio.Future[Any] | None
"""What a coroutine on asyncio yields: a future it waits for, or None for one turn of the loop."""


def begin(coro: Coroutine[Any, Any, T]) -> asyncio.Task[T] | T:
    """Run `coro` up to its first suspension.

    Returns its value if it finished, else a task for the rest. An exception before the first
    suspension is raised here, one after it is the task's.
    """
    try:
        waiting = coro.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    if waiting is not None:
        # Whoever else awaits this future before our task starts expects the mark unset.
        waiting._asyncio_future_blocking = False
    rest = _in_task(coro, waiting)
    # Up to the first yield now, so that a task cancelled before it ran still tells `coro`.
    rest.send(None)
    return asyncio.get_running_loop().create_task(rest)


async def _in_task(coro: Coroutine[Any, Any, T], waiting: Yielded) -> T:
    return await _rest(coro, waiting)


@types.coroutine
def _rest(coro: Coroutine[Any, Any, T], waiting: Yielded) -> Generator[Yielded, None, T]:
    thrown: BaseException | None = None
    try:
        yield None  # where `begin` leaves it
    except BaseException as exc:  # noqa: BLE001 - `coro` decides what a cancellation means
        thrown = exc
    else:
        if waiting is not None:
            waiting._asyncio_future_blocking = True  # as Future.__await__ does
    while True:
        if thrown is None:
            try:
                yield waiting
            except BaseException as exc:  # noqa: BLE001 - the future's exception, a cancellation
                thrown = exc
        try:
            waiting = coro.send(None) if thrown is None else coro.throw(thrown)
        except StopIteration as finished:
            value: T = finished.value
            return value
        finally:
            thrown = None  # its traceback holds this frame: a cycle
