"""What is told: numbers, and where to look; no name."""

import json
from datetime import date

import pytest

from channelstats.notifications.message import TITLE, Message, message_of, report_path
from channelstats.stats import Options, Period
from support.channelstats.house import COMPAT, UTC, House

WEEK_2 = Period(date(2024, 3, 10), 7, UTC)


async def message(of: House, start: date, days: int = 7) -> Message | None:
    period = Period(start, days, UTC)
    return message_of((await of.report(period, Options(COMPAT))).json, period)


async def test_a_week_is_told_in_numbers(example: House) -> None:
    assert await message(example, date(2024, 3, 10)) == Message(
        TITLE,
        "10 to 16 March 2024: 8 messages (+60%) by 3 people in 2 channels",
        "/report?from=2024-03-10&to=2024-03-16",
    )


async def test_a_first_week_has_nothing_to_be_compared_with(example: House) -> None:
    found = await message(example, date(2024, 3, 3))
    assert found is not None
    assert "5 messages (from 0) by 3 people" in found.body


async def test_of_one_there_is_one(example: House) -> None:
    found = await message(example, date(2024, 3, 16), 1)
    assert found is not None
    assert found.body.endswith("1 message (from 0) by 1 person in 1 channel")


async def test_an_empty_week_is_nothing_to_tell(example: House) -> None:
    assert await message(example, date(2024, 5, 5)) is None


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (date(2024, 3, 31), "31 March to 6 April 2024"),
        (date(2024, 12, 29), "29 December to 4 January 2025"),
    ],
)
async def test_days_of_two_months_name_both(example: House, start: date, expected: str) -> None:
    week = Period(start, 7, UTC)
    document = (await example.report(WEEK_2, Options(COMPAT))).json
    found = message_of(document, week)
    assert found is not None
    assert found.body.startswith(expected)


async def test_nobody_and_nothing_is_named(example: House) -> None:
    found = await message(example, date(2024, 3, 10))
    assert found is not None
    text = found.encoded().decode()
    for name in ("alice", "Ames", "ali", "bob", "cara", "general", "dev", "UALICE", "CGEN"):
        assert name.lower() not in text.lower().replace("people", "")
    assert len(text) < 1000
    assert json.loads(text).keys() == {"title", "body", "url"}


def test_the_path_of_a_report_is_its_days() -> None:
    assert report_path(WEEK_2) == "/report?from=2024-03-10&to=2024-03-16"
