"""Joined → posted → answered → regular, by four weeks."""

import pytest

from channelstats.days import DAY
from channelstats.facts.periods import History
from support.channelstats.pages import Looked, data_of, look
from support.channelstats.said import LONG_AGO, WEEK, joined, liked, said
from support.channelstats.workspace import Raw


def looked(
    messages: list[Raw], channel: str = "", person: str = "", history: History = LONG_AGO
) -> Looked:
    return look("newcomers", data_of({"C1": messages}, history=history), channel, person)


def steps(messages: list[Raw], channel: str = "") -> list[tuple[int, ...]]:
    """The numbers of each four weeks, the last one first."""
    rows = looked(messages, channel).rows("ways_in_by_month")[::-1]
    names = "joined", "posted", "answered", "regular"
    return [tuple(row[name] for name in names) for row in rows]


def test_each_step_counts_those_who_came_so_far() -> None:
    shy, new, noticed, regular = (
        joined(1, "USHY"),
        joined(1, "UNEW1"),
        joined(0, "UN"),
        [
            joined(-16, "UREGULAR"),
            *(liked(day, "UREGULAR", "UFAN") for day in (-15, -8, -1)),
        ],
    )
    messages = [shy, new, said(2, "UNEW1"), noticed, liked(2, "UN", "UFAN"), *regular]
    assert steps(messages, "C1")[0] == (4, 3, 2, 1)
    found = looked(messages)
    assert found.series("ways_in")["now"] == (4, 3, 2, 1)
    assert found.rows("ways_in_by_month")[-1]["posted_share"] == 75


def test_they_are_counted_in_the_weeks_in_which_they_joined_first() -> None:
    before = [joined(-30, "UOLD"), said(1, "UOLD"), joined(3, "UOLD")]
    assert steps(before) == [(0, 0, 0, 0), (1, 1, 0, 0), (0, 0, 0, 0)]
    assert looked(before).series("ways_in")["before"] == (1, 1, 0, 0)


@pytest.mark.parametrize("day", [-80, -200])
def test_who_was_there_before_does_not_join(day: int) -> None:
    assert steps([said(day, "UA"), joined(1, "UA"), said(2, "UA")])[0] == (0, 0, 0, 0)


def test_of_a_person_there_are_no_steps() -> None:
    assert "ways_in" not in looked([said(1, "UA")], person="UA").charts


def test_of_the_first_week_that_was_read_nobody_can_tell_who_stayed_or_stopped() -> None:
    messages = [said(-1, "UA"), said(1, "UA"), said(2, "UNEW")]
    known = looked(messages, history=History(WEEK.start - 7 * DAY, WEEK.last))
    (week,) = known.rows("weeks")
    assert (week["both"], week["returning"], week["lapsed"], week["rate"]) == (1, 0, 0, 100)
    (week,) = looked(messages, history=History(WEEK.start - DAY, WEEK.last)).rows("weeks")
    assert (week["both"], week["returning"], week["lapsed"], week["rate"]) == (None,) * 4
    assert week["weekly"] == 2
