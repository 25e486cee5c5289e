"""What is read and worked out, and how often."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from channelstats.board.data import load as read_days
from channelstats.board.model import VIEWS, Choice
from channelstats.settings import load
from channelstats.web import boards as module
from channelstats.web.boards import Boards
from support.channelstats.house import NOW, House
from support.clocks import ManualClock

WEEK = Choice(date(2024, 3, 10), date(2024, 3, 16))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def boards(example: House, tmp_path: Path, clock: ManualClock) -> Boards:
    settings = load({"data": str(tmp_path), "profile": "compat"}, {})
    return Boards(example.tables, settings, clock=clock)


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
    boards: Boards, reads: list[Choice]
) -> None:
    held = await boards.held()
    for name in VIEWS:
        await boards.view(name, WEEK, held)
    chosen = Choice(WEEK.first, WEEK.last, channel="CDEV", person="UBOB")
    await boards.view("people", chosen, held)
    assert reads == [WEEK]


async def test_what_is_read_before_anybody_asks_is_not_read_again(
    boards: Boards, reads: list[Choice]
) -> None:
    told: list[tuple[int, int]] = []
    held = await boards.held()
    await boards.warm(WEEK, held, lambda done, total: told.append((done, total)))
    await boards.view("overview", WEEK, held)
    assert reads == [WEEK]
    assert told
    assert told[-1][0] == told[-1][1]


async def test_a_view_is_worked_out_once(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    held = await boards.held()
    first = await boards.view("people", WEEK, held)
    monkeypatch.setattr(module, "view_of", None)
    assert await boards.view("people", WEEK, held) is first


async def test_days_that_somebody_writes_to_are_read_again_after_a_while(
    example: House, boards: Boards, reads: list[Choice], clock: ManualClock
) -> None:
    rows = await example.tables.messages.of_channel("CDEV", "0")
    await example.tables.messages.write(list(rows.values())[:1])  # and the day stays open
    for _ in range(3):
        await boards.view("people", WEEK, await boards.held())
    assert len(reads) == 1
    clock.advance(31)
    await boards.view("people", WEEK, await boards.held())
    assert len(reads) == 2


async def test_names_are_read_again_when_people_changed_and_after_a_while(
    example: House, boards: Boards, clock: ManualClock
) -> None:
    before = await boards.names(await boards.held())
    assert await boards.names(await boards.held()) is before
    await example.tables.configuration.put_directory_as_of(int(NOW) + 5)
    after = await boards.names(await boards.held())
    assert after is not before
    clock.advance(600)
    assert await boards.names(await boards.held()) is not after


async def test_a_report_is_made_once(boards: Boards, monkeypatch: pytest.MonkeyPatch) -> None:
    held = await boards.held()
    first = await boards.report(WEEK, held)
    monkeypatch.setattr(module, "document_of", None)
    assert await boards.report(WEEK, held) == first
