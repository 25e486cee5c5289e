"""Goals and alerts in words.

Rule: whether a goal was met is said in words, not by a colour alone.
"""

from collections.abc import Iterable

from channelstats.render.words import figure_text
from channelstats.views.goals import Bound, Measured
from channelstats.views.model import Kind


def bound_text(bound: Bound, kind: Kind) -> str:
    """at most 30%; more than 2 h."""
    number = f"{bound.number:g}%" if kind is Kind.PERCENT else figure_text(bound.number, kind)
    return f"{bound.words} {number}"


def goal_state(goal: Measured) -> str:
    """Goal: at most 30%, not met."""
    met = {True: ", met", False: ", not met", None: ""}[goal.holds]
    return f"Goal: {bound_text(goal.bound, goal.kind)}{met}"


def weekly_lines(goals: Iterable[Measured], alerts: Iterable[Measured]) -> list[str]:
    """What is posted each week: every alert that is one, and every goal."""
    return [
        *(_line(alert) for alert in alerts if alert.holds),
        *(_line(goal, is_goal=True) for goal in goals),
    ]


def unmet_lines(goals: Iterable[Measured], alerts: Iterable[Measured]) -> list[str]:
    """What calls for attention: alerts, and goals that were not met."""
    return weekly_lines([goal for goal in goals if goal.holds is False], alerts)


def shortened(lines: list[str], most: int) -> list[str]:
    """At most so many lines; then how many there are beside them."""
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"and {len(lines) - most:,} more"]


def _line(of: Measured, *, is_goal: bool = False) -> str:
    """Unanswered: 34.2% (goal: at most 30%, not met)."""
    bound = bound_text(of.bound, of.kind)
    if not is_goal:
        return f"{of.title}: {figure_text(of.value, of.kind)} (alert: {bound})"
    if of.value is None:
        return f"{of.title}: nothing to measure (goal: {bound})"
    met = "met" if of.holds else "not met"
    return f"{of.title}: {figure_text(of.value, of.kind)} (goal: {bound}, {met})"
