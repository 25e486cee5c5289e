"""The oldest and the newest server that is supported: every statement, under faults.

A whole suite on another version: `POSTGRES_BIN=FOLDER make test PYTEST_ARGS='-k postgresql'`.
"""

import asyncio
from itertools import count

import pytest

from keytables import Item, KeyTuple, Range, Throttled, Unavailable
from keytables.postgresql import PostgresEngine
from keytables.postgresql.inspection import inspect_server
from keytables.stores import PostgresUrl, parse_store
from support.clocks import ManualClock
from support.postgres_proxy import Breakage, PostgresProxy, at_random, no_breakage
from support.postgres_servers import FAST, PostgresServer, ReplicatedPostgres, bundled
from support.random_writer import check_all, random_walk
from support.table_engines import MESSAGES, USERS, PostgresStore

FAULTS = {Breakage.REFUSED: 0.02, Breakage.LOST: 0.03, Breakage.LEFT: 0.02}


@pytest.mark.slow
@pytest.mark.parametrize("version", [13, 18])
async def test_every_statement_works_on_the_oldest_and_the_newest_server(
    version: int, clock: ManualClock
) -> None:
    server = PostgresServer(*FAST, programs=bundled(version))
    try:
        await asyncio.to_thread(server.start)
        async with PostgresProxy(server.port) as proxy:
            engine = await PostgresStore(server, clock, proxy.port).open()
            messages, users = await engine.ensure_table(MESSAGES), await engine.ensure_table(USERS)
            proxy.plan = at_random(FAULTS, seed=version)
            writers = await random_walk(messages, version)
            proxy.plan = no_breakage
            await check_all(messages, writers)
            rows: list[Item] = [
                {"user": f"u{n}", "visit": n, "city": "here", "age": n} for n in range(9)
            ]
            await users.batch_write(puts=[{**row, "expiry": clock.now + 1} for row in rows])
            for index, partition in (("by_visit", 4), ("by_city", "here")):
                assert (await users.query_index(index, partition)).items
            first = await messages.query("v", sort=Range(gt="1"), limit=2, descending=True)
            assert first.items == []
            page = await users.query_index("by_city", "here", limit=4, descending=True)
            rest = await users.query_index("by_city", "here", descending=True, after=page.cursor)
            ages = [item["age"] for item in (*page.items, *rest.items)]
            assert ages == list(range(8, -1, -1))
            clock.advance(2)
            assert await engine.sweep() == 9
            place = parse_store(server.url())
            assert isinstance(place, PostgresUrl)
            assert (await inspect_server(place)).version == version
            await engine.drop_table(USERS.name)
            assert await engine.table_names() == [MESSAGES.name]
            await engine.close()
    finally:
        await asyncio.to_thread(server.remove)


@pytest.mark.slow
@pytest.mark.parametrize("version", [13, 18])
async def test_nothing_acknowledged_is_lost_in_a_failover(version: int, clock: ManualClock) -> None:
    database = ReplicatedPostgres(bundled(version))
    try:
        await asyncio.to_thread(database.start)
        engine = await PostgresEngine.open(database.url, schema="t", clock=clock)
        table = await engine.ensure_table(MESSAGES)
        kept: list[KeyTuple] = []
        more, over = asyncio.Semaphore(0), asyncio.Event()

        async def write(user: str) -> None:
            for number in count():
                if over.is_set():
                    return
                try:
                    await table.put({"user": user, "place": str(number)})
                except (Throttled, Unavailable):
                    continue
                kept.append((user, str(number)))
                more.release()

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for user in "abcd":
                group.create_task(write(user))
            for _ in range(40):
                await more.acquire()
            await asyncio.to_thread(database.restart)
            assert engine.failovers == 0
            await asyncio.to_thread(database.fail_over)
            before = len(kept)
            while len(kept) < before + 40:
                await more.acquire()
            over.set()
        assert len(await table.batch_get(kept)) == len(kept)
        assert engine.failovers == 1
        await engine.close()
    finally:
        await asyncio.to_thread(database.remove)
