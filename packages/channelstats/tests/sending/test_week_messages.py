"""Which week is announced, and what its message says: numbers, and no name."""

from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from channelstats.facts import Period
from channelstats.pages.goals import Measured, decided, figures, parse_bound
from channelstats.sending.announcing import Announcer
from channelstats.sending.week_messages import (
    TITLE,
    WeekMessage,
    complete_week,
    newest_week,
    week_report,
)
from channelstats.settings import Settings
from support.channelstats.house import NOW, UTC, House
from support.clocks import ManualClock

# ── weeks ─────────────────────────────────────────────────────────────────────────────────────────


SUNDAY, MONDAY = 6, 0


@pytest.mark.parametrize(
    ("read_up_to", "options", "expected"),
    [
        ("2024-03-16T23:59:59+00:00", {}, 3),
        ("2024-03-17T00:00:00+00:00", {}, 10),
        ("2024-03-17T00:00:00+00:00", {"first_weekday": MONDAY}, 4),
        ("2024-03-17T06:59:59+00:00", {"zone": ZoneInfo("America/Los_Angeles")}, 3),
        ("2024-03-17T07:00:00+00:00", {"zone": ZoneInfo("America/Los_Angeles")}, 10),
        ("2024-03-17T12:00:00+00:00", {"now": 1_710_244_800.0}, 3),  # 2024-03-12
    ],
)
def test_a_week_is_there_from_its_end_on(
    read_up_to: str, options: dict[str, Any], expected: int
) -> None:
    seconds = int(datetime.fromisoformat(read_up_to).timestamp())
    asked: dict[str, Any] = {"now": NOW, "zone": UTC, "first_weekday": SUNDAY, **options}
    week = complete_week(seconds, **asked)
    assert week is not None
    assert week.start == date(2024, 3, expected)


async def test_a_store_without_messages_has_no_week(empty: House, settings: Settings) -> None:
    assert complete_week(0, NOW, UTC, SUNDAY) is None
    assert await newest_week(empty.tables, settings, ManualClock(NOW)) is None
    assert await Announcer(empty.tables, settings, clock=ManualClock(NOW)).check() is None


# ── message ───────────────────────────────────────────────────────────────────────────────────────


async def message(of: House, start: date, days: int = 7) -> WeekMessage | None:
    period = Period(start, days, UTC)
    return (await week_report(of.tables, Settings(), period, ManualClock(NOW))).message()


async def test_a_week_is_told_in_numbers(example: House) -> None:
    assert await message(example, date(2024, 3, 10)) == WeekMessage(
        TITLE,
        "10 to 16 March 2024: 8 messages (+60%) by 3 people in 2 channels",
        "/report?from=2024-03-10&to=2024-03-16",
    )


@pytest.mark.parametrize(
    ("start", "days", "expected"),
    [
        (date(2024, 3, 3), 7, "9 March 2024: 5 messages (from 0) by 3 people in 2 channels"),
        (date(2024, 3, 16), 1, "16 March 2024: 1 message (from 0) by 1 person in 1 channel"),
        (date(2023, 12, 31), 80, "31 December to 19 March 2024: "),
    ],
)
async def test_one_is_singular_a_first_week_is_compared_with_nothing_and_two_months_are_named(
    example: House, start: date, days: int, expected: str
) -> None:
    told = await message(example, start, days)
    assert told is not None
    assert expected in told.body


async def test_an_empty_week_is_nothing_to_tell(example: House) -> None:
    assert await message(example, date(2024, 5, 5)) is None


# ── before the week is over ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bound", "value", "is_alert", "expected"),
    [
        ("volume.messages <= 5", 6, False, True),
        ("volume.messages <= 5", 5, False, False),
        ("volume.messages < 5", 5, False, True),
        ("volume.messages >= 100", 6, False, False),  # the week goes on
        ("threads.unanswered <= 5", 6, False, False),  # they may be answered yet
        ("threads.unanswered_share <= 5", 6, False, False),
        ("volume.messages > 5", 6, True, True),
        ("volume.messages > 5", 5, True, False),
        ("volume.messages < 5", 4, True, False),
        ("volume.messages <= 5", None, False, False),
    ],
)
def test_what_is_sure_before_the_end(
    bound: str, value: float | None, is_alert: bool, expected: bool
) -> None:
    parsed, tile = parse_bound(bound), figures()[parse_bound(bound).figure]
    measured = Measured(parsed, tile.title, tile.kind, value)
    assert decided(measured, is_alert=is_alert) is expected
