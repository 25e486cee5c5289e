"""A coroutine begun at once: value, task, exceptions, cancellation, futures."""

import asyncio
import contextvars
import gc
import warnings
from collections.abc import AsyncIterator

import pytest

from autopush.net.eager import begin

BOTH_LOOPS = True


async def value() -> int:
    return 7


def test_what_does_not_suspend_needs_neither_loop_nor_task() -> None:
    assert begin(value()) == 7


async def test_an_exception_before_the_first_suspension_is_raised_at_once() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        begin(fails())


async def test_what_suspends_becomes_a_task_for_the_rest() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    steps: list[str] = []

    async def waits() -> int:
        steps.append("before")
        got = await future
        steps.append("after")
        return got + 1

    task = begin(waits())
    assert steps == ["before"]
    assert isinstance(task, asyncio.Task)
    future.set_result(1)
    assert await task == 2
    assert steps == ["before", "after"]


async def test_the_exception_of_the_awaited_future_reaches_the_coroutine() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def waits() -> str:
        try:
            await future
        except ValueError as exc:
            return f"caught {exc}"
        return "nothing"

    task = begin(waits())
    assert isinstance(task, asyncio.Task)
    future.set_exception(ValueError("x"))
    assert await task == "caught x"


async def test_an_exception_after_the_first_suspension_is_the_tasks() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    task = begin(fails())
    assert isinstance(task, asyncio.Task)
    with pytest.raises(KeyError):
        await task


async def test_any_number_of_suspensions_of_any_kind() -> None:
    async def numbers() -> AsyncIterator[int]:
        for i in range(3):
            await asyncio.sleep(0)
            yield i

    async def works() -> list[int]:
        found: list[int] = []
        await asyncio.sleep(0)  # a bare yield
        await asyncio.sleep(0.001)  # a future
        found += [i async for i in numbers()]
        found += await asyncio.gather(value(), value())
        return found

    task = begin(works())
    assert isinstance(task, asyncio.Task)
    assert await task == [0, 1, 2, 7, 7]


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_cancelled_task_tells_the_coroutine_even_before_its_first_turn(turns: int) -> None:
    seen: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("finally")

    task = begin(waits())
    assert isinstance(task, asyncio.Task)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "finally"]


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_coroutine_may_await_after_it_was_cancelled(turns: int) -> None:
    async def stubborn() -> str:
        for _ in range(3):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                break
        await asyncio.sleep(0.001)
        return "done all the same"

    task = begin(stubborn())
    assert isinstance(task, asyncio.Task)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    assert await task == "done all the same"


async def test_a_coroutine_may_return_or_raise_when_cancelled() -> None:
    async def gives_in(answer: str | None) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if answer is None:
                raise ValueError("instead") from None
            return answer
        return ""

    first, second = begin(gives_in("yes")), begin(gives_in(None))
    assert isinstance(first, asyncio.Task)
    assert isinstance(second, asyncio.Task)
    first.cancel()
    second.cancel()
    assert await first == "yes"
    with pytest.raises(ValueError, match="instead"):
        await second


async def test_one_future_awaited_by_several_wakes_them_all() -> None:
    """The mark that Future.__await__ leaves belongs to whoever steps at that moment."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def waits() -> int:
        return await future

    ordinary = asyncio.ensure_future(waits())
    begun = [begin(waits()) for _ in range(3)]
    await asyncio.sleep(0)
    begun.append(begin(waits()))
    future.set_result(5)
    tasks = [each for each in begun if isinstance(each, asyncio.Task)]
    assert len(tasks) == 4
    assert await asyncio.gather(ordinary, *tasks) == [5] * 5


async def test_a_future_done_before_the_task_starts_is_not_missed() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def waits() -> int:
        return await future

    task = begin(waits())
    future.set_result(3)
    assert isinstance(task, asyncio.Task)
    assert await asyncio.wait_for(task, 1) == 3


async def test_after_a_turn_of_the_loop_it_is_in_its_own_task() -> None:
    async def timed() -> str:
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(0.001):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return "timed out"
        return ""

    task = begin(timed())
    assert isinstance(task, asyncio.Task)
    assert await task == "timed out"


async def test_the_task_sees_the_context_of_its_first_part_in_a_copy() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    async def sets() -> int:
        variable.set(1)
        await asyncio.sleep(0)
        seen = variable.get()
        variable.set(2)
        return seen

    task = begin(sets())
    assert isinstance(task, asyncio.Task)
    assert await task == 1
    assert variable.get() == 1


async def test_a_dropped_task_closes_the_coroutine_and_leaves_no_garbage() -> None:
    closed: list[bool] = []

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task = begin(waits())
        assert isinstance(task, asyncio.Task)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        del task
        gc.collect()
    assert closed == [True]
