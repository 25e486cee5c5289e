"""`autopush store copy`, on the embedded store; test_store_moves in e2e has other databases."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autopush.keys import key_fingerprints
from autopush.store.preflight import FINGERPRINTS
from autopush.store.tables import KEYS_ROW, message_table, router_table, storage_table
from autopush.webpush.tokens import new_key
from keytables import Engine, Item
from keytables.copying import item_hash, pages
from keytables.sqlite import divide_store
from support.data_store import DataStore, Run, month_table
from support.service import clean_environment
from support.soak import slow

KILLED = """
import os, signal, sys
from autopush import cli
from keytables import copying

left = int(sys.argv[1])
all_pages = copying.pages

async def pages(table):
    global left
    async for page in all_pages(table):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        yield page

copying.pages = pages
cli.main(sys.argv[2:])
"""
"""Runs a command that is killed when it has read so many pages."""

SERVE = ("serve", "--port", "0", "--router-port", "0", "--store")


@pytest.fixture
def target(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path / "target")


def rows(store: DataStore) -> dict[str, set[bytes]]:
    """The hashes of all rows, by table."""
    kinds = {"router": router_table, "storage": storage_table}

    async def read(engine: Engine) -> dict[str, set[bytes]]:
        found = {}
        for name in await engine.table_names():
            table = await engine.open_table(kinds.get(name, message_table)(name))
            found[name] = {item_hash(item) async for page in pages(table) for item in page}
        return found

    return store.use(read)


def put(store: DataStore, item: Item) -> None:
    async def write(engine: Engine) -> None:
        await (await engine.ensure_table(router_table("router"))).put(item)

    store.use(write)


def test_all_tables_are_copied_with_the_fingerprints_of_the_keys(
    store: DataStore, target: DataStore, run: Run
) -> None:
    store.add_users(range(1200), table=month_table(0))
    store.add_users(range(1200, 1210), table=month_table(2))
    store.make_tables("message", "other")
    prints = frozenset(key_fingerprints([new_key()]))
    put(store, {"uaid": KEYS_ROW, FINGERPRINTS: prints})
    code, out, err = run("store", "copy", store.url, target.url)
    assert (code, err) == (0, "")
    assert "router: 1,211 items, sha256 " in out
    assert f"copied {store.url} to {target.url}, and read both again: equal; " in out
    before = rows(store)
    del before["other"]
    assert rows(target) == before


def test_a_copy_can_be_repeated_and_replaces_only_when_it_is_told_to(
    store: DataStore, target: DataStore, run: Run
) -> None:
    store.add_users(range(10))
    copy = ("store", "copy", store.url, target.url)
    assert run(*copy, "--quiet") == (0, "", "")
    code, out, err = run(*copy)
    assert (code, out) == (3, "")
    refused = "autopush: TO is not empty: table message has items; --into-existing replaces what "
    assert err == refused + "is there\n"
    target.add_users(range(5, 20), months=1)
    target.add_users(range(20, 25), table=month_table(1))
    assert run(*copy, "--into-existing")[0] == 0
    assert rows(target) == rows(store)


def test_a_store_in_several_parts_is_copied_and_so_into_one(
    store: DataStore, target: DataStore, run: Run
) -> None:
    store.add_users(range(100))
    divide_store(store.data / "autopush.sqlite", 4)
    target.data.mkdir()
    divide_store(target.data / "autopush.sqlite", 3)
    assert run("store", "copy", store.url, target.url)[0] == 0
    assert rows(target) == rows(store)


def test_beside_the_service_the_copy_stays_unfinished_until_the_last_pass(
    store: DataStore, target: DataStore, run: Run, installed: Run
) -> None:
    store.add_users(range(50))
    copy = ("store", "copy", store.url, target.url)
    code, out, _ = run(*copy, "--online")
    assert code == 0
    assert "Stop the service, then run the same without --online" in out
    code, _, err = installed("autopush", *SERVE, target.url)
    assert code == 3
    assert err.startswith(f"autopush: {target.url} is an unfinished copy of {store.url}: run ")
    store.add_users(range(50, 60))
    assert run(*copy)[0] == 0
    assert rows(target) == rows(store)


def test_an_unfinished_copy_is_of_one_store(
    store: DataStore, target: DataStore, run: Run, tmp_path: Path
) -> None:
    store.add_users(range(5))
    assert run("store", "copy", store.url, target.url, "--online")[0] == 0
    other = DataStore(tmp_path)
    other.add_users(range(5))
    code, _, err = run("store", "copy", other.url, target.url)
    assert code == 3
    assert f"TO is an unfinished copy of {store.url}, not of {other.url}; " in err
    code, _, err = run("store", "copy", target.url, f"sqlite://{tmp_path}/third")
    assert code == 3
    assert f"{target.url} is itself an unfinished copy, of {store.url}" in err
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("page", [slow(1), slow(3), slow(5), 7])
def test_a_copy_that_was_killed_goes_on(
    store: DataStore, target: DataStore, run: Run, installed: Run, page: int
) -> None:
    """Of the ten pages that it reads, three with messages and two with users of each store."""
    store.add_users(range(800))
    copy = ("store", "copy", store.url, target.url)
    command = [sys.executable, "-c", KILLED, str(page), *copy]
    killed = subprocess.run(command, env=clean_environment(), timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    code, _, err = installed("autopush", *SERVE, target.url)
    assert code == 3
    assert "is an unfinished copy of" in err
    code, out, err = run(*copy)
    assert (code, err) == (0, "")
    assert "router: 800 items" in out
    assert rows(target) == rows(store)


@pytest.mark.parametrize(
    ("source", "to", "expected"),
    [
        ("STORE", "STORE", "FROM and TO are the same store"),
        ("sqlite:///nowhere/x", "TARGET", "there is no store at /nowhere/x"),
        ("mysql://a:secret@b/c", "TARGET", "FROM: a store is sqlite:///PATH, "),
        ("STORE", "dynamodb://x?prefxi=a", "TO: a DynamoDB store has "),
    ],
)
def test_stores_that_cannot_be_copied_are_one_line(
    store: DataStore, target: DataStore, run: Run, source: str, to: str, expected: str
) -> None:
    store.add_users(range(1))
    urls = {"STORE": store.url, "TARGET": target.url}
    code, out, err = run("store", "copy", urls.get(source, source), urls.get(to, to))
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith(f"autopush: {expected}")
    assert "secret" not in err
    assert not target.data.exists()


def test_a_store_without_tables_of_the_service_is_not_copied(
    store: DataStore, target: DataStore, run: Run
) -> None:
    store.make_tables("message")
    code, _, err = run("store", "copy", store.url, target.url)
    assert (code, err) == (3, f"autopush: there is no table router in {store.url}\n")
