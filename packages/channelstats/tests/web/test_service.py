"""What is read and worked out, and how often."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from channelstats.settings import load
from channelstats.tables.slack_analytics import DateSpan, Subject
from channelstats.views.loading import load as read_days
from channelstats.views.model import VIEWS, Choice
from channelstats.web import service as module
from channelstats.web.service import DashboardService
from support.channelstats.house import NOW, House
from support.clocks import ManualClock

WEEK = Choice(date(2024, 3, 10), date(2024, 3, 16))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def service(example: House, tmp_path: Path, clock: ManualClock) -> DashboardService:
    settings = load({"data": str(tmp_path), "profile": "compat"}, {})
    return DashboardService(example.tables, settings, clock=clock)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Choice]:
    """The choices whose days were read."""
    found: list[Choice] = []
    really: Callable[..., Any] = read_days

    def counted(tables: Any, choice: Choice, *rest: Any, **options: Any) -> Any:
        found.append(choice)
        return really(tables, choice, *rest, **options)

    monkeypatch.setattr(module, "load", counted)
    return found


async def test_days_are_read_once_for_every_view_and_every_choice_within(
    service: DashboardService, reads: list[Choice]
) -> None:
    snapshot = await service.snapshot()
    for name in VIEWS:
        await service.view(name, WEEK, snapshot)
    chosen = Choice(WEEK.first, WEEK.last, channel="CDEV", person="UBOB")
    await service.view("people", chosen, snapshot)
    assert reads == [WEEK]


async def test_what_is_read_before_anybody_asks_is_not_read_again(
    service: DashboardService, reads: list[Choice]
) -> None:
    told: list[tuple[int, int]] = []
    snapshot = await service.snapshot()
    await service.read(WEEK, snapshot, lambda done, total: told.append((done, total)))
    await service.view("overview", WEEK, snapshot)
    assert reads == [WEEK]
    assert told
    assert told[-1][0] == told[-1][1]


async def test_a_view_is_worked_out_once(
    service: DashboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await service.snapshot()
    first = await service.view("people", WEEK, snapshot)
    monkeypatch.setattr(module, "view_of", None)
    assert await service.view("people", WEEK, snapshot) is first


async def test_imported_counts_of_slack_are_on_the_next_page(
    example: House, service: DashboardService
) -> None:
    before = await service.view("people", WEEK, await service.snapshot())
    span = DateSpan(WEEK.first, WEEK.last)
    await example.tables.slack_analytics.put(Subject.MEMBERS, span, {"UBOB": (1, 0, 0)})
    after = await service.view("people", WEEK, await service.snapshot())
    assert "slack_active" in {tile.name for tile in after.tiles} - {
        tile.name for tile in before.tiles
    }


async def test_days_that_somebody_writes_to_are_read_again_after_a_while(
    example: House, service: DashboardService, reads: list[Choice], clock: ManualClock
) -> None:
    rows = await example.tables.messages.of_channel("CDEV", "0")
    await example.tables.messages.write(list(rows.values())[:1])  # and the day stays open
    for _ in range(3):
        await service.view("people", WEEK, await service.snapshot())
    assert len(reads) == 1
    clock.advance(31)
    await service.view("people", WEEK, await service.snapshot())
    assert len(reads) == 2


async def test_names_are_read_again_when_people_changed_and_after_a_while(
    example: House, service: DashboardService, clock: ManualClock
) -> None:
    before = await service.names(await service.snapshot())
    assert await service.names(await service.snapshot()) is before
    await example.tables.configuration.raise_directory_as_of(int(NOW) + 5)
    after = await service.names(await service.snapshot())
    assert after is not before
    clock.advance(600)
    assert await service.names(await service.snapshot()) is not after


async def test_a_report_is_made_once(
    service: DashboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await service.snapshot()
    first = await service.report(WEEK, snapshot)
    monkeypatch.setattr(module, "load_report_data", None)
    assert await service.report(WEEK, snapshot) == first
