"""The store: which tables it gets, what is reported when it cannot be opened, its rotation."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from autopush.clock import Clock
from autopush.service import storage
from autopush.service.storage import (
    check_store,
    open_store,
    open_tables,
    rotate_monthly,
    table_plan,
)
from autopush.settings import Settings, StartupError
from autopush.store import TablePlan
from keytables import (
    AccessRefused,
    Capacity,
    Engine,
    KeytablesError,
    StorageFull,
    Table,
    Throttled,
    Unavailable,
)
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine, MemoryTable

TIMEOUT = 10


class FailingEngine(MemoryEngine):
    """Cannot make tables, or cannot do more than that."""

    def __init__(self, error: KeytablesError, *, on_open: bool) -> None:
        super().__init__()
        self.error = error
        self.on_open = on_open
        self.closed = 0

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> MemoryTable:
        if self.on_open:
            raise self.error
        return await super().ensure_table(table, capacity=capacity)

    def called(self, what: str) -> None:
        if not self.on_open and what == "put storage":
            raise self.error
        super().called(what)

    async def close(self) -> None:
        self.closed += 1
        await super().close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path, store="dynamodb://eu-west-1")


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
    await check_store(settings, ManualClock())
    store = await open_store(settings, ManualClock())
    await store.close()
    assert "autopush.sqlite" in {entry.name for entry in os.scandir(relative)}
    assert settings.store_place == f"{relative}/autopush.sqlite"


@pytest.mark.parametrize(
    "error",
    [Throttled("too much"), Unavailable("no answer"), AccessRefused("CreateTable", "router")],
)
@pytest.mark.parametrize("do", [open_store, check_store])
async def test_what_keeps_it_from_opening_is_one_line_that_names_the_store(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    error: KeytablesError,
    do: Callable[[Settings, Clock], Awaitable[object]],
) -> None:
    engine = FailingEngine(error, on_open=True)

    async def open_engine(url: str, **_: object) -> Engine:
        assert url == "dynamodb://eu-west-1"
        return engine

    monkeypatch.setattr(storage, "open_engine", open_engine)
    with pytest.raises(StartupError) as caught:
        await do(settings, ManualClock())
    assert str(caught.value) == f"cannot open the store dynamodb://eu-west-1: {error}"
    assert engine.closed == 1


async def test_an_operation_that_does_not_work_is_reported_with_the_permission_it_needs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FailingEngine(AccessRefused("PutItem", "storage"), on_open=False)

    async def open_engine(url: str, **_: object) -> Engine:
        return engine

    monkeypatch.setattr(storage, "open_engine", open_engine)
    with pytest.raises(StartupError) as caught:
        await check_store(settings, ManualClock())
    assert "dynamodb://eu-west-1: " in str(caught.value)
    assert "the right dynamodb:PutItem on table storage is needed" in str(caught.value)
    assert engine.closed == 1


async def test_a_disk_without_space_does_not_end_the_start_and_is_logged(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, end_logs: Callable[[], str]
) -> None:
    engine = FailingEngine(StorageFull("no space left on the disk"), on_open=False)

    async def open_engine(url: str, **_: object) -> Engine:
        return engine

    monkeypatch.setattr(storage, "open_engine", open_engine)
    await check_store(settings, ManualClock())
    [line] = end_logs().splitlines()
    assert "The disk is full: the store is served without having been tried" in line
    assert "no space left on the disk" in line
    assert engine.closed == 1


async def test_the_engine_of_a_worker_gets_the_reserve_and_reports_its_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, object] = {}

    async def open_engine(url: str, **options: object) -> Engine:
        given.update(options)
        return MemoryEngine()

    monkeypatch.setattr(storage, "open_engine", open_engine)
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


@pytest.mark.parametrize(
    ("error", "level"), [(Throttled("too much"), "warning"), (RuntimeError("a defect"), "error")]
)
async def test_a_rotation_that_failed_is_logged_and_tried_again(
    end_logs: Callable[[], str], error: Exception, level: str
) -> None:
    tries = 0
    succeeded = asyncio.Event()

    async def rotate() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise error
        succeeded.set()

    rotation = asyncio.create_task(rotate_monthly(rotate, interval=0))
    await asyncio.wait_for(succeeded.wait(), TIMEOUT)
    rotation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rotation
    lines = end_logs().splitlines()
    assert len(lines) == 2
    assert all(f'"level":"{level}"' in line and str(error) in line for line in lines)
