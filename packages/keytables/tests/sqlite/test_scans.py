"""Queries whose index is missing run apart, and end with the store."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from keytables import Unavailable
from keytables.sqlite.scans import Scans

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
async def scans(path: Path) -> Scans:
    apsw.Connection(str(path)).execute("CREATE TABLE t (a)").close()
    return Scans(str(path))


async def test_one_runs_after_another_in_a_thread(scans: Scans) -> None:
    threads = set()

    def ask(_: apsw.Connection) -> None:
        threads.add(threading.get_ident())

    await asyncio.gather(*(scans.ask(ask, "t") for _ in range(20)))
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    await scans.close()


async def test_one_changes_nothing(scans: Scans) -> None:
    with pytest.raises(Unavailable):
        await scans.ask(lambda reader: reader.execute("INSERT INTO t VALUES (1)").get, "t")
    await scans.close()


async def test_the_end_of_the_store_ends_those_that_run_and_those_that_wait(scans: Scans) -> None:
    started = threading.Event()

    def endless(reader: apsw.Connection) -> object:
        started.set()
        return reader.execute(ENDLESS).get

    asked = [asyncio.create_task(scans.ask(endless, "t")) for _ in range(3)]
    await asyncio.to_thread(started.wait)
    await scans.close()
    for task in asked:
        with pytest.raises(Unavailable):
            await task
    with pytest.raises(Unavailable):
        await scans.ask(endless, "t")


async def test_without_any_there_is_no_thread(scans: Scans) -> None:
    before = threading.active_count()
    await scans.close()
    assert threading.active_count() == before
