"""A PostgreSQL whose connections break and which is killed: nothing acknowledged is lost, and no
write has an effect twice.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from keytables import Attr, Item, OutOfReach, Returning, TableHandle, Throttled
from keytables.postgresql import PostgresEngine, writer
from support.clocks import ManualClock
from support.postgres_proxy import Breakage, PostgresProxy, at_random, next_one, no_breakage
from support.postgres_servers import FAST, PostgresServer, postgres
from support.random_writer import (
    SHARED,
    change_a_set,
    check_all,
    count_together,
    members,
    random_walk,
)
from support.soak import slow_after, times
from support.table_engines import MESSAGES, PostgresStore

HARSH = {Breakage.REFUSED: 0.03, Breakage.LOST: 0.05, Breakage.LEFT: 0.03, Breakage.DELAYED: 0.05}
SEEDS = slow_after(1, range(times(3, 60)))
KILLING = times(6, 60)
"""Seconds in which a server is killed now and then; less often on a slow machine."""
KEY = ("u", "1")
ITEM: Item = {"user": "u", "place": "1", "n": 1}


@pytest.fixture(autouse=True)
def patient_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait until it is known what became of their commit, however busy the machine is. One
    that was given up goes on, and may be made when a read has found nothing of it.
    """
    monkeypatch.setattr(writer, "_GIVE_UP_AFTER", 600.0)


@pytest.fixture
async def pg_proxy() -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(postgres().port) as started:
        yield started


@pytest.fixture
async def store(pg_proxy: PostgresProxy, clock: ManualClock) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(postgres(), clock, pg_proxy.port)
    yield opened
    await opened.clear()


@pytest.fixture
async def engines(
    store: PostgresStore, pg_proxy: PostgresProxy
) -> AsyncIterator[list[PostgresEngine]]:
    """Two, as in two processes; both go through the proxy."""
    opened = [await store.open(), await store.open()]
    yield opened
    pg_proxy.plan = no_breakage
    for engine in opened:
        await engine.close()


@pytest.fixture
async def operators(store: PostgresStore) -> AsyncIterator[list["asyncpg.Connection[Any]"]]:
    """Two connections beside the engines. What they hold ends with the test, or the store could not
    be cleared.
    """
    opened = [await asyncpg.connect(postgres().url()) for _ in range(2)]
    yield opened
    for connection in opened:
        connection.terminate()


@pytest.fixture
async def tables(engines: list[PostgresEngine]) -> list[TableHandle]:
    return [await engine.ensure_table(MESSAGES) for engine in engines]


@pytest.fixture
async def direct(store: PostgresStore, clock: ManualClock) -> AsyncIterator[TableHandle]:
    """The table as a process sees it that does not go through the proxy."""
    other = PostgresStore(postgres(), clock)
    other.schema = store.schema
    engine = await other.open()
    yield await engine.ensure_table(MESSAGES)
    await engine.close()


@pytest.mark.timeout(times(400, 1800))
@pytest.mark.parametrize("seed", SEEDS)
async def test_acknowledged_writes_are_stored_and_have_no_effect_twice(
    tables: list[TableHandle], pg_proxy: PostgresProxy, seed: int
) -> None:
    pg_proxy.plan = at_random(HARSH, seed=seed)
    writers = await random_walk(tables[0], seed)
    pg_proxy.plan = no_breakage
    await check_all(tables[0], writers)
    assert HARSH.keys() <= pg_proxy.breakages.keys()


@pytest.mark.timeout(times(400, 1800))
@pytest.mark.parametrize("seed", SEEDS)
async def test_acknowledged_writes_survive_kills_of_the_server(
    clock: ManualClock, seed: int
) -> None:
    server = PostgresServer(*FAST)
    try:
        await asyncio.to_thread(server.start)
        engine = await PostgresStore(server, clock).open()
        table = await engine.ensure_table(MESSAGES)

        loop, is_over = asyncio.get_running_loop(), asyncio.Event()
        until = loop.time() + KILLING

        async def kill_now_and_then() -> None:
            # The first at once: the writers may be done before there is another one.
            while loop.time() < until and not is_over.is_set():
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), 0.3)

        killing = asyncio.create_task(kill_now_and_then())
        writers = await random_walk(table, seed)
        is_over.set()
        await killing
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        await check_all(table, writers)
        await engine.close()
    finally:
        await asyncio.to_thread(server.remove)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_set_that_many_change_has_all_acknowledged_members(
    tables: list[TableHandle], pg_proxy: PostgresProxy, seed: int
) -> None:
    pg_proxy.plan = at_random(HARSH, seed=seed)
    must, may = await change_a_set(tables)
    pg_proxy.plan = no_breakage
    assert must <= members(await tables[0].get(SHARED)) <= may


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_counter_counts_each_acknowledged_increment_once(
    tables: list[TableHandle], pg_proxy: PostgresProxy, seed: int
) -> None:
    pg_proxy.plan = at_random(HARSH, seed=seed)
    acknowledged, unknown = await count_together(tables)
    pg_proxy.plan = no_breakage
    item = await tables[0].get(SHARED)
    assert item is not None
    # A condition that failed was not applied, whatever answers were lost.
    assert 0 < acknowledged <= int(str(item["n"])) <= acknowledged + unknown


async def test_a_write_whose_answer_was_lost_is_not_repeated(
    tables: list[TableHandle], direct: TableHandle, pg_proxy: PostgresProxy
) -> None:
    await tables[0].put({**ITEM, "n": 0})  # its statement is prepared
    pg_proxy.plan = next_one(Breakage.LOST)
    pg_proxy.broke.clear()
    put = asyncio.ensure_future(tables[0].put(ITEM))
    await pg_proxy.broke.wait()
    await pg_proxy.stop()
    assert await direct.delete(KEY, returning=Returning.OLD) == ITEM
    await pg_proxy.start()
    await put
    assert await direct.get(KEY) is None


@pytest.mark.parametrize("is_guarded", [False, True])
async def test_a_guarded_write_whose_answer_was_lost_has_the_result_of_its_commit(
    tables: list[TableHandle], direct: TableHandle, pg_proxy: PostgresProxy, is_guarded: bool
) -> None:
    await tables[0].put(ITEM)
    await tables[0].delete(KEY, returning=Returning.OLD)
    await tables[0].put(ITEM)
    sent: list[int] = []

    def lose_the_second(number: int) -> Breakage:  # the first one reads the item
        sent.append(number)
        return Breakage.LOST if len(sent) == 2 else Breakage.NONE

    pg_proxy.plan = lose_the_second
    deleted = asyncio.ensure_future(
        tables[0].delete(
            KEY, condition=Attr("n") == 1 if is_guarded else None, returning=Returning.OLD
        )
    )
    pg_proxy.broke.clear()
    await pg_proxy.broke.wait()
    await pg_proxy.stop()
    await direct.put({**ITEM, "n": 2})
    await pg_proxy.start()
    assert await deleted == ITEM
    assert await direct.get(KEY) == {**ITEM, "n": 2}


async def waiting(connection: "asyncpg.Connection[Any]", event: str) -> set[int]:
    """The sessions of engines that wait for an event of this kind or name."""
    rows = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'keytables' "
        "AND $1 IN (wait_event_type, wait_event)",
        event,
    )
    return {pid for (pid,) in rows}


async def next_waiting(
    connection: "asyncpg.Connection[Any]", event: str, but: Collection[int] = ()
) -> int:
    """The first other session that waits for it."""
    async with asyncio.timeout(30):
        while not (found := await waiting(connection, event) - set(but)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return found.pop()


async def sessions(connection: "asyncpg.Connection[Any]") -> set[int]:
    """Those of engines."""
    rows = await connection.fetch(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'keytables'"
    )
    return {pid for (pid,) in rows}


async def test_a_statement_left_in_the_server_has_no_effect_later(
    tables: list[TableHandle],
    direct: TableHandle,
    store: PostgresStore,
    pg_proxy: PostgresProxy,
    operators: list["asyncpg.Connection[Any]"],
) -> None:
    holder, observer = operators
    await tables[0].put(ITEM)  # its statement is prepared
    await holder.execute(f"BEGIN; SELECT FROM {store.schema}.messages FOR UPDATE")
    before = await sessions(observer)
    pg_proxy.plan = next_one(Breakage.LEFT)
    put = asyncio.ensure_future(tables[0].put({**ITEM, "n": 2}))
    # The repeated one waits for the same row, in a new session: the first one is gone before.
    await next_waiting(observer, "Lock", before)
    assert not before & await waiting(observer, "Lock")
    with pytest.raises(Throttled):
        await put
    await direct.get(KEY)
    assert await waiting(observer, "Lock") == set()
    await holder.execute("COMMIT")
    assert await direct.get(KEY) == ITEM


async def test_while_the_database_is_away_nothing_is_applied_and_all_may_be_retried(
    tables: list[TableHandle], pg_proxy: PostgresProxy
) -> None:
    await tables[0].put(ITEM)
    observer = await asyncpg.connect(postgres().url())
    idle = await waiting(observer, "Client")
    await pg_proxy.stop()
    async with asyncio.timeout(30):
        # By then the engines have noticed it too.
        while idle & await waiting(observer, "Client"):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await observer.close()
    results = await asyncio.gather(
        tables[0].put({**ITEM, "n": 2}),
        tables[0].delete(("u", "2"), returning=Returning.OLD),
        tables[0].get(KEY),
        tables[0].query("v"),
        tables[1].batch_write(deletes=[KEY]),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [OutOfReach] * 5
    await pg_proxy.start()
    assert await tables[1].get(KEY) == ITEM


async def test_a_commit_whose_answer_was_lost_waits_for_the_synchronous_standby(
    clock: ManualClock,
) -> None:
    """The session that ends while it waits leaves its commit on the primary alone."""
    server = PostgresServer(*FAST)
    try:
        await asyncio.to_thread(server.start)
        async with PostgresProxy(server.port) as proxy:
            engine = await PostgresStore(server, clock, proxy.port).open()
            table = await engine.ensure_table(MESSAGES)
            await table.put(ITEM)
            observer = await asyncpg.connect(server.url())
            await observer.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await observer.execute("SELECT pg_reload_conf()")
            put = asyncio.ensure_future(table.put({**ITEM, "n": 2}))
            while not (first := await waiting(observer, "SyncRep")):
                if put.done():  # before the server had read its configuration again
                    put = asyncio.ensure_future(table.put({**ITEM, "n": 2}))
            await proxy.stop()
            await proxy.start()
            await next_waiting(observer, "SyncRep", first)
            assert not put.done()
            await observer.execute("ALTER SYSTEM RESET synchronous_standby_names")
            await observer.execute("SELECT pg_reload_conf()")
            await put
            assert await table.get(KEY) == {**ITEM, "n": 2}
            await observer.close()
            await engine.close()
    finally:
        await asyncio.to_thread(server.remove)
