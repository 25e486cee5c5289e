"""The checks of `autopush doctor` that look at the store."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autopush.commands import store_checks
from autopush.commands.checks import PortUse
from autopush.commands.store_checks import check_store, is_used_by_listener, missing_tables
from autopush.keys import key_file, save_keys, service_keys
from autopush.service.storage import check_keys, divide, open_store
from autopush.settings import Settings
from autopush.store.preflight import PreflightFailed
from autopush.store.tables import TablePlan, message_table, router_table, storage_table
from autopush.webpush.tokens import new_key
from keytables import Engine
from keytables.sqlite import StoreCheck, layout
from keytables.stores import open_engine
from support.checks import NOW, findings, subject

PLAN = TablePlan(router="router", storage="storage", message="message", rotating=True)


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    """Those of a service that was started once, with the embedded store."""
    settings = Settings(data=tmp_path)
    store = await open_store(settings, time.time)
    await store.close()
    return settings


async def use(settings: Settings, work: Callable[[Engine], Awaitable[object]]) -> object:
    engine = await open_engine(settings.store_url)
    try:
        return await work(engine)
    finally:
        await engine.close()


async def all_rows(engine: Engine) -> list[object]:
    declared = (router_table("router"), storage_table("storage"), message_table("message"))
    handles = [await engine.open_table(table) for table in declared]
    return [item for table in handles for item in (await table.scan()).items]


async def test_every_operation_works_and_nothing_is_left_behind(settings: Settings) -> None:
    opens, works = await findings(check_store, settings)
    assert opens == ("OK", f"{settings.store_place} opens, 3 tables")
    expected = "reading, conditional writing and deleting works on router, storage and message"
    assert works == ("OK", expected)
    assert await use(settings, all_rows) == []


async def test_every_operation_works_on_a_store_in_parts(settings: Settings) -> None:
    await asyncio.to_thread(divide, replace(settings, workers=3))
    opens, works = await findings(check_store, settings)
    assert opens == ("OK", f"{settings.store_place} opens, 3 tables, 3 parts")
    assert works[0] == "OK"
    assert await use(settings, all_rows) == []


async def test_a_store_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "new")
    [(level, text)] = await findings(check_store, settings)
    assert (level, text.endswith("will be created at the first start")) == ("OK", True)
    assert not settings.data.exists()


async def test_a_store_that_does_not_open_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "autopush.sqlite").write_bytes(b"this is no database" * 1000)
    [(level, text)] = await findings(check_store, Settings(data=tmp_path))
    assert (level, str(tmp_path) in text) == ("FAIL", True)


async def test_a_missing_table_is_named_and_not_created(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await use(settings, lambda engine: engine.drop_table("storage"))
    _, (level, text) = await findings(check_store, settings)
    assert (level, text) == ("WARN", "missing: storage. The next start of the service creates it")
    monkeypatch.setattr(store_checks, "is_used_by_listener", lambda *_: True)
    running = subject(settings, ports={"endpoint": PortUse.OURS})
    _, (level, text) = await findings(check_store, running)
    assert (level, "Restart the service" in text) == ("WARN", True)
    assert "storage" not in str(await use(settings, lambda engine: engine.table_names()))


async def test_a_store_that_the_service_on_these_ports_does_not_use_is_a_failure(
    settings: Settings, tmp_path: Path
) -> None:
    for data in (tmp_path, tmp_path / "new"):
        examined = subject(replace(settings, data=data), ports={"endpoint": PortUse.OURS})
        first, *_ = await findings(check_store, examined)
        assert first[0] == "FAIL"
        assert first[1].startswith(f"the service on these ports does not use {data}/autopush.sqli")
        assert "Give the doctor the options data and store of that service" in first[1]


def test_a_process_that_has_the_store_open_must_listen_on_the_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pids = [os.getpid()]
    monkeypatch.setattr(layout, "lock_holding_pids", lambda _: pids)
    used = StoreCheck(is_in_use=True)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as other,
    ):
        for each in (listener, other):
            assert is_used_by_listener("x", used, [each.getsockname()[1]])
            assert not is_used_by_listener("x", StoreCheck(), [each.getsockname()[1]])
        pids[:] = [os.getppid()]
        assert not is_used_by_listener("x", used, [listener.getsockname()[1]])
        pids[:] = [2**22 + 1]  # as one of another user, whose files cannot be listed
        assert is_used_by_listener("x", used, [listener.getsockname()[1]])


async def test_a_lost_key_is_a_failure(settings: Settings) -> None:
    keys = save_keys(service_keys((), (), settings.data))
    await check_keys(settings, keys, time.time)
    store = await open_store(settings, time.time)
    await store.users.create("0" * 32, "http://node:1/i/x", 1, "message")
    await store.close()
    assert {level for level, _ in await findings(check_store, settings)} == {"OK"}
    key_file(settings.data, "crypto_key").unlink()
    for _ in range(2):
        [(_, text)] = [each for each in await findings(check_store, settings) if each[0] == "FAIL"]
        assert "crypto_key" in text
        assert "backup" in text
        key_file(settings.data, "crypto_key").write_text(f"{new_key()}\n")


async def test_a_call_that_does_not_work_is_a_failure(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def preflight(*_: object, **__: object) -> None:
        raise PreflightFailed("cannot save a version: PutItem is refused")

    monkeypatch.setattr(store_checks, "preflight", preflight)
    _, (level, text) = await findings(check_store, settings)
    assert (level, "PutItem is refused" in text) == ("FAIL", True)


async def test_the_table_of_tomorrow_is_missed_a_day_before_its_month(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, no_table_rotation=False)
    last_of_june = 1_782_777_600.0  # 2026-06-30
    store = await open_store(settings, lambda: last_of_june - 30 * 3600)
    await store.close()
    found = await findings(check_store, subject(settings, now=last_of_june))
    [warning] = [text for level, text in found if level == "WARN"]
    assert warning.startswith("message_2026_07, the message table of tomorrow, is missing")
    before = await findings(check_store, subject(settings, now=last_of_june - 2 * 86_400))
    assert [level for level, _ in before] == ["OK", "OK"]


def test_what_is_missing_depends_on_the_month() -> None:
    assert missing_tables(PLAN, [], NOW) == ["router", "storage", "message_2026_09"]
    assert missing_tables(PLAN, ["router", "storage", "message_2026_09"], NOW) == []
