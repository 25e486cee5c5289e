"""Months and the names of their tables, without a store."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from autopush.store.tables import Month, live_tables
from support.cases import cases

NOVEMBER = Month(2026, 11)
MONTHS = st.builds(Month, st.integers(1970, 9998), st.integers(1, 12))


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


@given(MONTHS)
def test_next_and_previous_undo_each_other_and_keep_the_order(month: Month) -> None:
    assert month.next.previous == month == month.previous.next
    assert month.previous < month < month.next
    assert 1 <= month.next.month <= 12


@given(MONTHS)
def test_a_name_is_read_back_as_the_month_it_was_made_for(month: Month) -> None:
    assert Month.parse("message", month.table("message")) == month


@cases(
    ("now", "month"),
    [
        (at(2026, 11, 30, 23, 59), NOVEMBER),
        (at(2026, 12, 1), Month(2026, 12)),
        (at(2026, 12, 31, 23, 59), Month(2026, 12)),
        (at(2027, 1, 1), Month(2027, 1)),
        (at(2028, 2, 29), Month(2028, 2)),
    ],
)
def test_the_month_of_a_time_is_that_of_utc(now: float, month: Month) -> None:
    assert Month.at(now) == month


@cases(
    "name",
    [
        "message",
        "message_2026_1",
        "message_2026_00",
        "message_2026_13",
        "message_26_11",
        "message_2026_11_",
        "message_2026_11\n",
        "messages_2026_11",
        "xmessage_2026_11",
        "message-2026-11",
        "message_٢٠٢٦_11",
        "",
    ],
)
def test_any_other_name_is_of_no_month(name: str) -> None:
    assert Month.parse("message", name) is None


def test_a_prefix_is_text_and_no_pattern() -> None:
    assert Month.parse("m.s", "mes_2026_11") is None
    assert Month.parse("m.s", "m.s_2026_11") == NOVEMBER


# ── which are live ──────────────────────────────────────────────────────────────────────────────

NAMES = [
    "message_2026_07",
    "message_2026_09",
    "message_2026_10",
    "message_2026_11",
    "message_2026_12",
    "message_2027_02",
    "message",
    "message_old",
    "router",
]


def test_with_rotation_the_last_month_three_past_ones_and_all_later_ones_are_live() -> None:
    assert live_tables("message", NAMES, NOVEMBER) == [
        "message_2027_02",
        "message_2026_12",
        "message_2026_11",
        "message_2026_10",
        "message_2026_09",
        "message",
    ]


def test_a_gap_in_the_months_leaves_three_past_ones() -> None:
    names = ["message_2026_03", "message_2026_04", "message_2026_05", "message_2026_06"]
    assert live_tables("message", names, NOVEMBER) == names[:0:-1]


def test_without_rotation_the_newest_three_are_live() -> None:
    assert live_tables("message", NAMES, None) == [
        "message_2027_02",
        "message_2026_12",
        "message_2026_11",
        "message",
    ]


def test_without_any_table_none_is_live() -> None:
    assert live_tables("message", ["router"], NOVEMBER) == []
    assert live_tables("message", [], None) == []
