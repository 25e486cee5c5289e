"""Up to when an export has every message: from its name, its files and its newest message."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.ingest.export_time import (
    AgeOrder,
    Evidence,
    ExportAge,
    is_later,
    place_among,
    read_up_to,
)

ZONE = ZoneInfo("UTC")


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NOW = at("2026-11-23T15:00")
FRIDAY = at("2026-11-20T17:32")
"""The newest message of a team that works from Monday to Friday."""


def found(**hints: object) -> tuple[str, Evidence]:
    read = read_up_to(now=NOW, zone=ZONE, **{"newest": FRIDAY, **hints})  # type: ignore[arg-type]
    return datetime.fromtimestamp(read.at, UTC).isoformat()[:16], read.evidence


SATURDAY = ("2026-11-21T00:00", Evidence.NEWEST)
"""Where nothing tells more than the newest message."""


@pytest.mark.parametrize(
    ("written", "newest", "expected"),
    [
        ("2026-11-23T09:14", FRIDAY, ("2026-11-23T09:14", Evidence.WRITTEN)),
        ("2026-11-20T18:00", FRIDAY, ("2026-11-20T18:00", Evidence.WRITTEN)),
        pytest.param("1980-01-01T00:00", FRIDAY, SATURDAY, id="no date"),
        pytest.param("2026-11-20T17:31", FRIDAY, SATURDAY, id="before its newest message"),
        pytest.param("2026-11-25T09:00", FRIDAY, SATURDAY, id="in the future"),
        pytest.param(
            "2026-11-23T20:00", FRIDAY, ("2026-11-23T15:00", Evidence.WRITTEN), id="another zone"
        ),
        pytest.param(
            "2026-11-23T09:14",
            at("2026-10-31T23:50"),
            ("2026-11-01T00:00", Evidence.NEWEST),
            id="a silence too long to be one",
        ),
    ],
)
def test_a_zip_has_everything_up_to_when_its_files_were_written_where_that_can_be(
    written: str, newest: int, expected: tuple[str, Evidence]
) -> None:
    assert found(written=at(written), newest=newest) == expected


@pytest.mark.parametrize(
    "path",
    [
        "Acme Slack export Oct 1 2026 - Nov 18 2026.zip",
        "/home/me/Acme Slack export Oct 1 2026 - Nov 18 2026 (1).zip",
        "Acme Slack export Oct 1 2026 - Nov 18 2026",
    ],
)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1970-01-01", ("2026-11-19T00:00", Evidence.NAMED)),
        ("2026-11-23T09:14", ("2026-11-19T00:00", Evidence.NAMED)),
        ("2026-11-17T09:14", ("2026-11-17T09:14", Evidence.WRITTEN)),
    ],
)
def test_the_days_that_were_chosen_are_in_the_name(
    path: str, written: str, expected: tuple[str, Evidence]
) -> None:
    assert found(newest=at("2026-11-16T10:00"), path=path, written=at(written)) == expected


@pytest.mark.parametrize("written", ["1970-01-01", "2026-11-23T09:14"])
def test_a_name_that_says_how_far_it_goes_is_believed_after_a_long_silence(written: str) -> None:
    path, old = "Acme Slack export Jan 1 2024 - Nov 22 2026.zip", at("2026-09-01T10:00")
    expected = "2026-11-23T00:00", Evidence.NAMED
    assert found(newest=old, path=path, written=at(written)) == expected


@pytest.mark.parametrize(
    "path", ["export.zip", "Acme - Foo 40 2026.zip", "a - Nov 18 2025.zip", "a - Nov 45 2026.zip"]
)
def test_a_name_that_says_nothing_or_nonsense_is_no_hint(path: str) -> None:
    assert found(path=path) == SATURDAY


def test_a_file_of_a_later_day_says_that_it_was_taken_that_day() -> None:
    assert found(day_file=date(2026, 11, 21)) == ("2026-11-22T00:00", Evidence.NEWEST)
    assert found(day_file=date(2026, 11, 24)) == ("2026-11-23T15:00", Evidence.NEWEST)
    assert found(day_file=date(2027, 1, 1)) == SATURDAY


def test_what_somebody_says_counts() -> None:
    last_day, written = date(2026, 11, 22), at("2026-11-20T18:00")
    assert found(last_day=last_day, written=written) == ("2026-11-23T00:00", Evidence.GIVEN)
    assert found(last_day=date(2030, 1, 1)) == ("2026-11-23T15:00", Evidence.GIVEN)


TIMES = st.integers(at("2020-01-01"), NOW)


@given(TIMES, st.dates(), st.integers(0, NOW * 2), st.none() | st.text(max_size=40))
def test_it_is_never_before_the_newest_message_nor_after_now(
    newest: int, day: date, written: int, path: str | None
) -> None:
    read = read_up_to(newest, NOW, ZONE, day_file=day, written=written, path=path or "")
    assert newest <= read.at <= NOW


# ── which of two exports was taken later ─────────────────────────────────────────────────────────

_DAY = 86_400


@pytest.mark.parametrize(
    ("age", "other", "expected"),
    [
        pytest.param(ExportAge(2), ExportAge(1), True, id="a newer message"),
        pytest.param(ExportAge(1, 30), ExportAge(1, 20), True, id="newer files"),
        pytest.param(
            ExportAge(1, named="2026-11-04"), ExportAge(1, named="2026-11-03"), True, id="named"
        ),
        pytest.param(ExportAge(2, 30), ExportAge(1, 20), True, id="all agree"),
        pytest.param(ExportAge(2, 20), ExportAge(1, 30), True, id="written in one go"),
        pytest.param(ExportAge(2, 9), ExportAge(1, 9 + _DAY), None, id="they contradict"),
        pytest.param(ExportAge(1), ExportAge(1), None, id="nothing tells"),
        pytest.param(ExportAge(1, 9), ExportAge(1), None, id="known of one alone"),
    ],
)
def test_two_exports_are_in_an_order_where_all_hints_agree(
    age: ExportAge, other: ExportAge, expected: bool | None
) -> None:
    assert is_later(age, other) is expected
    assert is_later(other, age) is (None if expected is None else not expected)


def test_a_time_that_cannot_be_says_nothing_about_the_age() -> None:
    assert ExportAge.of(FRIDAY, at("1980-01-01T00:00"), "x.zip", NOW) == ExportAge(FRIDAY)
    assert ExportAge.of(FRIDAY, at("2027-01-01T00:00"), "x.zip", NOW) == ExportAge(FRIDAY)
    name = "Acme Slack export Oct 1 2026 - Nov 18 2026.zip"
    assert ExportAge.of(FRIDAY, NOW, name, NOW) == ExportAge(FRIDAY, NOW, "2026-11-18")


def test_the_marks_of_exports_differ_and_compare_as_their_ages() -> None:
    others = {10: ExportAge(10, 20), 11: ExportAge(10), 5: ExportAge(5, 15), 30: ExportAge(30, 40)}
    order = place_among(ExportAge(10, 30), others)
    assert order.mark == 12
    assert order.worth == {10: 11, 11: 12, 5: 11, 30: 13}
    assert not order.is_certain
    assert place_among(ExportAge(7), {}) == AgeOrder(7)
