"""What a query asks for."""

from datetime import date
from urllib.parse import parse_qsl

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from channelstats.facts.periods import History, Now
from channelstats.web.filters import NAMES, BadQuery, Query, asked

SUNDAY = 6
NOW = Now(date(2024, 3, 21), History(last=date(2024, 3, 20)), SUNDAY)


def of(query: str, now: Now = NOW, also: tuple[str, ...] = ()) -> Query:
    pairs = [part.partition("=") for part in query.split("&") if part]
    return asked([(name, text) for name, _, text in pairs], now, also)


def days(query: str, now: Now = NOW) -> tuple[str, str]:
    found = of(query, now).choice
    return found.first.isoformat(), found.last.isoformat()


def test_without_anything_the_last_four_whole_weeks_are_shown() -> None:
    assert days("") == ("2024-02-18", "2024-03-16")
    assert of("").query() == ""


def test_periods_are_whole_weeks_up_to_the_last_whole_one() -> None:
    assert days("weeks=1") == ("2024-03-10", "2024-03-16")
    assert days("weeks=12")[0] == "2023-12-24"
    assert of("weeks=52").days == 364


def history(first: str, last: str) -> Now:
    known = History(date.fromisoformat(first), date.fromisoformat(last))
    return Now(date(2026, 1, 1), known, SUNDAY)


def test_weeks_end_with_the_last_one_that_was_read_whole() -> None:
    old = history("2020-01-01", "2024-03-13")
    assert days("weeks=1", old) == ("2024-03-03", "2024-03-09")
    assert days("weeks=1", history("2020-01-01", "2024-03-16")) == ("2024-03-10", "2024-03-16")
    assert old.is_behind
    assert not NOW.is_behind


def test_what_is_to_be_done_goes_up_to_the_newest_day() -> None:
    def of_list(query: str, now: Now) -> tuple[str, str, str]:
        found = asked([("weeks", query)] if query else [], now, to_newest=True)
        days = found.choice.first.isoformat(), found.choice.last.isoformat()
        return *days, found.query()

    old = history("2020-01-01", "2024-03-13")
    assert of_list("", old) == ("2024-02-15", "2024-03-13", "")
    assert of_list("1", old) == ("2024-03-07", "2024-03-13", "?weeks=1")
    assert of_list("1", NOW)[1] == "2024-03-20"
    # What was read cannot be newer than today.
    assert of_list("", Now(date(2024, 3, 10), old.history, SUNDAY))[1] == "2024-03-10"


def test_where_no_week_was_read_whole_the_one_that_was_read_is_shown() -> None:
    assert days("weeks=1", history("2024-03-11", "2024-03-13")) == ("2024-03-10", "2024-03-16")


def test_weeks_before_the_first_message_are_left_out_of_a_period() -> None:
    twelve = history("2024-01-02", "2024-03-25")
    year = of("weeks=52", twelve)
    assert (year.choice.first, year.choice.last) == (date(2023, 12, 31), date(2024, 3, 23))
    assert (year.weeks, year.days) == (52, 84)
    assert year.query() == "?weeks=52"


def test_days_can_be_given_and_either_end_is_enough() -> None:
    assert days("from=2024-03-01&to=2024-03-02") == ("2024-03-01", "2024-03-02")
    assert days("from=2024-03-01") == ("2024-03-01", "2024-03-16")
    assert days("to=2024-03-02") == ("2024-02-04", "2024-03-02")
    assert days("from=2024-04-01") == ("2024-04-01", "2024-04-01")


def test_empty_fields_of_a_form_ask_for_nothing() -> None:
    assert of("from=&to=&weeks=&channel=&person=") == of("")


def test_days_that_are_a_period_are_called_one() -> None:
    found = of("from=2024-03-10&to=2024-03-16&channel=dev")
    assert found.weeks == 1
    assert found.query() == "?weeks=1&channel=dev"
    assert of("from=2024-03-09&to=2024-03-15").query() == "?from=2024-03-09&to=2024-03-15"


def test_links_keep_what_is_chosen_but_for_what_they_change() -> None:
    assert of("against=year").query(weeks="1") == "?against=year&weeks=1"
    found = of("weeks=12&channel=dev&person=bob")
    assert found.query(weeks="1") == "?channel=dev&person=bob&weeks=1"
    assert found.query(weeks="4") == "?channel=dev&person=bob"
    assert found.query(person="") == "?weeks=12&channel=dev"
    assert of(found.query()[1:]) == found


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("weeks=0", "weeks: expected a number from 1 to"),
        ("weeks=-1", "weeks: expected a number"),
        ("weeks=99999999999", "weeks: expected a number"),
        ("weeks=four", "weeks: expected a number"),
        ("weeks=٤", "weeks: expected a number"),
        ("from=yesterday", "from: expected a date like 2024-03-17"),
        ("to=2024-02-30", "to: expected a date"),
        ("to=9999-12-31", "to: expected a year from 2000 to 2100"),
        ("from=2024-03-02&to=2024-03-01", "to: expected 2024-03-02 or later"),
        ("from=2001-01-01&to=2024-03-01", "from: expected at most"),
        ("weeks=1&from=2024-03-01", "weeks: expected without from and to"),
        ("weeks=1&weeks=2", "weeks: expected once"),
        ("chanel=dev", "chanel: there is no such parameter; did you mean channel?"),
        ("x=1", "x: there is no such parameter; there are from, to, weeks, channel, person"),
        (f"person={'x' * 201}", "person: expected at most 200 characters"),
        ("against=month", "against: expected year"),
        ("table=x", "table: there is no such parameter"),
    ],
)
def test_what_means_nothing_is_refused_by_its_name(query: str, message: str) -> None:
    with pytest.raises(BadQuery) as refused:
        of(query)
    assert str(refused.value).startswith(message)


def test_parameters_of_others_are_left_to_them() -> None:
    assert of("table=x", also=("table",)) == of("")


def test_a_number_means_all_of_its_digits() -> None:
    assert days("weeks=" + "12".zfill(9)) == days("weeks=12")


TEXTS = st.text(max_size=8) | st.dates().map(str) | st.integers(-9, 99).map(str)


@example([("to", "2000-01-01")])
@given(st.lists(st.tuples(st.sampled_from((*NAMES, "x")), TEXTS), max_size=4))
def test_whatever_is_asked_for_is_refused_or_can_be_linked_to(query: list[tuple[str, str]]) -> None:
    try:
        found = asked(query, NOW)
    except BadQuery:
        return
    assert found.choice.first <= found.choice.last
    assert asked(parse_qsl(found.query()[1:]), NOW) == found
