"""Writes under way: in order for each item, side by side otherwise."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from keytables import KeyTuple, Throttled, Unavailable
from keytables.dynamodb import order as module
from keytables.dynamodb.order import Order, Room

U1, U2, V1 = ("u", "1"), ("u", "2"), ("v", "1")


class Database:
    """Writes that end when told to."""

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

    def end(self, *names: str) -> None:
        for name in names:
            self.gates[name].set_result(name)


@pytest.fixture
async def order() -> Order:
    return Order(Room())


async def turn() -> None:
    """Let everything go on that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_writes_of_one_item_go_one_after_the_other(order: Order) -> None:
    database = Database()
    writes = [order.submit((U1,), 1, database.write(name)) for name in "abc"]
    await turn()
    assert database.begun == ["a"]
    database.end("a")
    await turn()
    assert database.begun == ["a", "b"]
    database.end("b", "c")
    assert await asyncio.gather(*writes) == ["a", "b", "c"]


async def test_writes_of_different_items_go_side_by_side(order: Order) -> None:
    database = Database()
    writes = [order.submit((key,), 1, database.write(key[1] + key[0])) for key in (U1, U2, V1)]
    await turn()
    assert database.begun == ["1u", "2u", "1v"]
    database.end(*database.begun)
    await asyncio.gather(*writes)


async def test_a_failure_lets_the_next_one_go(order: Order) -> None:
    database = Database()
    first = order.submit((U1,), 1, database.write("a"))
    second = order.submit((U1,), 1, database.write("b"))
    await turn()
    database.gates["a"].set_exception(Throttled("no"))
    database.end("b")
    with pytest.raises(Throttled):
        await first
    assert await second == "b"


async def test_a_batch_waits_for_each_of_its_items_and_they_for_it(order: Order) -> None:
    database = Database()
    before = order.submit((U1,), 1, database.write("before"))
    batch = order.submit((U1, V1), 2, database.write("batch"))
    after = order.submit((V1,), 1, database.write("after"))
    aside = order.submit((U2,), 1, database.write("aside"))
    await turn()
    assert database.begun == ["before", "aside"]
    database.end("before", "aside")
    await turn()
    assert database.begun == ["before", "aside", "batch"]
    database.end("batch", "after")
    await asyncio.gather(before, batch, after, aside)


async def test_giving_up_the_wait_does_not_recall_the_write(order: Order) -> None:
    database = Database()
    write = order.submit((U1,), 1, database.write("a"))
    write.cancel()
    await turn()
    assert database.begun == ["a"]
    settled = asyncio.ensure_future(order.settled(U1))
    await turn()
    assert not settled.done()
    database.end("a")
    await settled


async def test_a_failure_is_told_unless_its_wait_was_given_up(order: Order) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: complaints.append(context["exception"])
    )
    database = Database()
    given_up = order.submit((U1,), 1, database.write("given up"))
    forgotten = order.submit((U2,), 1, database.write("forgotten"))
    given_up.cancel()
    failures = {name: Throttled(name) for name in database.gates}
    await turn()
    for name, failure in failures.items():
        database.gates[name].set_exception(failure)
    await order.all_settled()
    del given_up, forgotten
    gc.collect()
    assert complaints == [failures["forgotten"]]


async def test_a_failure_keeps_nothing_alive_but_itself(order: Order) -> None:
    async def work() -> None:
        raise Throttled("no")

    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(100):
            with pytest.raises(Throttled):
                await order.submit((U1,), 1, work)
        assert len(gc.get_objects()) < before + 100
    finally:
        gc.enable()


async def test_who_waits_for_a_write_that_ends_with_its_loop_does_not_wait_on(order: Order) -> None:
    database = Database()
    before = asyncio.all_tasks()
    write = order.submit((U1,), 1, database.write("a"))
    await turn()
    [task] = asyncio.all_tasks() - before
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    order.submit((U1,), 1, database.write("b"))
    await turn()
    assert database.begun == ["a", "b"]
    database.end("b")


async def test_a_write_that_waited_too_long_is_not_sent(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DELAY", -1.0)
    database = Database()
    writes = [order.submit((U1,), 1, database.write(name)) for name in "abc"]
    database.end("a")
    assert await writes[0] == "a"
    for write in writes[1:]:
        with pytest.raises(Throttled):
            await write
    assert database.begun == ["a"]


@pytest.mark.parametrize(
    ("wait", "waits_for"),
    [
        (lambda order: order.settled(U1), {"u1"}),
        (lambda order: order.partition_settled("u"), {"u1", "u2"}),
        (lambda order: order.all_settled(), {"u1", "u2", "v1"}),
    ],
    ids=["an item", "a partition", "everything"],
)
async def test_a_read_waits_for_what_it_reads_and_no_more(
    order: Order, wait: Callable[[Order], Awaitable[None]], waits_for: set[str]
) -> None:
    database = Database()
    names: dict[str, KeyTuple] = {"u1": U1, "u2": U2, "v1": V1}
    writes = {name: order.submit((key,), 1, database.write(name)) for name, key in names.items()}
    settled = asyncio.ensure_future(wait(order))
    await turn()
    late = order.submit((U1,), 1, database.write("late"))
    for number, name in enumerate(sorted(waits_for)):
        await turn()
        assert not settled.done(), number
        database.end(name)
    await settled
    assert {name for name, write in writes.items() if write.done()} >= waits_for
    assert not late.done()
    database.end("late", *(names.keys() - waits_for))
    await asyncio.gather(late, *writes.values())


async def test_what_is_settled_is_not_waited_for(order: Order) -> None:
    for coroutine in (order.settled(U1), order.partition_settled("u"), order.all_settled()):
        with pytest.raises(StopIteration):
            coroutine.send(None)


async def test_beyond_the_bound_writes_are_throttled_until_some_end() -> None:
    order, database = Order(Room(max_waiting=2)), Database()
    first = order.submit((U1,), 1, database.write("a"))
    second = order.submit((U1,), 1, database.write("b"))
    with pytest.raises(Throttled):
        order.submit((U2,), 1, database.write("c"))
    database.end("a")
    await first
    third = order.submit((U2,), 1, database.write("d"))
    database.end("b", "d")
    await asyncio.gather(second, third)


async def test_bytes_are_bounded_too_but_one_large_write_goes() -> None:
    order, database = Order(Room(max_waiting_bytes=10)), Database()
    first = order.submit((U1,), 1000, database.write("a"))
    with pytest.raises(Throttled):
        order.submit((U2,), 1, database.write("b"))
    database.end("a")
    await first


async def test_the_bound_is_one_for_all_tables_of_an_engine() -> None:
    room, database = Room(max_waiting=1), Database()
    first = Order(room).submit((U1,), 1, database.write("a"))
    with pytest.raises(Throttled):
        Order(room).submit((U1,), 1, database.write("b"))
    database.end("a")
    await first


async def test_nothing_begins_once_the_room_is_closed(order: Order) -> None:
    order.room.closed = True
    with pytest.raises(Unavailable):
        order.submit((U1,), 1, Database().write("a"))
