"""Goals and alerts in words."""

import pytest

from channelstats.render.goals import goal_state, shortened, unmet_lines, weekly_lines
from channelstats.views.goals import Bound, Measured
from channelstats.views.model import Kind


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
