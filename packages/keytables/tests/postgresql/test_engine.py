"""Opening a store: what is refused, in one line and without a trace of it; and its sweep."""

import asyncio
import re
import socket
import subprocess

import pytest

from keytables import AccessRefused, KeytablesError, Range, SchemaError, Unavailable, open_engine
from keytables.postgresql import PostgresEngine
from keytables.postgresql.connections import each_host
from keytables.postgresql.failures import ConnectionLost
from support.clocks import ManualClock
from support.postgres_servers import PostgresServer, dump_program, postgres, program
from support.sockets import unused_port
from support.stream_server import stream_server
from support.table_engines import MESSAGES, OpenPostgres, PostgresStore


def in_database(name: str) -> str:
    return postgres().url(name)


async def refusal(url: str) -> str:
    with pytest.raises(Unavailable) as caught:
        await open_engine(url)
    text = str(caught.value)
    assert "\n" not in text
    assert "hidden" not in text
    return text


async def test_a_server_that_is_not_there_is_named() -> None:
    assert "cannot connect to PostgreSQL" in await refusal(
        f"postgresql://u:hidden@127.0.0.1:{unused_port()}/d"
    )


async def test_a_server_that_goes_away_while_it_is_connected_to_may_come_back() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with stream_server(end) as (_, port):
        with pytest.raises(ConnectionLost, match="PostgreSQL is not ready"):
            await open_engine(postgres().url(port=port))


async def test_of_several_hosts_one_that_is_silent_is_passed_over(store: PostgresStore) -> None:
    primary = f"127.0.0.1:{postgres().port}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{primary}"
        url = postgres().url().replace(primary, hosts)
        engine = await open_engine(f"{url}&schema={store.schema}&connect_timeout=5")
        await engine.close()


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        ("postgresql://u@h/d?sslmode=require", {}, ["postgresql://u@h/d?sslmode=require"]),
        ("postgresql://u@a:1,[::1]:2/d", {}, ["postgresql://u@a:1/d", "postgresql://u@[::1]:2/d"]),
        (
            "postgresql://u@/d?host=a,/run/pg&port=5,6",
            {},
            ["postgresql://u@a:5/d", "postgresql://u@%2Frun%2Fpg:6/d"],
        ),
        (
            "postgresql:///d",
            {"PGHOST": "a,b", "PGPORT": "7"},
            ["postgresql://a:7/d", "postgresql://b:7/d"],
        ),
    ],
)
def test_each_host_of_a_url_is_tried_by_itself(
    url: str, variables: dict[str, str], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGPORT", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert each_host(url) == expected


async def test_a_missing_database_and_a_missing_user_are_named() -> None:
    assert 'database "missing" does not exist' in await refusal(in_database("missing"))
    url = postgres().url().replace("keytables@", "nobody:hidden@")
    assert 'role "nobody" does not exist' in await refusal(url)


async def test_a_database_that_is_not_utf8_is_refused(store: PostgresStore) -> None:
    await store.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        assert "the encoding of the database is LATIN1: UTF8 is needed" in await refusal(
            in_database("latin")
        )
    finally:
        await store.execute("DROP DATABASE latin")


async def test_a_schema_of_another_version_is_refused_and_not_changed(
    open_postgres: OpenPostgres, store: PostgresStore
) -> None:
    await (await open_postgres()).close()
    await store.execute('UPDATE {schema}."~format" SET version = 2')
    with pytest.raises(Unavailable, match="has format 2 of this store, and this program knows 1"):
        await open_postgres()
    assert await store.execute('SELECT version FROM {schema}."~format"') == [(2,)]


async def test_without_the_right_to_create_nothing_is_created(store: PostgresStore) -> None:
    await store.execute("CREATE ROLE reader LOGIN")
    try:
        url = postgres().url().replace("keytables@", "reader@")
        with pytest.raises(AccessRefused, match="the right CREATE"):
            await PostgresEngine.open(url, schema=store.schema)
        found = await store.execute("SELECT FROM pg_namespace WHERE nspname = '{schema}'")
        assert found == []
    finally:
        await store.execute("DROP ROLE reader")


async def test_a_role_that_may_only_read_and_write_uses_tables_of_another_one(
    open_postgres: OpenPostgres, store: PostgresStore, clock: ManualClock
) -> None:
    await (await open_postgres()).ensure_table(MESSAGES)
    await store.execute("CREATE ROLE worker LOGIN")
    try:
        await store.execute("GRANT USAGE ON SCHEMA {schema} TO worker")
        await store.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO worker"
        )
        url = postgres().url().replace("keytables@", "worker@")
        engine = await PostgresEngine.open(url, schema=store.schema, clock=clock)
        table = await engine.ensure_table(MESSAGES)
        await table.put({"user": "u", "place": "1", "expiry": clock.now + 1})
        clock.advance(1)
        assert await engine.sweep() == 1
        for name in ("~commits", MESSAGES.name):  # each commit writes to both
            revoke = f'ON {{schema}}."{name}" FROM worker'
            await store.execute(f"REVOKE INSERT {revoke}")
            with pytest.raises(AccessRefused, match=f"permission denied for table {name}"):
                await table.put({"user": "u", "place": "1"})
            await store.execute(f"GRANT INSERT {revoke.replace('FROM', 'TO')}")
        await table.put({"user": "u", "place": "1"})
        await engine.close()
    finally:
        await store.execute("DROP OWNED BY worker")
        await store.execute("DROP ROLE worker")


async def test_a_dump_that_is_restored_is_a_store(
    open_postgres: OpenPostgres, store: PostgresStore, clock: ManualClock
) -> None:
    table = await (await open_postgres()).ensure_table(MESSAGES)
    await table.put({"user": "u", "place": "1", "data": b"\0\xff"})
    await store.execute("CREATE DATABASE restored")
    try:
        dump = await asyncio.to_thread(
            subprocess.run,
            [dump_program("pg_dump"), "--schema", store.schema, postgres().url()],
            check=True,
            stdout=subprocess.PIPE,
        )
        restore = [program("psql"), "--quiet", "--set", "ON_ERROR_STOP=1", in_database("restored")]
        await asyncio.to_thread(
            subprocess.run, restore, check=True, input=dump.stdout, stdout=subprocess.DEVNULL
        )
        engine = await PostgresEngine.open(
            in_database("restored"), schema=store.schema, clock=clock
        )
        restored = await engine.open_table(MESSAGES)
        assert await restored.get(("u", "1")) == {"user": "u", "place": "1", "data": b"\0\xff"}
        await restored.put({"user": "u", "place": "2"})
        await engine.close()
    finally:
        await store.execute("DROP DATABASE restored")


async def test_a_standby_is_refused() -> None:
    server = PostgresServer()
    try:
        server.create()
        (server.data / "standby.signal").touch()
        server.start()
        assert "in recovery, a standby" in await refusal(server.url())
    finally:
        server.remove()


async def test_the_sweep_removes_what_has_expired_and_old_commits(
    open_postgres: OpenPostgres, store: PostgresStore, clock: ManualClock
) -> None:
    engine = await open_postgres()
    table = await engine.ensure_table(MESSAGES)
    await table.batch_write(
        puts=[
            {"user": "u", "place": str(number), "expiry": clock.now + (1 if number % 3 else 5000)}
            for number in range(600)
        ]
    )
    clock.advance(1)
    assert await engine.sweep() == 400
    assert len(await store.execute("SELECT FROM {schema}.messages")) == 200
    assert await store.execute('SELECT FROM {schema}."~commits"') != []
    clock.advance(1000)
    await engine.sweep()
    assert await store.execute('SELECT FROM {schema}."~commits"') == []


async def test_sessions_find_rows_by_indexes_and_commit_to_the_disk(
    store: PostgresStore, open_postgres: OpenPostgres
) -> None:
    reports: list[KeytablesError] = []
    await open_postgres(on_failure=reports.append)
    await store.execute("ALTER ROLE keytables SET synchronous_commit = off")
    try:
        engine = await open_postgres()
        rows = await engine._pool.fetch("SELECT current_setting('synchronous_commit')")
        assert [tuple(row) for row in rows] == [("on",)]
        rows = await engine._pool.fetch("SELECT current_setting('enable_seqscan')")
        assert [tuple(row) for row in rows] == [("off",)]
    finally:
        await store.execute("ALTER ROLE keytables RESET synchronous_commit")
    assert reports == []


async def test_a_name_that_is_too_long_for_postgresql_is_another_one_there(
    open_postgres: OpenPostgres,
) -> None:
    from keytables import Key, Table

    engine = await open_postgres()
    tables = [Table("x" * 100 + end, Key("a")) for end in ("1", "2")]
    handles = [await engine.ensure_table(table) for table in tables]
    await handles[0].put({"a": "1"})
    assert await handles[1].get(("1",)) is None
    assert await engine.table_names() == [table.name for table in tables]
    with pytest.raises(SchemaError, match=re.escape("exists with other keys")):
        await engine.ensure_table(Table(tables[0].name, Key("b")))


async def test_what_is_done_on_the_server_is_counted(
    open_postgres: OpenPostgres, clock: ManualClock
) -> None:
    engine = await open_postgres()
    table = await engine.ensure_table(MESSAGES)
    before = engine.activity.round_trips
    await table.batch_write(
        puts=[{"user": "u", "place": str(n), "expiry": clock.now + 1} for n in range(5)]
    )
    assert (engine.activity.commits, engine.activity.written) == (1, 5)
    assert engine.activity.round_trips == before + 1
    # Six connections can read, and none of these pages is of the same statement.
    ranges = [Range(ge=f"{n}") for n in range(12)]
    await asyncio.gather(*(table.query("u", sort=each) for each in ranges))
    assert engine.activity.connection_waits >= 12 - 6
    assert engine.activity.connections == 1 + 6
    clock.advance(1)
    await engine.sweep()
    assert engine.expired == {MESSAGES.name: 5}
    await engine.close()
    await asyncio.sleep(0)  # asyncpg says it with the next turn
    assert engine.activity.connections == 0
