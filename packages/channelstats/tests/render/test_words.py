"""Numbers, dates and times as words."""

from zoneinfo import ZoneInfo

import pytest

from channelstats.render.words import (
    ago_text,
    change_text,
    duration_text,
    hour_text,
    minute_text,
    number_text,
    ordinal,
    period_text,
    plural,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *[(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th")],
        *[(21, "21st"), (22, "22nd"), (23, "23rd"), (101, "101st"), (111, "111th"), (112, "112th")],
        (1002, "1,002nd"),
    ],
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


def test_plurals() -> None:
    assert [plural(1, "reply"), plural(2, "reply"), plural(0, "day")] == [
        "reply",
        "replies",
        "days",
    ]


def test_numbers() -> None:
    assert [number_text(12345), number_text(2.25), number_text(5.0)] == ["12,345", "2.2", "5"]
    assert number_text(50, percentage=True) == "50.0%"


def test_a_whole_increase_is_shown_without_decimals() -> None:
    assert change_text({"cur": 8, "prev": 5, "diff_pct": 60.0, "state": "up"}) == "+60%"
    assert change_text({"cur": 8, "prev": 8, "diff_pct": 0.0, "state": "same"}) == ""


def test_periods() -> None:
    assert period_text("2024-03-10", "2024-03-10") == "Sunday 10 March 2024"


def test_times_are_those_of_the_report_s_zone() -> None:
    assert minute_text("1710028800.000700", ZoneInfo("UTC")) == "2024-03-10 00:00"
    assert minute_text("1710028800.000700", ZoneInfo("America/Los_Angeles")) == "2024-03-09 16:00"
    assert hour_text(9) == "0900-0959"


def test_days_ago_are_counted_by_the_calendar() -> None:
    zone = ZoneInfo("UTC")
    assert ago_text(1710028799, 1710028800, zone) == "2024-03-09, 1 day ago"
    assert ago_text(1710028800, 1710028801, zone) == "2024-03-10, 0 days ago"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "none"),
        (45, "45 s"),
        (1200, "20 min"),
        (12_600, "3.5 h"),
        (86_400, "1 day"),
        (181_440, "2.1 days"),
    ],
)
def test_durations(seconds: int | None, text: str) -> None:
    assert duration_text(seconds) == text
