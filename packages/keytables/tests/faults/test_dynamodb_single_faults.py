"""Each fault with each operation: once, and for all attempts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keytables import Engine, Item, TableHandle, Throttled, Unavailable
from support.fault_proxy import (
    NOT_APPLIED,
    NOT_DELIVERED,
    Fault,
    FaultProxy,
    always,
    no_faults,
    randomly,
    script,
)
from support.random_writer import ADD, NEWER, SAME, SET, TAKE
from support.soak import slow_after, times
from support.table_engines import MESSAGES, USERS

pytestmark = pytest.mark.slow

OpenEngine = Callable[[], Awaitable[Engine]]

Use = Callable[[TableHandle], Awaitable[object]]
STORED: Item = {"user": "u", "place": "1", "n": 1, "token": "t", "members": frozenset({"x"})}
KEY = ("u", "1")
MANY: list[Item] = [{"user": "u", "place": f"m{number}"} for number in range(30)]

WRITES: dict[str, tuple[str, Use, Item | None]] = {
    "put": ("PutItem", lambda t: t.put({**STORED, "n": 2}), {**STORED, "n": 2}),
    "conditional put": (
        "PutItem",
        lambda t: t.put({**STORED, "n": 2}, condition=NEWER, values={"n": 2}),
        {**STORED, "n": 2},
    ),
    "update": (
        "UpdateItem",
        lambda t: t.update(KEY, SET, {"n": 3, "token": "u"}),
        {**STORED, "n": 3, "token": "u"},
    ),
    "conditional update": (
        "UpdateItem",
        lambda t: t.update(KEY, SET, {"n": 3, "token": "u", "old": "t"}, condition=SAME),
        {**STORED, "n": 3, "token": "u"},
    ),
    "set add": (
        "UpdateItem",
        lambda t: t.update(KEY, ADD, {"members": {"y"}}),
        {**STORED, "members": frozenset("xy")},
    ),
    "set take": (
        "UpdateItem",
        lambda t: t.update(KEY, TAKE, {"members": {"x"}}),
        {name: value for name, value in STORED.items() if name != "members"},
    ),
    "delete": ("DeleteItem", lambda t: t.delete(KEY), None),
    "conditional delete": (
        "DeleteItem",
        lambda t: t.delete(KEY, condition=SAME, values={"old": "t"}),
        None,
    ),
    "batch write": (
        "BatchWriteItem",
        lambda t: t.batch_write(puts=[{**STORED, "n": 2}, *MANY]),
        {**STORED, "n": 2},
    ),
}
READS: dict[str, tuple[str, Callable[[TableHandle], Awaitable[Any]]]] = {
    "get": ("GetItem", lambda t: t.get(KEY)),
    "query": ("Query", lambda t: t.query("u")),
    "scan": ("Scan", lambda t: t.scan()),
    "batch get": ("BatchGetItem", lambda t: t.batch_get([KEY, ("nobody", "1")])),
}
QUICK = [
    fault for fault in Fault if fault not in (Fault.NONE, Fault.NO_RESPONSE, Fault.PARTIAL_BATCH)
]


@pytest.fixture
async def table(open_engine: OpenEngine) -> TableHandle:
    table = await (await open_engine()).ensure_table(MESSAGES)
    await table.put(STORED)
    return table


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.name)
async def test_a_write_survives_a_fault_and_is_applied_once(
    table: TableHandle, proxy: FaultProxy, fault: Fault
) -> None:
    for name, (operation, call, expected) in WRITES.items():
        await table.put(STORED)
        proxy.reset_counts()
        proxy.plan = script(fault, only=operation)
        await call(table)
        assert await table.get(KEY) == expected, name
        assert proxy.faults[fault] == 1, name
        first = proxy.served[0]
        assert (first.delivered, first.status) == (fault not in NOT_DELIVERED, 200), name


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.name)
async def test_a_read_survives_a_fault(table: TableHandle, proxy: FaultProxy, fault: Fault) -> None:
    for name, (operation, call) in READS.items():
        proxy.reset_counts()
        proxy.plan = script(fault, only=operation)
        answer = await call(table)
        items = answer if isinstance(answer, list | dict) else answer.items
        assert items in (STORED, [STORED]), name
        assert proxy.faults[fault] == 1, name


LASTING = [fault for fault in QUICK if fault not in (Fault.DELAYED, Fault.SLOW, Fault.LATE)]


@pytest.mark.parametrize("fault", slow_after(3, LASTING), ids=lambda fault: fault.name)
async def test_a_lasting_fault_ends_with_a_typed_error_and_an_item_that_is_whole(
    table: TableHandle, proxy: FaultProxy, fault: Fault
) -> None:
    throttled = fault in (Fault.THROTTLED, Fault.THROTTLED_GENERALLY)
    reads = [(name, operation, call, STORED) for name, (operation, call) in READS.items()]
    for name, operation, call, left in [*((n, *write) for n, write in WRITES.items()), *reads]:
        if name.startswith("batch") and fault not in (Fault.THROTTLED, Fault.CLOSED):
            continue  # a batch takes longer to give up
        await table.put(STORED)
        proxy.plan = always(fault, only=operation)
        with pytest.raises(Throttled if throttled else Unavailable):
            await call(table)
        proxy.plan = no_faults
        stored = await table.get(KEY)
        assert stored == (STORED if fault in NOT_APPLIED else left), name
        assert (await table.query("u", limit=1)).items == ([stored] if stored else []), name


async def test_a_database_that_does_not_respond_is_unavailable_in_time(
    table: TableHandle, proxy: FaultProxy
) -> None:
    proxy.plan = always(Fault.NO_RESPONSE)
    with pytest.raises(Unavailable):
        await table.put({**STORED, "n": 2})
    proxy.plan = no_faults
    assert await table.get(KEY) == {**STORED, "n": 2}


async def test_batches_are_completed(table: TableHandle, proxy: FaultProxy) -> None:
    proxy.plan = always(Fault.PARTIAL_BATCH)
    items: list[Item] = [{"user": "v", "place": f"{number:03}"} for number in range(60)]
    await table.batch_write(puts=items)
    found = await table.batch_get([("v", f"{number:03}") for number in range(70)])
    assert sorted(found, key=lambda item: str(item["place"])) == items
    assert proxy.faults[Fault.PARTIAL_BATCH] > 10


async def test_a_stopped_database_is_unavailable_until_it_is_back(
    table: TableHandle, proxy: FaultProxy
) -> None:
    await proxy.stop()
    with pytest.raises(Unavailable):
        await table.put({**STORED, "n": 2})
    await proxy.start()
    assert await table.get(KEY) == STORED


async def test_a_restart_of_the_database_is_not_noticed(
    table: TableHandle, proxy: FaultProxy
) -> None:
    for number in range(5):
        await proxy.stop()
        await proxy.start()
        await table.put({**STORED, "n": number})
        assert await table.get(KEY) == {**STORED, "n": number}


async def test_writes_of_one_item_keep_their_order_through_faults(
    table: TableHandle, proxy: FaultProxy
) -> None:
    mild = {Fault.CLOSED: 0.1, Fault.RESET: 0.1, Fault.THROTTLED: 0.1}
    proxy.plan = randomly(mild, seed=1)
    writes = [table.put({**STORED, "n": number}) for number in range(60)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    proxy.plan = no_faults
    item = await table.get(KEY)
    assert item is not None
    last = max(number for number, outcome in enumerate(outcomes) if outcome is None)
    stored = int(str(item["n"]))
    assert stored == last or (stored > last and type(outcomes[stored]) is Unavailable)


async def test_tables_are_made_listed_and_dropped_through_faults(
    open_engine: OpenEngine, proxy: FaultProxy
) -> None:
    chances: dict[Fault, float] = dict.fromkeys(QUICK, 0.05)
    proxy.plan = randomly(chances, seed=4)
    engine = await open_engine()
    for _ in range(times(3, 30)):
        await asyncio.gather(*(engine.ensure_table(table) for table in (MESSAGES, USERS)))
        assert await engine.table_names() == ["messages", "users"]
        await engine.drop_table("messages")
        await engine.drop_table("users")
        assert await engine.table_names() == []
    assert sum(proxy.faults[fault] for fault in chances) > 0
