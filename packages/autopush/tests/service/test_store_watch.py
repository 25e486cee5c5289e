"""What is logged of the store's disk, and when."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autopush.service.storage import StoreWatch
from autopush.settings import Settings
from autopush.store.failures import REPORT_INTERVAL, StoreFailures
from keytables import Unavailable
from support.clocks import ManualClock
from support.connection_harness import Harness

TURNS = 20


class Watched:
    """A store that is looked at in each turn of the loop."""

    def __init__(self, harness: Harness, folder: Path, *, reports_disk: bool = True) -> None:
        self.monotonic = ManualClock()
        self.failures = StoreFailures(harness.metrics, monotonic=self.monotonic)
        watch = StoreWatch(
            harness.store,
            self.failures,
            Settings(data=folder, min_free_space=4096),
            reports_disk=reports_disk,
            interval=0,
        )
        self.task = asyncio.ensure_future(watch.run())

    async def look(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def end(self) -> None:
        self.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self.task


async def test_a_disk_that_becomes_nearly_full_is_one_line_and_its_end_another(
    harness: Harness, tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    watched = Watched(harness, tmp_path)
    for nearly_full in (False, True, False):
        harness.engine.nearly_full = nearly_full
        await watched.look()
    await watched.end()
    lines = [json.loads(line)["Fields"] for line in end_logs().splitlines()]
    assert [(line["level"], line["message"]) for line in lines] == [
        ("error", "The disk is nearly full: new messages are refused"),
        ("info", "The disk has space again: new messages are accepted"),
    ]
    for line in lines:
        assert line["min_free_space"] == 4096
        assert line["free"] > 0
        assert line["folder"] == str(tmp_path)


async def test_of_several_workers_one_says_so(
    harness: Harness, tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    watched = Watched(harness, tmp_path, reports_disk=False)
    harness.engine.nearly_full = True
    await watched.look()
    await watched.end()
    assert end_logs() == ""


async def test_a_clock_that_was_set_is_one_line(
    harness: Harness, tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    watched = Watched(harness, tmp_path)
    harness.engine.jump = 2_678_400.0
    await watched.look()
    await watched.end()
    [line] = [json.loads(line)["Fields"] for line in end_logs().splitlines()]
    assert (line["level"], line["seconds"]) == ("warning", 2_678_400)


async def test_failures_that_were_counted_are_logged_though_no_more_come(
    harness: Harness, tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    watched = Watched(harness, tmp_path)
    for _ in range(5):
        watched.failures.note(Unavailable("gone"))
    watched.monotonic.advance(REPORT_INTERVAL)
    await watched.look()
    await watched.end()
    lines = [json.loads(line)["Fields"] for line in end_logs().splitlines()]
    assert [line["failures"] for line in lines] == [1, 4]
