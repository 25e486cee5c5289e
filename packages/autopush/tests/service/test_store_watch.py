"""The store while it is served: the tables of its months, and what is logged and counted."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autopush.clock import ServiceClock
from autopush.service.store_watch import COMPARE_INTERVAL, StoreWatch, rotate_monthly
from autopush.settings import Settings
from autopush.store.failures import REPORT_INTERVAL, StoreFailures
from autopush.telemetry.metric_table import MESSAGE_EXPIRED, STORE_EXPIRED
from keytables import Throttled, Unavailable
from support.clocks import ManualClock
from support.connection_harness import Harness
from support.recorded import recorded

TIMEOUT = 30
TURNS = 20


def fields(text: str) -> list[dict[str, Any]]:
    return [json.loads(line)["Fields"] for line in text.splitlines()]


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


class Watched:
    """A store that is looked at in each turn of the loop."""

    def __init__(self, harness: Harness, folder: Path, *, reports_disk: bool = True) -> None:
        self.monotonic, self.clock = ManualClock(), ServiceClock(harness.clock)
        self.failures = StoreFailures(harness.metrics, monotonic=self.monotonic)
        watch = StoreWatch(
            harness.store,
            self.failures,
            Settings(data=folder, min_free_space=4096),
            harness.metrics,
            clock=self.clock,
            reports_disk=reports_disk,
            pause=lambda: 0,
            monotonic=self.monotonic,
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
    lines = fields(end_logs())
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
    [line] = fields(end_logs())
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
    lines = fields(end_logs())
    assert [line["failures"] for line in lines] == [1, 4]


async def test_what_the_store_removed_as_expired_is_counted_and_messages_apart(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = Counter[str]()
    monkeypatch.setattr(type(harness.engine), "expired", removed, raising=False)
    watched = Watched(harness, tmp_path)
    for added in ({"message": 3}, {"message": 2, "receipt": 7}, {"message_2026_11": 1}, {}):
        removed.update(added)
        await watched.look()
    await watched.end()
    assert recorded(harness.metrics, MESSAGE_EXPIRED) == 6
    assert recorded(harness.metrics, STORE_EXPIRED) == 13


async def test_a_clock_that_differs_from_the_database_s_is_corrected_and_named(
    harness: Harness, tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    harness.engine.ahead = -600.0
    watched = Watched(harness, tmp_path)
    await watched.look()
    assert watched.clock() == harness.clock() - 600
    harness.engine.ahead = 0.0
    await watched.look()
    assert watched.clock() == harness.clock() - 600
    watched.monotonic.advance(COMPARE_INTERVAL + 1)
    await watched.look()
    assert watched.clock() == harness.clock()
    await watched.end()
    [line] = fields(end_logs())
    assert line["seconds"] == -600
