"""The order of writes: one after the other for each item, at the same time otherwise."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from keytables import KeyTuple, Throttled
from keytables.dynamodb.writes import InFlightLimit, WriteSequencer

U1, U2, V1 = ("u", "1"), ("u", "2"), ("v", "1")


class StoreClient:
    """Writes that complete when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gates: dict[str, asyncio.Future[str]] = {}

    def write(self, name: str) -> Callable[[], Awaitable[str]]:
        gate = self.gates[name] = asyncio.get_running_loop().create_future()

        async def work() -> str:
            self.begun.append(name)
            ended: str = await gate
            return ended

        return work

    def complete(self, *names: str) -> None:
        for name in names:
            self.gates[name].set_result(name)


@pytest.fixture
async def sequencer() -> WriteSequencer:
    return WriteSequencer(InFlightLimit())


async def run_scheduled() -> None:
    """Run everything that can go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_writes_of_one_item_follow_each_other(sequencer: WriteSequencer) -> None:
    database = StoreClient()
    writes = [sequencer.submit((U1,), 1, database.write(name)) for name in "abc"]
    await run_scheduled()
    assert database.begun == ["a"]
    database.complete("a")
    await run_scheduled()
    assert database.begun == ["a", "b"]
    database.complete("b", "c")
    assert await asyncio.gather(*writes) == ["a", "b", "c"]


async def test_a_batch_waits_for_each_of_its_items_and_they_for_it(
    sequencer: WriteSequencer,
) -> None:
    database = StoreClient()
    before = sequencer.submit((U1,), 1, database.write("before"))
    batch = sequencer.submit((U1, V1), 2, database.write("batch"))
    after = sequencer.submit((V1,), 1, database.write("after"))
    aside = sequencer.submit((U2,), 1, database.write("aside"))
    await run_scheduled()
    assert database.begun == ["before", "aside"]
    database.complete("before", "aside")
    await run_scheduled()
    assert database.begun == ["before", "aside", "batch"]
    database.complete("batch", "after")
    await asyncio.gather(before, batch, after, aside)


async def test_a_failure_is_logged_unless_its_wait_was_cancelled(sequencer: WriteSequencer) -> None:
    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: logged.append(context["exception"])
    )
    database = StoreClient()
    cancelled = sequencer.submit((U1,), 1, database.write("cancelled"))
    ignored = sequencer.submit((U2,), 1, database.write("ignored"))
    cancelled.cancel()
    failures = {name: Throttled(name) for name in database.gates}
    await run_scheduled()
    for name, failure in failures.items():
        database.gates[name].set_exception(failure)
    await sequencer.wait_for_all()
    del cancelled, ignored
    gc.collect()
    assert logged == [failures["ignored"]]


async def test_a_failure_keeps_nothing_alive_but_itself(sequencer: WriteSequencer) -> None:
    async def work() -> None:
        raise Throttled("no")

    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(100):
            with pytest.raises(Throttled):
                await sequencer.submit((U1,), 1, work)
        assert len(gc.get_objects()) < before + 100
    finally:
        gc.enable()


async def test_a_write_that_ends_with_its_loop_ends_the_wait_for_it(
    sequencer: WriteSequencer,
) -> None:
    database = StoreClient()
    before = asyncio.all_tasks()
    write = sequencer.submit((U1,), 1, database.write("a"))
    await run_scheduled()
    [task] = asyncio.all_tasks() - before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    sequencer.submit((U1,), 1, database.write("b"))
    await run_scheduled()
    assert database.begun == ["a", "b"]
    database.complete("b")


async def test_a_write_that_waited_too_long_is_not_sent() -> None:
    sequencer, database = WriteSequencer(InFlightLimit(max_wait=-1.0)), StoreClient()
    writes = [sequencer.submit((U1,), 1, database.write(name)) for name in "abc"]
    database.complete("a")
    assert await writes[0] == "a"
    for write in writes[1:]:
        with pytest.raises(Throttled):
            await write
    assert database.begun == ["a"]


@pytest.mark.parametrize(
    ("wait", "waits_for"),
    [
        (lambda sequencer: sequencer.wait_for_item(U1), {"u1"}),
        (lambda sequencer: sequencer.wait_for_partition("u"), {"u1", "u2"}),
        (lambda sequencer: sequencer.wait_for_all(), {"u1", "u2", "v1"}),
    ],
    ids=["an item", "a partition", "everything"],
)
async def test_a_read_waits_for_earlier_writes_to_what_it_reads(
    sequencer: WriteSequencer,
    wait: Callable[[WriteSequencer], Awaitable[None]],
    waits_for: set[str],
) -> None:
    database = StoreClient()
    names: dict[str, KeyTuple] = {"u1": U1, "u2": U2, "v1": V1}
    writes = {
        name: sequencer.submit((key,), 1, database.write(name)) for name, key in names.items()
    }
    waiting = asyncio.ensure_future(wait(sequencer))
    await run_scheduled()
    late = sequencer.submit((U1,), 1, database.write("late"))
    for number, name in enumerate(sorted(waits_for)):
        await run_scheduled()
        assert not waiting.done(), number
        database.complete(name)
    await waiting
    assert {name for name, write in writes.items() if write.done()} >= waits_for
    assert not late.done()
    database.complete("late", *(names.keys() - waits_for))
    await asyncio.gather(late, *writes.values())


async def test_writes_above_the_limit_are_throttled_until_some_complete() -> None:
    sequencer, database = WriteSequencer(InFlightLimit(max_writes=2)), StoreClient()
    first = sequencer.submit((U1,), 1, database.write("a"))
    second = sequencer.submit((U1,), 1, database.write("b"))
    with pytest.raises(Throttled):
        sequencer.submit((U2,), 1, database.write("c"))
    database.complete("a")
    await first
    third = sequencer.submit((U2,), 1, database.write("d"))
    database.complete("b", "d")
    await asyncio.gather(second, third)


async def test_bytes_are_limited_too_but_one_large_write_is_allowed() -> None:
    sequencer, database = WriteSequencer(InFlightLimit(max_bytes=10)), StoreClient()
    first = sequencer.submit((U1,), 1000, database.write("a"))
    with pytest.raises(Throttled):
        sequencer.submit((U2,), 1, database.write("b"))
    database.complete("a")
    await first


async def test_the_limit_is_shared_by_all_tables_of_an_engine() -> None:
    limit, database = InFlightLimit(max_writes=1), StoreClient()
    first = WriteSequencer(limit).submit((U1,), 1, database.write("a"))
    with pytest.raises(Throttled):
        WriteSequencer(limit).submit((U1,), 1, database.write("b"))
    database.complete("a")
    await first
