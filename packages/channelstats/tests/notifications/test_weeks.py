"""A week is there when it is over and read to its end."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

from channelstats.notifications.weeks import newest_week, week_there
from channelstats.settings import Settings
from support.channelstats.house import NOW, UTC, House
from support.clocks import ManualClock

SUNDAY, MONDAY = 6, 0


def there(text: str, *, first: int = SUNDAY, now: float = NOW, zone: ZoneInfo = UTC) -> date | None:
    week = week_there(int(datetime.fromisoformat(text).timestamp()), now, zone, first)
    return None if week is None else week.start


def test_a_week_is_there_from_its_end_on() -> None:
    assert there("2024-03-16T23:59:59+00:00") == date(2024, 3, 3)
    assert there("2024-03-17T00:00:00+00:00") == date(2024, 3, 10)


def test_weeks_begin_with_the_day_that_is_set_and_end_at_midnight_of_the_zone() -> None:
    assert there("2024-03-17T00:00:00+00:00", first=MONDAY) == date(2024, 3, 4)
    zone = ZoneInfo("America/Los_Angeles")
    assert there("2024-03-17T06:59:59+00:00", zone=zone) == date(2024, 3, 3)
    assert there("2024-03-17T07:00:00+00:00", zone=zone) == date(2024, 3, 10)


def test_a_week_that_is_not_over_is_not_there_whatever_was_read() -> None:
    now = datetime.fromisoformat("2024-03-12T12:00:00+00:00").timestamp()
    assert there("2024-03-17T12:00:00+00:00", now=now) == date(2024, 3, 3)


def test_where_nothing_was_read_no_week_is_there() -> None:
    assert week_there(0, NOW, UTC, SUNDAY) is None


async def test_the_newest_week_of_a_store_is_the_last_one_read_to_its_end(
    example: House, settings: Settings
) -> None:
    week = await newest_week(example.tables, settings, ManualClock(NOW))
    assert week is not None
    assert week.start == date(2024, 3, 3)


async def test_a_store_without_messages_has_no_week(empty: House, settings: Settings) -> None:
    assert await newest_week(empty.tables, settings, ManualClock(NOW)) is None
