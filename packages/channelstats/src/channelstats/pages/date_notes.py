"""Notes on dates, such as a launch or a holiday: on every chart over time, and beside its numbers.

Rule: a page does not have to be made again when somebody writes a note. A note belongs to the
point that its date is in.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, TypeAlias

import msgspec
import polars as pl

from channelstats.metrics.table import Column, Kind, Table
from channelstats.pages.model import DateNote, Page, Part, SeriesChart

DateNotes: TypeAlias = Mapping[date, str]
NO_NOTES: Final[DateNotes] = {}

_COLUMN: Final = Column("note", "Note", Kind.TEXT)


def with_date_notes(page: Page, notes: DateNotes) -> Page:
    """The page with the notes on its days: in its charts over time, and as the last column of the
    tables of the same points.
    """
    charts = [
        drawn for drawn in page.charts if isinstance(drawn, SeriesChart) and drawn.is_over_time
    ]
    of_points = {
        chart.labels: _of_points(chart.labels, notes, page.choice.last) for chart in charts
    }
    if not any(of_points.values()):
        return page

    def noted(part: Part) -> Part:
        if isinstance(part, SeriesChart) and part.is_over_time:
            return msgspec.structs.replace(part, notes=of_points[part.labels])
        if isinstance(part, Table) and part.columns[0].kind is Kind.DATE:
            points = part.rows.to_series().unique(maintain_order=True).to_list()
            return _with_column(part, of_points.get(tuple(points), ()))
        return part

    sections = (
        msgspec.structs.replace(section, parts=tuple(map(noted, section.parts)))
        for section in page.sections
    )
    return msgspec.structs.replace(page, sections=tuple(sections))


def _of_points(labels: Sequence[str], notes: DateNotes, last: date) -> tuple[DateNote, ...]:
    """The notes from the first point to the last day, in their order."""
    days = sorted(day for day in notes if labels and labels[0] <= day.isoformat() <= str(last))
    return tuple(
        DateNote(labels[bisect_right(labels, str(day)) - 1], str(day), notes[day]) for day in days
    )


def _with_column(table: Table, notes: Sequence[DateNote]) -> Table:
    if not notes:
        return table
    texts = dict[str, str]()
    for note in notes:
        texts[note.label] = "; ".join(filter(None, (texts.get(note.label), note.text)))
    points = table.rows.to_series().to_list()
    cells = pl.Series(_COLUMN.name, [texts.get(point, "") for point in points], pl.String)
    columns = (*table.columns, _COLUMN)
    return msgspec.structs.replace(table, columns=columns, rows=table.rows.with_columns(cells))
