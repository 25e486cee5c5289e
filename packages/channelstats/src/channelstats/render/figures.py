"""Numbers as the pages write them, by what they are.

Rule: what does not exist is a dash, never a nought.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from channelstats.render.words import duration_text, number_text
from channelstats.views.model import Kind

NOTHING: Final = "\N{EN DASH}"

_SHORT: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def figure_text(value: float | None, kind: Kind) -> str:
    """`1,234`, `12.3%`, `3.5 h`."""
    if value is None:
        return NOTHING
    if kind is Kind.SECONDS:
        return duration_text(round(value))
    if kind is Kind.COUNT:
        return number_text(round(value) if abs(value) >= 100 else value)
    return number_text(value, percentage=kind is Kind.PERCENT)


def mark_texts(values: Sequence[float], kind: Kind) -> list[str]:
    """The same on an axis: as short as can be, and all in one unit."""
    if kind is Kind.SECONDS:
        return [duration_text(round(value)) if value else "0" for value in values]
    highest = max(values, default=0)
    size, unit = next(((size, unit) for size, unit in _SHORT if highest >= 10 * size), (1, ""))
    unit = "%" if kind is Kind.PERCENT else unit
    texts = [f"{value / size:,.2f}".rstrip("0").rstrip(".") for value in values]
    return [text if text == "0" else f"{text}{unit}" for text in texts]


def day_text(label: str, *, long: bool = False) -> str:
    """A date of an axis: 3 Mar; a label that is none stays."""
    try:
        day = date.fromisoformat(label)
    except ValueError:
        return label
    return f"{day:%a} {day.day} {day:%b %Y}" if long else f"{day.day} {day:%b}"
