"""Which writes are refused, and who learns of the outcome of one."""

import asyncio

import pytest

from keytables import ConditionFailed, KeytablesError, TableNotFound, Throttled, Unavailable
from keytables.commit.completions import CompletionCounter, clone_error
from keytables.commit.writes import IncompleteWrites, Operation
from keytables.errors import StoreClosed


def write(size: int = 10) -> Operation:
    operation = Operation()
    operation.size, operation.waiters, operation.result = size, None, "done"
    return operation


@pytest.fixture
async def writes() -> IncompleteWrites:
    loop = asyncio.get_running_loop()
    return IncompleteWrites(loop, max_waiting=3, max_waiting_bytes=100)


def future() -> "asyncio.Future[object]":
    return asyncio.get_running_loop().create_future()


def submit(writes: IncompleteWrites, operation: Operation) -> "asyncio.Future[object]":
    completion = future()
    assert writes.add(operation, completion) is not completion.done()
    return completion


def replaced(writes: IncompleteWrites, older: Operation, size: int = 1) -> "asyncio.Future[object]":
    """The result of a write that another one does."""
    newer = write(size)
    result = submit(writes, newer)
    writes.replace(older, newer)
    return result


@pytest.mark.parametrize(("size", "fit"), [(10, 3), (60, 2)], ids=["by number", "by size"])
async def test_too_many_waiting_writes_are_throttled(
    writes: IncompleteWrites, size: int, fit: int
) -> None:
    operations = [write(size) for _ in range(5)]
    results = [submit(writes, each) for each in operations]
    refused = [type(each.exception()) for each in results[fit:]]
    assert refused == [Throttled] * (5 - fit)
    assert not any(each.done() for each in results[:fit])
    writes.complete(operations[0], None)
    assert not submit(writes, write(size)).done()


async def test_a_replaced_write_counts_until_the_one_in_its_place_is_completed(
    writes: IncompleteWrites,
) -> None:
    first = write(90)
    results = [submit(writes, first), *(replaced(writes, first, size) for size in (50, 20))]
    assert (writes.count, writes.bytes) == (3, 20)
    assert writes.refuses(future())
    writes.complete(first, None)
    assert [each.result() for each in results] == ["done"] * 3
    assert (writes.count, writes.bytes) == (0, 0)


async def test_writes_that_share_an_outcome_each_have_an_error_of_their_own(
    writes: IncompleteWrites,
) -> None:
    first = write()
    results = [submit(writes, first), replaced(writes, first)]
    writes.complete(first, Unavailable("disk"))
    errors = [each.exception() for each in results]
    assert [type(each) for each in errors] == [Unavailable] * 2
    assert errors[0] is not errors[1]


async def test_who_no_longer_waits_does_not_affect_the_others(writes: IncompleteWrites) -> None:
    first = write()
    results = [submit(writes, first), replaced(writes, first)]
    results[0].cancel()
    writes.complete(first, None)
    assert results[1].result() == "done"


@pytest.mark.parametrize("error", [None, Unavailable("disk")])
async def test_a_read_waits_for_the_completion_whatever_it_is(
    writes: IncompleteWrites, error: KeytablesError | None
) -> None:
    operation = write()
    result, waiters = submit(writes, operation), [writes.wait_for(operation) for _ in range(2)]
    assert not waiters[0].done()
    writes.complete(operation, error)
    assert all(each.done() for each in waiters)
    assert result.exception() is error


async def test_a_write_that_was_answered_early_is_incomplete_and_answered_once(
    writes: IncompleteWrites,
) -> None:
    operation = write()
    result, reading = submit(writes, operation), writes.wait_for(operation)
    failure = Throttled("no answer")
    writes.answer(operation, failure)
    assert reading.done()
    error = result.exception()
    assert isinstance(error, Throttled)
    assert error is not failure
    assert writes.count == 1
    writes.complete(operation, None)
    assert writes.count == 0


async def test_once_closed_all_are_refused_and_empty_when_the_last_is_completed(
    writes: IncompleteWrites,
) -> None:
    operation = write()
    submit(writes, operation)
    writes.is_closed = True
    assert isinstance(submit(writes, write()).exception(), StoreClosed)
    empty = asyncio.ensure_future(writes.wait_empty())
    await asyncio.sleep(0)
    assert not empty.done()
    writes.complete(operation, None)
    await empty


async def test_a_batch_is_done_after_its_last_write_with_its_first_error() -> None:
    whole = asyncio.get_running_loop().create_future()
    counter = CompletionCounter(whole, 3)
    counter.set_exception(Unavailable("first"))
    counter.set_exception(Unavailable("second"))
    assert not whole.done()
    counter.set_result(None)
    assert str(whole.exception()) == "first"
    nothing = asyncio.get_running_loop().create_future()
    CompletionCounter(nothing, 0)
    assert nothing.done()


@pytest.mark.parametrize(
    "error", [TableNotFound("gone"), ConditionFailed({"a": 1}), Unavailable("disk")]
)
def test_a_cloned_error_is_equal_and_another_object(error: KeytablesError) -> None:
    clone = clone_error(error)
    assert clone is not error
    assert (type(clone), str(clone), vars(clone)) == (type(error), str(error), vars(error))
    assert clone.__cause__ is error
