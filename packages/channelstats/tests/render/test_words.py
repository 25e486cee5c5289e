"""Numbers, dates and times as words."""

import pytest

from channelstats.metrics.quantities import Change, State
from channelstats.metrics.table import Kind
from channelstats.pages.goals import Bound, Measured
from channelstats.render.words import (
    change_text,
    date_text,
    duration_text,
    goal_state,
    number_text,
    plural,
    shortened,
    unmet_lines,
    weekly_lines,
)


def test_plurals() -> None:
    assert [plural(1, "reply"), plural(2, "reply"), plural(0, "day")] == [
        "reply",
        "replies",
        "days",
    ]


def test_numbers() -> None:
    assert [number_text(12345), number_text(2.25), number_text(5.0)] == ["12,345", "2.2", "5"]
    assert number_text(50, percentage=True) == "50.0%"


def test_dates_and_weekdays_are_short_on_an_axis_and_long_elsewhere() -> None:
    labels = ("2024-03-09", "Monday", "09:00")
    assert [date_text(of) for of in labels] == ["9 Mar", "Mon", "09:00"]
    assert [date_text(of, long=True) for of in labels] == ["Sat 9 Mar 2024", "Monday", "09:00"]


def test_a_whole_increase_is_shown_without_decimals() -> None:
    assert change_text({"cur": 8, "prev": 5, "diff_pct": 60.0, "state": "up"}) == "+60%"
    assert change_text({"cur": 8, "prev": 8, "diff_pct": 0.0, "state": "same"}) == ""


@pytest.mark.parametrize(
    ("cur", "prev", "state", "text"),
    [
        (62.5, 50.0, "up", "+12.5 points"),
        (38.6, 40.0, "down", "-1.4 points"),
        (3.0, 0, "from_zero", "+3.0 points"),
        (0.041, 0.04, "up", ""),
        (40.1, 40.0, "same", ""),
        (40.0, None, "new", "new"),
    ],
)
def test_a_percentage_changes_by_points(
    cur: float, prev: float | None, state: State, text: str
) -> None:
    change: Change = {"cur": cur, "prev": prev, "diff_pct": 25.0, "state": state}
    assert change_text(change, Kind.PERCENT) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (45, "45 s"),
        (1200, "20 min"),
        (12_600, "3.5 h"),
        (86_400, "1 day"),
        (181_440, "2.1 days"),
    ],
)
def test_durations(seconds: int, text: str) -> None:
    assert duration_text(seconds) == text


# ── goals and alerts ─────────────────────────────────────────────────────────────────────────────


def share(value: float | None, sign: str = "<=") -> Measured:
    bound = Bound("threads.unanswered_share", sign, 30)
    return Measured(bound, "% unanswered", Kind.PERCENT, value)


def wait(value: float | None) -> Measured:
    return Measured(Bound("threads.first_reply", "<", 7200), "Median wait", Kind.SECONDS, value)


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (share(34.24), "Goal: at most 30%, not met"),
        (share(30), "Goal: at most 30%, met"),
        (share(30, ">"), "Goal: more than 30%, not met"),
        (wait(60), "Goal: less than 2 h, met"),
        (wait(None), "Goal: less than 2 h"),
    ],
)
def test_a_tile_says_its_goal_and_whether_it_was_met(goal: Measured, said: str) -> None:
    assert goal_state(goal) == said


def test_a_week_is_told_of_every_goal_and_of_alerts_that_are_any() -> None:
    goals, alerts = [share(34.24), wait(60), wait(None)], [share(34.24, ">"), share(20, ">")]
    assert weekly_lines(goals, alerts) == [
        "% unanswered: 34.2% (alert: more than 30%)",
        "% unanswered: 34.2% (goal: at most 30%, not met)",
        "Median wait: 1 min (goal: less than 2 h, met)",
        "Median wait: nothing to measure (goal: less than 2 h)",
    ]
    assert unmet_lines(goals, alerts) == weekly_lines(goals, alerts)[:2]
    assert unmet_lines([wait(60), wait(None)], [wait(None)]) == []


def test_lines_beyond_the_most_are_counted() -> None:
    assert shortened(["a", "b"], 2) == ["a", "b"]
    assert shortened(["a", "b", "c", "d"], 2) == ["a", "b", "and 2 more"]
