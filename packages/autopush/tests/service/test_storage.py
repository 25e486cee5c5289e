"""The store: its tables, and what is logged while it is opened."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autopush.clock import ServiceClock
from autopush.service import storage
from autopush.service.storage import (
    divide,
    open_store,
    open_tables,
    parts_of_worker,
    report_damage,
    report_empty_file,
    table_plan,
    try_store,
    with_notice,
)
from autopush.settings import Settings, StartupError
from autopush.store import TablePlan
from keytables import (
    AccessRefused,
    Capacity,
    Engine,
    KeytablesError,
    StorageFull,
    Throttled,
    Unavailable,
)
from keytables.sqlite import StoreCheck, layout
from keytables.sqlite.locks import UsageLock
from support.clocks import ManualClock
from support.damaged_store import damage_log, leave_unclosed
from support.data_store import DataStore
from support.memory_engine import MemoryEngine

TIMEOUT = 30


def failing_engine(what: str, error: KeytablesError) -> MemoryEngine:
    """One that fails at each call of that kind."""

    def fail(call: str) -> None:
        if call == what:
            raise error

    engine = MemoryEngine()
    engine.on_call = fail
    return engine


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, store="dynamodb://eu-west-1")


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], dict[str, object]]:
    """Has that engine opened; returns what it will be opened with."""

    def patch(engine: Engine) -> dict[str, object]:
        given: dict[str, object] = {}

        async def open_engine(url: str, **options: object) -> Engine:
            given.update(options, url=url)
            return engine

        monkeypatch.setattr(storage, "open_engine", open_engine)
        return given

    return patch


def test_the_plan_has_the_names_months_and_capacities_of_the_settings(tmp_path: Path) -> None:
    assert table_plan(Settings(data=tmp_path)) == TablePlan()
    settings = Settings(
        store="dynamodb://",
        router_tablename="r",
        storage_tablename="s",
        message_tablename="m",
        router_write_throughput=7,
        message_read_throughput=9,
    )
    assert table_plan(settings) == TablePlan(
        router="r",
        storage="s",
        message="m",
        rotating=True,
        router_capacity=Capacity(5, 7),
        storage_capacity=Capacity(5, 5),
        message_capacity=Capacity(9, 5),
    )


@pytest.fixture(params=["plain", "a b?c#d%20é"])
def relative(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A data folder, named as seen from where the service is started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / request.param).mkdir()
    return Path(request.param)


async def test_the_embedded_store_is_in_the_data_folder_whatever_that_is_called(
    relative: Path,
) -> None:
    settings = Settings(data=relative)
    await try_store(settings, ServiceClock(ManualClock()))
    store = await open_store(settings, ManualClock())
    await store.close()
    assert "autopush.sqlite" in {entry.name for entry in os.scandir(relative)}
    assert settings.store_place == f"{relative}/autopush.sqlite"


@pytest.mark.parametrize(
    "error",
    [Throttled("too much"), Unavailable("no answer"), AccessRefused("CreateTable", "router")],
)
@pytest.mark.parametrize("do", [open_store, try_store])
async def test_what_keeps_it_from_opening_is_one_line_that_names_the_store(
    settings: Settings,
    opens: Callable[[Engine], dict[str, object]],
    error: KeytablesError,
    do: Callable[[Settings, ServiceClock], Awaitable[object]],
) -> None:
    engine = failing_engine("ensure_table", error)
    given = opens(engine)
    with pytest.raises(StartupError) as caught:
        await do(settings, ServiceClock(ManualClock()))
    assert given["url"] == "dynamodb://eu-west-1"
    assert str(caught.value) == f"cannot open the store dynamodb://eu-west-1: {error}"
    assert engine.closings == 1


async def test_an_operation_that_does_not_work_is_reported_with_the_permission_it_needs(
    settings: Settings, opens: Callable[[Engine], dict[str, object]]
) -> None:
    engine = failing_engine("put storage", AccessRefused("PutItem", "storage"))
    opens(engine)
    with pytest.raises(StartupError) as caught:
        await try_store(settings, ServiceClock(ManualClock()))
    assert "dynamodb://eu-west-1: " in str(caught.value)
    assert "the right dynamodb:PutItem on table storage is needed" in str(caught.value)
    assert engine.closings == 1


async def test_a_disk_without_space_does_not_end_the_start_and_is_logged(
    settings: Settings, opens: Callable[[Engine], dict[str, object]], end_logs: Callable[[], str]
) -> None:
    engine = failing_engine("put storage", StorageFull("no space left on the disk"))
    opens(engine)
    await try_store(settings, ServiceClock(ManualClock()))
    [line] = end_logs().splitlines()
    assert "The disk is full: the store is served without having been tried" in line
    assert "no space left on the disk" in line
    assert engine.closings == 1


async def test_the_engine_of_a_worker_gets_the_reserve_and_reports_its_failures(
    tmp_path: Path, opens: Callable[[Engine], dict[str, object]]
) -> None:
    given = opens(MemoryEngine())
    failures: list[KeytablesError] = []
    settings = Settings(data=tmp_path, min_free_space=4096)
    await open_store(settings, ManualClock(), None, failures.append)
    assert (given["min_free_space"], given["on_failure"]) == (4096, failures.append)


async def test_a_url_that_is_not_to_be_shown_is_not_shown(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, store="dynamodb://x?endpoint=http://me:geheim@host")
    with pytest.raises(StartupError) as caught:
        await open_tables(settings, ManualClock())
    assert "geheim" not in str(caught.value)
    assert "http://HOST:PORT" in str(caught.value)


# ── What is logged while it is opened ─────────────────────────────────────────────────────────────


def fields(text: str) -> list[dict[str, Any]]:
    return [json.loads(line)["Fields"] for line in text.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that its last user did not close."""
    path = tmp_path / "autopush.sqlite"
    leave_unclosed(path)
    return path


def test_an_unclosed_store_is_checked_and_said_to_be_whole(
    path: Path, end_logs: Callable[[], str]
) -> None:
    report_damage(Settings(data=path.parent))
    [line] = fields(end_logs())
    assert line["level"] == "info"
    assert line["message"] == "The store was not closed, and is not damaged"


def test_each_damage_is_an_error_line_with_what_to_do(
    path: Path, end_logs: Callable[[], str]
) -> None:
    damage_log(path)
    report_damage(Settings(data=path.parent))
    [line] = fields(end_logs())
    assert (line["level"], line["message"]) == ("error", "The store is damaged")
    assert line["damage"].startswith("the log is damaged: of its ")
    assert line["store"] == str(path)
    # A backup is older than the log without its end.
    assert line["advice"].startswith("nothing is to be done")


def test_an_empty_file_is_said_to_become_a_new_store(
    tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    settings = Settings(data=tmp_path)
    report_empty_file(settings)  # there is none
    file = tmp_path / "autopush.sqlite"
    file.touch()
    report_empty_file(settings)
    [line] = fields(end_logs())
    assert (line["level"], line["store"]) == ("warning", str(file))
    assert line["message"] == "The file of the store is empty: it becomes a new store"
    assert "restore a backup" in line["advice"]


def test_a_file_that_another_process_is_making_a_store_of_is_not_reported(
    tmp_path: Path, end_logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "autopush.sqlite").touch()
    monkeypatch.setattr(layout, "lock_holders", lambda _: ["autopush (pid 7)"])
    report_empty_file(Settings(data=tmp_path))
    assert end_logs() == ""


def test_a_damaged_table_is_to_be_restored(
    path: Path, end_logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = "table 'router': some of its rows cannot be read (damaged page 57)"
    found = StoreCheck((damage,), is_unclean=True)
    monkeypatch.setattr("keytables.sqlite.check_store", lambda *_, **__: found)
    report_damage(Settings(data=path.parent))
    [line] = fields(end_logs())
    assert line["damage"] == damage
    assert line["advice"].startswith("run autopush check, then restore a backup")


def test_a_store_too_large_for_the_time_is_a_warning(
    path: Path, end_logs: Callable[[], str]
) -> None:
    report_damage(Settings(data=path.parent, store_check_timeout=1e-9))
    [line] = fields(end_logs())
    assert line["level"] == "warning"
    assert "autopush check" in line["advice"]


@pytest.mark.parametrize("case", ["timeout 0", "closed", "missing", "dynamodb"])
def test_otherwise_nothing_is_checked(
    path: Path, end_logs: Callable[[], str], case: str, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path)
    damage_log(path)
    match case:
        case "timeout 0":
            settings = Settings(data=tmp_path, store_check_timeout=0.0)
        case "closed":
            path.with_name(f"{path.name}-wal").unlink()
        case "missing":
            settings = Settings(data=tmp_path / "other")
        case "dynamodb":
            settings = Settings(data=tmp_path, store="dynamodb://eu-west-1")
    report_damage(settings)
    assert end_logs() == ""


# ── Dividing ──────────────────────────────────────────────────────────────────────────────────────


def parts_in(folder: Path) -> set[str]:
    """The files with rows."""
    names = {file.name for file in folder.iterdir()}
    return {name for name in names if re.fullmatch(r"autopush\.sqlite(-\dof\d)?", name)}


def test_a_store_gets_a_part_for_each_worker_and_is_one_file_again_with_one(
    path: Path, end_logs: Callable[[], str]
) -> None:
    users = DataStore(path.parent).users()
    divide(Settings(data=path.parent, workers=2))
    assert parts_in(path.parent) == {"autopush.sqlite", "autopush.sqlite-1of2"}
    assert DataStore(path.parent).users() == users
    divide(Settings(data=path.parent, workers=2))  # as it is
    divide(Settings(data=path.parent, workers=1))
    assert parts_in(path.parent) == {"autopush.sqlite"}
    assert DataStore(path.parent).users() == users
    lines = fields(end_logs())
    assert [(line["message"], line["workers"]) for line in lines] == [
        ("Dividing the store among the workers", 2),
        ("Divided the store", 2),
        ("Dividing the store among the workers", 1),
        ("Divided the store", 1),
    ]
    assert (lines[0]["parts"], lines[1]["rows"]) == (1, len(users))


def test_a_store_that_another_process_has_open_is_served_as_it_is(
    path: Path, end_logs: Callable[[], str]
) -> None:
    usage = UsageLock(str(path))
    assert usage.try_share()
    divide(Settings(data=path.parent, workers=2))
    usage.close()
    [line] = fields(end_logs())
    assert (line["level"], line["reason"]) == ("warning", f"{path} is in use")
    assert "space for a second copy" in line["advice"]
    assert parts_in(path.parent) == {"autopush.sqlite"}


@pytest.mark.parametrize(
    "settings", [Settings(command="endpoint", workers=2), Settings(store="dynamodb://", workers=2)]
)
def test_only_commands_with_sockets_divide_and_only_embedded_stores(
    path: Path, settings: Settings
) -> None:
    divide(replace(settings, data=path.parent))
    assert parts_in(path.parent) == {"autopush.sqlite"}


@pytest.mark.parametrize(("parts", "workers"), [(1, 1), (4, 4), (3, 2), (2, 5)])
def test_every_part_is_written_by_one_worker(parts: int, workers: int) -> None:
    own = [parts_of_worker(index, workers) for index in range(workers)]
    for part in range(parts):
        assert sum(part in some for some in own) == 1


# ── Waiting ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_wait_for_another_process_is_logged_with_its_name(
    path: Path, end_logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "NOTICE_AFTER", 0.01)
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, f"{path}-open"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    opened = asyncio.Event()
    waiting = asyncio.ensure_future(with_notice(opened.wait(), Settings(data=path.parent)))
    await asyncio.sleep(0.1)
    opened.set()
    assert await asyncio.wait_for(waiting, TIMEOUT)
    holder.kill()
    await holder.wait()
    [line] = fields(end_logs())
    assert (line["level"], line["store"]) == ("warning", str(path))
    assert line["message"] == "Waiting for another process that has the store locked"
    [name] = line["locked_by"]
    assert name.endswith(f"(pid {holder.pid})")


async def test_a_store_that_opens_at_once_is_not_logged(
    path: Path, end_logs: Callable[[], str]
) -> None:
    async def open_it() -> int:
        return 5

    assert await with_notice(open_it(), Settings(data=path.parent)) == 5
    assert end_logs() == ""
