"""`autopush check` on a database: every item is read."""

import asyncio
import json
import os
from collections.abc import Iterator

import asyncpg
import pytest

from support.data_store import DataStore, Run, month_table
from support.postgres_servers import postgres

SCHEMA = f"check{os.getpid()}"


async def execute(sql: str) -> None:
    connection = await asyncpg.connect(postgres().url())
    await connection.execute(sql)
    await connection.close()


@pytest.fixture
def tables(store: DataStore) -> Iterator[DataStore]:
    yield DataStore(store.data, f"{postgres().url()}&schema={SCHEMA}")
    asyncio.run(execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))


def test_all_tables_of_the_service_are_read(tables: DataStore, run: Run) -> None:
    tables.add_users(range(700), table=month_table(1))
    code, out, err = run("check", "--store", tables.url)
    assert (code, err) == (0, "")
    assert out.startswith(f"{tables.url}: not damaged; 1,400 items; ")


def test_a_damaged_item_is_found(tables: DataStore, run: Run) -> None:
    tables.add_users(range(3))
    asyncio.run(execute(f"UPDATE {SCHEMA}.router SET item = 'nonsense' WHERE uaid LIKE '%1'"))
    code, out, _ = run("check", "--store", tables.url)
    assert code == 1
    assert "damaged: table 'router': an item of the store is damaged\n" in out
    assert "Stop the service, and restore a backup of the database: " in out
    code, out, _ = run("check", "--json", "--store", tables.url)
    assert code == 1
    document = json.loads(out)
    assert not document["ok"]
    assert document["damage"] == ["table 'router': an item of the store is damaged"]


def test_a_database_that_does_not_answer_is_one_line(run: Run, unused_tcp_port: int) -> None:
    code, out, err = run("check", "--store", f"postgresql://127.0.0.1:{unused_tcp_port}/push")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "cannot connect to PostgreSQL" in err
