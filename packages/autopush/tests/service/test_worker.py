"""What one worker does besides serving."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from autopush.service import app
from autopush.service.app import Worker
from autopush.service.worker import loop_error_handler
from autopush.store import PushStore, TablePlan
from autopush.telemetry.process import DescriptorShortage
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine
from support.service_context import service_context

SECRET = "0123456789abcdef0123456789abcdef"


def crash(_uaid: str) -> None:
    raise RuntimeError("a defect")


async def test_an_error_on_the_loop_is_logged_without_the_arguments_of_its_callback(
    end_logs: Callable[[], str],
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(loop_error_handler(DescriptorShortage()))
    loop.call_soon(partial(crash, SECRET))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    text = end_logs()
    assert "a defect" in text
    assert SECRET not in text


@pytest.mark.parametrize("command", ["serve", "connection", "endpoint"])
@pytest.mark.parametrize("rotating", [False, True])
async def test_a_worker_of_every_kind_rotates_its_tables_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, rotating: bool
) -> None:
    states: list[str] = []

    async def rotate_monthly(rotate: Callable[[], Awaitable[None]]) -> None:
        assert rotate == store.rotate
        states.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            states.append("ended")

    monkeypatch.setattr(app, "rotate_monthly", rotate_monthly)
    clock = ManualClock()
    plan = TablePlan(rotating=rotating)
    store = await PushStore.open(MemoryEngine(clock), plan, key_hash="", clock=clock)
    service = service_context(tmp_path, command)
    running = Worker(service, 0, service.metrics.of_worker(0), store, clock)
    await running.start()
    await asyncio.sleep(0)
    assert states == ["started"]
    await running.stop()
    await asyncio.sleep(0)
    assert states == ["started", "ended"]


@pytest.mark.parametrize(
    ("command", "chosen", "is_done"),
    [
        ("serve", None, True),
        ("connection", None, True),
        ("endpoint", None, False),
        ("serve", False, False),
        ("connection", True, True),
    ],
)
async def test_a_connection_node_maintains_its_embedded_store_unless_it_is_not_to(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    chosen: bool | None,
    is_done: bool,
) -> None:
    states: list[str] = []

    class Recorder:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        async def run(self) -> None:
            states.append("started")
            try:
                await asyncio.Event().wait()
            finally:
                states.append("ended")

    monkeypatch.setattr(app, "Maintenance", Recorder)
    clock = ManualClock()
    store = await PushStore.open(MemoryEngine(clock), TablePlan(), key_hash="", clock=clock)
    service = service_context(tmp_path, command)
    service = replace(service, settings=replace(service.settings, maintenance=chosen))
    running = Worker(service, 0, service.metrics.of_worker(0), store, clock)
    await running.start()
    await asyncio.sleep(0)
    await running.stop()
    assert states == (["started", "ended"] if is_done else [])
