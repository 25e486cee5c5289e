"""A database that throttles, breaks off and forgets to answer: nothing acknowledged is lost, and
nothing is applied twice in a way that shows.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from keytables import (
    Attr,
    ConditionFailed,
    Engine,
    TableHandle,
    Throttled,
    Unavailable,
    Values,
)
from support.fault_proxy import (
    Call,
    Fault,
    FaultProxy,
    nothing,
    randomly,
)
from support.possible_worlds import members
from support.random_writer import ADD, SAME, SET, TAKE, RandomWriter
from support.soak import slow_after, times
from support.table_engines import MESSAGES

OpenEngine = Callable[[], Awaitable[Engine]]

HARSH: dict[Fault, float] = {
    Fault.THROTTLED: 0.05,
    Fault.THROTTLED_OTHERWISE: 0.02,
    Fault.ERROR: 0.04,
    Fault.UNAVAILABLE: 0.03,
    Fault.RESET: 0.05,
    Fault.LOST: 0.08,
    Fault.HALF: 0.04,
    Fault.BROKEN: 0.04,
    Fault.SILENT: 0.001,
    Fault.DELAYED: 0.02,
    Fault.DRIPPING: 0.02,
    Fault.PARTLY: 0.15,
}
SPOKEN: dict[Fault, float] = {
    fault: chance for fault, chance in HARSH.items() if fault is not Fault.SILENT
}
SEEDS = slow_after(1, range(times(3, 60)))
KEY = ("u", "1")
WRITERS = 6
STEPS = 60


async def random_walk(table: TableHandle, seed: int) -> list[RandomWriter]:
    writers = [RandomWriter(table, f"writer{number}", seed) for number in range(WRITERS)]
    await asyncio.gather(*(writer.act(STEPS) for writer in writers))
    return writers


async def look_at_all(table: TableHandle, writers: list[RandomWriter]) -> None:
    found = {(item["user"], item["place"]): item for item in (await table.scan()).items}
    for writer in writers:
        for world in writer.worlds:
            world.read(found.get((world.key[0], world.key[1])))
            world.read(await table.get(world.key))


@pytest.mark.timeout(times(120, 1800))
@pytest.mark.parametrize("seed", SEEDS)
async def test_what_was_acknowledged_is_there_and_nothing_shows_twice(
    open_engine: OpenEngine, proxy: FaultProxy, seed: int
) -> None:
    table = await (await open_engine()).ensure_table(MESSAGES)
    proxy.plan = randomly(HARSH, seed=seed)
    writers = await random_walk(table, seed)
    proxy.plan = nothing
    await look_at_all(table, writers)
    untold = [done for done in proxy.applied if not done.told]
    print(
        f"{sum(proxy.operations.values())} calls, {len(proxy.applied)} writes applied,"
        f" {len(untold)} of them untold, {sum(writer.failures for writer in writers)} failed,"
        f" faults: { ({fault.name: count for fault, count in proxy.faults.items()}) }"
    )
    assert untold
    assert set(HARSH) - {Fault.SILENT} <= proxy.faults.keys()


@pytest.mark.timeout(times(120, 1800))
@pytest.mark.parametrize("seed", SEEDS)
async def test_what_was_acknowledged_outlives_outages(
    open_engine: OpenEngine, proxy: FaultProxy, seed: int
) -> None:
    table = await (await open_engine()).ensure_table(MESSAGES)
    due = asyncio.Event()

    def counting(call: Call) -> Fault:
        if call.number % 40 == 39:
            due.set()
        return Fault.DELAYED if call.number % 3 else Fault.NONE  # so that some are under way

    async def outages() -> None:
        while True:
            await due.wait()
            due.clear()
            await proxy.down()
            await proxy.up()

    proxy.plan = counting
    failing = asyncio.create_task(outages())
    writers = await random_walk(table, seed)
    failing.cancel()
    await asyncio.gather(failing, return_exceptions=True)
    proxy.plan = nothing
    await proxy.down()
    await proxy.up()
    await look_at_all(table, writers)
    assert any(not done.told for done in proxy.applied)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_set_that_many_change_holds_what_was_acknowledged(
    open_engine: OpenEngine, proxy: FaultProxy, seed: int
) -> None:
    tables = [await (await open_engine()).ensure_table(MESSAGES) for _ in range(2)]
    proxy.plan = randomly(SPOKEN, seed=seed)
    held: dict[str, bool | None] = {}  # by member; None: not known

    async def change(table: TableHandle, name: str) -> None:
        for number in range(8):
            member = f"{name}.{number}"
            held[member] = False
            for update in (ADD, TAKE) if number % 2 else (ADD,):
                try:
                    await table.update(KEY, update, {"members": {member}})
                except Throttled:
                    continue
                except Unavailable:
                    held[member] = None
                else:
                    held[member] = update is ADD

    await asyncio.gather(
        *(change(table, f"{side}{turn}") for side, table in enumerate(tables) for turn in range(3))
    )
    proxy.plan = nothing
    found = members(await tables[0].get(KEY))
    assert {member for member, there in held.items() if there} <= found
    assert found <= {member for member, there in held.items() if there is not False}


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_counter_counts_each_acknowledged_increment_once(
    open_engine: OpenEngine, proxy: FaultProxy, seed: int
) -> None:
    tables = [await (await open_engine()).ensure_table(MESSAGES) for _ in range(2)]
    proxy.plan = randomly(SPOKEN, seed=seed)
    acknowledged = 0

    async def count(table: TableHandle, name: str) -> None:
        nonlocal acknowledged
        for number in range(8):
            try:
                item = await table.get(KEY) or {}
                n = int(str(item.get("n", 0))) + 1
                # A name of its own tells this increment from another one to the same number.
                values: Values = {"n": n, "token": f"{name}.{number}", "old": item.get("token")}
                condition = SAME if item else Attr("token").absent()
                await table.update(KEY, SET, values, condition=condition)
            except (ConditionFailed, Throttled, Unavailable):
                continue
            acknowledged += 1

    await asyncio.gather(
        *(count(table, f"{side}{turn}") for side, table in enumerate(tables) for turn in range(3))
    )
    proxy.plan = nothing
    item = await tables[0].get(KEY)
    assert item is not None
    counted = int(str(item["n"]))
    untold = sum(not done.told for done in proxy.applied)
    print(f"{acknowledged} acknowledged, counted {counted}, {untold} untold")
    assert acknowledged > 0
    # What was counted and not acknowledged is what nobody was told of: refused when it was tried
    # again, because others had counted on by then, or given up.
    assert acknowledged <= counted <= acknowledged + untold
    assert counted == len(proxy.applied)
