"""Numbers, dates, changes and goals as words.

Rule: one way to write each kind of value, in every form; what does not exist is a dash, never a
nought. Whether a goal was met is said in words, not by a colour alone.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final

from channelstats.days import WEEKDAYS
from channelstats.metrics.quantities import Change
from channelstats.metrics.table import Kind
from channelstats.pages.goals import Measured

NOTHING: Final = "\N{EN DASH}"

_MET: Final = {True: ", met", False: ", not met", None: ""}
_PLURALS: Final = {"person": "people", "reply": "replies"}
_SHORT: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def plural(number: float, word: str) -> str:
    """message, messages; person, people; anything but 1 is many."""
    return word if number == 1 else _PLURALS.get(word, f"{word}s")


def number_text(number: float, *, percentage: bool = False) -> str:
    """Whole numbers whole, others and percentages with one decimal."""
    if percentage:
        return f"{number:,.1f}%"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"


def figure_text(value: float | None, kind: Kind) -> str:
    """`1,234`, `12.3%`, `3.5 h`."""
    if value is None:
        return NOTHING
    if kind is Kind.SECONDS:
        return duration_text(round(value))
    if kind is Kind.COUNT:
        return number_text(round(value) if abs(value) >= 100 else value)
    return number_text(value, percentage=kind is Kind.PERCENT)


def change_text(change: Change, kind: Kind = Kind.COUNT) -> str:
    """How it changed: `+60%`, `-4%`, of percentages `+2.5 points`; `new`, `from 0`; nothing when it
    did not.
    """
    if change["state"] == "new":
        return "new"
    if change["state"] in ("same", "not_compared"):
        return ""
    if kind is Kind.PERCENT:
        points = round(change["cur"] - (change["prev"] or 0), 1)
        return f"{points:+,.1f} {plural(abs(points), 'point')}" if points else ""
    if change["state"] == "from_zero":
        return "from 0"
    return f"{change['diff_pct'] or 0:+,.0f}%"


def change_words(change: Change, kind: Kind = Kind.COUNT) -> str:
    """The same in words: `60% more`, `2.5 points less`, `new`, `none before`."""
    text = change_text(change, kind)
    if change["state"] in ("up", "down") and text:
        less = "fewer" if kind is Kind.COUNT else "less"
        return f"{text[1:]} {'more' if text[0] == '+' else less}"
    return "none before" if change["state"] == "from_zero" else text


def mark_texts(values: Sequence[float], kind: Kind) -> list[str]:
    """Numbers on an axis: as short as can be, and all in one unit."""
    if kind is Kind.SECONDS:
        return [duration_text(round(value)) if value else "0" for value in values]
    highest = max(values, default=0)
    size, unit = next(((size, unit) for size, unit in _SHORT if highest >= 10 * size), (1, ""))
    unit = "%" if kind is Kind.PERCENT else unit
    texts = [f"{value / size:,.2f}".rstrip("0").rstrip(".") for value in values]
    return [text if text == "0" else f"{text}{unit}" for text in texts]


def date_text(label: str, *, long: bool = False) -> str:
    """A date or a weekday of an axis: 3 Mar, Mon; any other label stays."""
    if label in WEEKDAYS and not long:
        return label[:3]
    try:
        day = date.fromisoformat(label)
    except ValueError:
        return label
    return f"{day:%a} {day.day} {day:%b %Y}" if long else f"{day.day} {day:%b}"


def duration_text(seconds: int) -> str:
    """About how long so many seconds are: 45 s, 3.5 min, 42 min, 2.1 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            number = number_text(round(seconds / size, 1 if seconds < 10 * size else None))
            return f"{number} {unit}" if (number, unit) != ("1", "days") else "1 day"
    return f"{seconds} s"


def printable(name: str) -> str:
    """A name without characters that would steer a terminal or turn the text around."""
    if not name.isprintable():
        name = "".join(char for char in name if char.isprintable())
    return name.strip()


def cut_off(text: str, most: int) -> str:
    """At most so many letters of a text, and a sign that there are more."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


# ── goals and alerts ─────────────────────────────────────────────────────────────────────────────


def goal_state(goal: Measured) -> str:
    """Goal: at most 30%, not met."""
    return f"Goal: {_bound_text(goal)}{_MET[goal.holds]}"


def weekly_lines(goals: Iterable[Measured], alerts: Iterable[Measured]) -> list[str]:
    """What is posted each week: every alert that is one, and every goal."""
    lines = [f"{_measured(alert)} (alert: {_bound_text(alert)})" for alert in alerts if alert.holds]
    return lines + [
        f"{_measured(goal)} (goal: {_bound_text(goal)}{_MET[goal.holds]})" for goal in goals
    ]


def unmet_lines(goals: Iterable[Measured], alerts: Iterable[Measured]) -> list[str]:
    """What calls for attention: alerts, and goals that were not met."""
    return weekly_lines([goal for goal in goals if goal.holds is False], alerts)


def shortened(lines: list[str], most: int) -> list[str]:
    """At most so many lines; then how many there are beside them."""
    return lines if len(lines) <= most else [*lines[:most], f"and {len(lines) - most:,} more"]


def _measured(measured: Measured) -> str:
    value = (
        "nothing to measure"
        if measured.value is None
        else figure_text(measured.value, measured.kind)
    )
    return f"{measured.title}: {value}"


def _bound_text(measured: Measured) -> str:
    """At most 30%; more than 2 h."""
    bound = measured.bound
    number = (
        f"{bound.number:g}%"
        if measured.kind is Kind.PERCENT
        else figure_text(bound.number, measured.kind)
    )
    return f"{bound.words} {number}"
