"""Writes that are ready together go in one commit, each with its own result."""

import asyncio
import random
from collections.abc import Awaitable

import asyncpg
import pytest

from keytables import (
    Attr,
    ConditionFailed,
    Index,
    Item,
    Key,
    OutOfReach,
    Param,
    SchemaError,
    Table,
    TableHandle,
    TableNotFound,
    Throttled,
    Unconfirmed,
    Update,
    open_engine,
)
from keytables.postgresql.commits import NO_STANDBY
from keytables.postgresql.connections import LOCK_TIMEOUT, TIMEOUT
from support.event_loops import until
from support.postgres_proxy import Breakage, PostgresProxy, no_breakage
from support.postgres_servers import FAST, PostgresServer, postgres
from support.table_engines import MESSAGES, USERS, OpenPostgres, PostgresStore

KEY = ("u", "1")
ITEM: Item = {"user": "u", "place": "1"}


async def commits(store: PostgresStore) -> int:
    return len(await store.execute('SELECT FROM {schema}."~commits"'))


async def test_writes_of_any_kind_and_table_share_a_commit(
    open_postgres: OpenPostgres, store: PostgresStore
) -> None:
    engine = await open_postgres()
    messages, users = await engine.ensure_table(MESSAGES), await engine.ensure_table(USERS)
    await messages.put({"user": "v", "place": "1"})
    before = await commits(store)
    await asyncio.gather(
        *(messages.put({"user": "u", "place": str(number)}) for number in range(100)),
        messages.delete(("v", "1")),
        users.put({"user": "u"}),
    )
    assert await commits(store) == before + 1
    assert len((await messages.query("u")).items) == 100
    assert (await messages.query("v")).items == []


async def test_a_write_that_the_database_refuses_does_not_undo_the_others(
    open_postgres: OpenPostgres,
) -> None:
    # Each key is of an allowed size; together they are more than an index of PostgreSQL takes. (Not
    # shortened: an index sorts by the one, the table by the other.)
    wide = Table("wide", Key("a"), Key("b"), indexes=(Index("by_b", Key("b"), Key("a")),))
    table = await (await open_postgres()).ensure_table(wide)
    noise = random.Random(1)
    a, b = ("".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(n)) for n in (680, 340))
    first, refused = table.put({"a": "1", "b": "1"}), table.put({"a": a, "b": b})
    last = table.put({"a": "2", "b": "1"})
    await first
    await last
    with pytest.raises(SchemaError, match="too long together"):
        await refused
    assert len((await table.scan()).items) == 2


async def test_a_dropped_table_fails_its_own_writes_only(open_postgres: OpenPostgres) -> None:
    engine, other = await open_postgres(), await open_postgres()
    messages, users = await engine.ensure_table(MESSAGES), await engine.ensure_table(USERS)
    await other.drop_table(USERS.name)
    put, lost = messages.put(ITEM), users.put({"user": "u"})
    await put
    with pytest.raises(TableNotFound, match="users"):
        await lost


async def test_of_many_processes_that_compare_and_set_each_success_counts_once(
    open_postgres: OpenPostgres,
) -> None:
    tables = [await (await open_postgres()).ensure_table(MESSAGES) for _ in range(3)]
    await tables[0].put({**ITEM, "n": 0})
    counted = 0

    async def count(table: TableHandle) -> None:
        nonlocal counted
        for _ in range(20):
            n = int(str((await table.get(KEY) or {})["n"]))
            try:
                await table.update(
                    KEY,
                    Update(set=("n",)),
                    {"n": n + 1, "old": n},
                    condition=Attr("n") == Param("old"),
                )
            except ConditionFailed:
                continue
            counted += 1

    await asyncio.gather(*(count(table) for table in tables for _ in range(2)))
    assert await tables[0].get(KEY) == {**ITEM, "n": counted}
    assert counted >= 20


async def test_several_commits_are_on_their_way_and_each_item_keeps_its_order(
    messages: TableHandle, store: PostgresStore
) -> None:
    await messages.put(ITEM)
    holder = await asyncpg.connect(postgres().url())
    await holder.execute(f"BEGIN; SELECT FROM {store.schema}.messages FOR UPDATE")
    first = messages.put({**ITEM, "n": 1})
    await asyncio.sleep(0)
    second = messages.update(KEY, Update(set=("n",)), {"n": 2}, condition=Attr("n") == 1)
    for number in range(5):  # beside the one that waits for the row
        await messages.put({"user": "v", "place": str(number)})
    assert not asyncio.ensure_future(first).done()
    await holder.execute("COMMIT")
    await holder.close()
    await first
    await second
    assert await messages.get(KEY) == {**ITEM, "n": 2}


async def test_reads_do_not_wait_for_writes_to_other_partitions(
    messages: TableHandle, store: PostgresStore
) -> None:
    await messages.put(ITEM)
    await messages.put({"user": "v", "place": "1"})
    holder = await asyncpg.connect(postgres().url())
    await holder.execute(
        f"BEGIN; SELECT FROM {store.schema}.messages WHERE \"user\" = 'u' FOR UPDATE"
    )
    put = asyncio.ensure_future(messages.put({**ITEM, "n": 1}))
    await asyncio.sleep(0)
    assert await messages.get(("v", "1")) is not None
    assert len((await messages.query("v")).items) == 1
    assert not put.done()
    await holder.execute("COMMIT")
    await holder.close()
    await put


async def test_a_write_that_waits_too_long_for_a_lock_is_throttled_and_not_applied(
    messages: TableHandle, store: PostgresStore
) -> None:
    await messages.put(ITEM)
    holder = await asyncpg.connect(postgres().url())
    await holder.execute(f"BEGIN; SELECT FROM {store.schema}.messages FOR UPDATE")
    async with asyncio.timeout(4 * LOCK_TIMEOUT):
        with pytest.raises(Throttled):
            await messages.put({**ITEM, "n": 1})
    await holder.execute("COMMIT")
    await holder.close()
    assert await messages.get(KEY) == ITEM


async def refuse(store: PostgresStore, number: int) -> None:
    """The server gives up the first commits that insert. (A sequence is not rolled back.)"""
    await store.execute("CREATE SEQUENCE {schema}.tries")
    await store.execute(
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('{store.schema}.tries') <= {number} THEN "
        "RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END IF; "
        "RETURN NEW; END $$"
    )
    await store.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON {schema}.messages "
        "FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"
    )


async def test_a_commit_that_could_not_be_serialized_is_made_again(
    messages: TableHandle, store: PostgresStore
) -> None:
    await refuse(store, 3)
    await asyncio.gather(messages.put(ITEM), messages.put({"user": "v", "place": "1"}))
    assert await messages.get(KEY) == ITEM
    assert len((await messages.scan()).items) == 2


async def test_one_that_is_given_up_for_too_long_is_throttled_and_not_applied(
    messages: TableHandle, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keytables.postgresql.commits.WRITE_TIMEOUT", 0.2)
    await refuse(store, 1_000_000)
    with pytest.raises(Throttled, match="could not serialize access"):
        await messages.put(ITEM)
    await store.execute("DROP TRIGGER refuse ON {schema}.messages")
    assert await messages.get(KEY) is None


# --- a database that does not answer --------------------------------------------------------------


async def elapsed(write: Awaitable[object]) -> tuple[Exception | None, float]:
    """Its error, and how long it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    (error,) = await asyncio.gather(write, return_exceptions=True)
    assert error is None or isinstance(error, Exception)
    return error, loop.time() - began


async def put_again(table: TableHandle) -> None:
    async with asyncio.timeout(30):
        while True:
            error, _ = await elapsed(table.put(ITEM))
            if error is None:
                return
            await asyncio.sleep(0.1)


async def test_without_its_standby_a_commit_is_unconfirmed_and_the_cause_is_named() -> None:
    server = PostgresServer(*FAST)
    try:
        await asyncio.to_thread(server.start)
        engine = await open_engine(server.url())
        table = await engine.ensure_table(MESSAGES)
        server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.execute("SELECT pg_reload_conf()")
        await until(lambda: server.execute("SHOW synchronous_standby_names") == "nobody")
        first = table.put(ITEM)
        second = asyncio.ensure_future(elapsed(table.put(ITEM)))
        with pytest.raises(Unconfirmed, match=NO_STANDBY):
            await first
        assert engine.trouble == NO_STANDBY
        error, seconds = await elapsed(table.put({"user": "v", "place": "1"}))
        assert (str(error), type(error)) == (NO_STANDBY, OutOfReach)
        assert seconds < TIMEOUT
        await second
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
        await put_again(table)
        assert engine.trouble == ""
        await engine.close()
    finally:
        server.remove()


async def test_nobody_waits_longer_than_the_limit_for_a_database_that_is_silent() -> None:
    async with PostgresProxy(postgres().port) as proxy:
        engine = await open_engine(f"{postgres().url(port=proxy.port)}&schema=silent")
        table = await engine.ensure_table(MESSAGES)
        await table.put(ITEM)
        proxy.plan, proxy.seconds = lambda _: Breakage.DELAYED, 60
        writes = [table.put({"user": "u", "place": str(number)}) for number in range(3)]
        results = [asyncio.ensure_future(elapsed(each)) for each in writes]
        await asyncio.sleep(0)
        same = [table.put(ITEM), table.put({"user": "u", "place": "0"}), table.get(("u", "0"))]
        results += [asyncio.ensure_future(elapsed(each)) for each in same]
        for result in results:
            error, seconds = await result
            assert isinstance(error, Unconfirmed | OutOfReach)
            assert seconds < 2 * TIMEOUT
        await proxy.stop()
        proxy.plan = no_breakage
        await proxy.start()
        await put_again(table)
        await engine.close()
