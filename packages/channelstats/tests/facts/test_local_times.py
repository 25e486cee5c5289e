"""Messages by the clocks of their authors."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.facts.local_times import LocalTimes, offsets
from channelstats.facts.reading import Options
from channelstats.tables.columns import ID
from channelstats.tables.directory import User
from support.channelstats.house import UTC

ZONES = (
    "UTC",
    "America/Los_Angeles",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
)
SECONDS = st.integers(1_230_768_000, 1_893_456_000)
"""2009 to 2030."""


@given(st.sampled_from(ZONES), SECONDS, st.integers(0, 400 * 86_400), st.data())
def test_offsets_are_those_of_zoneinfo(
    name: str, first: int, length: int, data: st.DataObject
) -> None:
    zone, last = ZoneInfo(name), first + length
    found = offsets(zone, first, last)
    assert [since for since, _ in found] == sorted(since for since, _ in found)
    for at in (first, last, *(since for since, _ in found), data.draw(st.integers(first, last))):
        offset = [offset for since, offset in found if since <= at][-1]
        assert timedelta(seconds=offset) == datetime.fromtimestamp(at, zone).utcoffset()


def local(user: User, at: str, default: str = "") -> tuple[str | None, int | None, int | None]:
    """Zone, weekday and hour of a message at that time."""
    seconds = int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp())
    times = LocalTimes(
        {user.slack_uid: user},
        Options(default_timezone=default),
        seconds - 99_999,
        seconds + 99_999,
    )
    schema = {"ts": pl.Int64(), "slack_uid": ID}
    frame = pl.DataFrame([(seconds * 1_000_000 + 999_999, user.slack_uid)], schema, orient="row")
    ((weekday, hour),) = times.added_to(frame).select("local_weekday", "local_hour").rows()
    return dict(times.zones.iter_rows()).get(user.slack_uid), weekday, hour


def test_clocks_that_change_between_messages_show_each_its_own_hour() -> None:
    zones = ("America/New_York", "Europe/Berlin", "Asia/Kolkata", "")
    users = {f"U{name}": User(f"U{name}", tz=name) for name in zones}
    first = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
    seconds = range(first, first + 60 * 86_400, 9_000)
    rows = [(at * 1_000_000, f"U{zones[at // 9_000 % 4]}") for at in seconds]
    frame = pl.DataFrame(rows, {"ts": pl.Int64(), "slack_uid": ID}, orient="row")
    times = LocalTimes(users, Options(), seconds[0], seconds[-1])
    found = times.added_to(frame).select("ts", "slack_uid", "local_weekday", "local_hour")
    for ts, uid, weekday, hour in found.iter_rows():
        zone = users[uid].tz
        at = datetime.fromtimestamp(ts // 1_000_000, ZoneInfo(zone)) if zone else None
        assert (weekday, hour) == (at and at.weekday(), at and at.hour)


ALICE = User("UALICE", tz="America/Los_Angeles", tz_offset=-25200)


def test_a_local_time_knows_the_season() -> None:
    assert local(ALICE, "2024-03-04 17:30") == ("America/Los_Angeles", 0, 9)
    assert local(ALICE, "2024-03-11 17:30") == ("America/Los_Angeles", 0, 10)


@pytest.mark.parametrize(("at", "hour"), [("2024-03-10 09:59:59", 1), ("2024-03-10 10:00:00", 3)])
def test_clocks_change_at_their_very_second(at: str, hour: int) -> None:
    assert local(ALICE, at) == ("America/Los_Angeles", 6, hour)


@pytest.mark.parametrize(
    "user",
    [User("U1", tz_offset=3600), User("U1"), User("U1", tz="Mars/Olympus", tz_offset=3600)],
)
def test_authors_without_a_zone_are_left_out(user: User) -> None:
    assert local(user, "2024-03-04 17:30") == (None, None, None)


def test_a_default_zone_is_for_those_without_one() -> None:
    assert local(User("U1"), "2024-03-04 17:30", "Asia/Kolkata") == ("Asia/Kolkata", 0, 23)
    berlin = User("U1", tz="Europe/Berlin")
    assert local(berlin, "2024-03-04 17:30", "Asia/Kolkata") == ("Europe/Berlin", 0, 18)
