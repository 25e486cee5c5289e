"""What people said of a page: items that they marked and assigned, and notes on dates, such as a
launch or a holiday.

Rule: what somebody says changes no page that was made before, so it is on the next one. A note
belongs to the point that its date is in.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, TypeAlias

import msgspec
import polars as pl

from channelstats.metrics.registry import METRICS
from channelstats.metrics.table import Column, Kind, Table
from channelstats.pages.components import table
from channelstats.pages.model import TO_DO, DateNote, Page, Part, Section, SeriesChart
from channelstats.pages.queue import ITEM, LISTED, QUEUE, SHOWN
from channelstats.tables.marks import ItemMark, assignment_of

# ── marks ────────────────────────────────────────────────────────────────────────────────────────

MARKED: Final = "marked"
"""The table of what is left out."""

ASSIGNEE: Final = "assignee"
ASSIGNED_BY: Final = "assigned_by"

MarkedItems: TypeAlias = Mapping[str, ItemMark]
NO_MARKS: Final[MarkedItems] = {}


def with_marks(page: Page, marks: MarkedItems, assignee: str = "") -> Page:
    """A page with its items that are not marked, of all or of an ``assignee``, and whom they are
    assigned to. To do lists below which are marked, with who marked them.
    """
    names = [[table.name for table in section.tables] for section in page.sections]
    if [QUEUE] not in names:
        return page
    place = names.index([QUEUE])
    section, below = page.sections[place], tuple[Section, ...]()
    (items,) = section.tables
    # Where times are hidden there are no keys, and nothing can be marked.
    if marks and ITEM in items.rows.columns:
        items = _with_assignees(items, marks)
        if page.name == TO_DO and (marked := _marked(items.rows, marks)).rows.height:
            below = (Section.of(marked),)
        is_marked = pl.col(ITEM).is_in(list(marks))
        items = msgspec.structs.replace(items, rows=items.rows.filter(~is_marked))
    if assignee:
        theirs = pl.col(ASSIGNEE) == assignee if ASSIGNEE in items.rows.columns else pl.lit(False)
        items = msgspec.structs.replace(items, rows=items.rows.filter(theirs))
    most = LISTED if page.name == TO_DO else SHOWN
    shown = msgspec.structs.replace(items, rows=items.rows.head(most))
    first = msgspec.structs.replace(section, parts=(shown,))
    sections = (*page.sections[:place], first, *below, *page.sections[place + 1 :])
    return msgspec.structs.replace(page, sections=sections)


def _with_assignees(items: Table, marks: MarkedItems) -> Table:
    """The items with whom they are assigned to and by whom, where any is."""
    assigned = (marks.get(assignment_of(item)) for item in items.rows[ITEM])
    cells = [(mark.assignee, mark.by) if mark else (None, None) for mark in assigned]
    if not any(assignee for assignee, _ in cells):
        return items
    added = pl.DataFrame(cells, dict.fromkeys((ASSIGNEE, ASSIGNED_BY), pl.String), orient="row")
    columns = (METRICS[name].column(name) for name in added.columns)
    return msgspec.structs.replace(
        items, columns=(*items.columns, *columns), rows=items.rows.hstack(added)
    )


def _marked(rows: pl.DataFrame, marks: MarkedItems) -> Table:
    """The items that somebody marked, and who that was."""
    said = [(key, mark.state.replace("_", " "), mark.by) for key, mark in marks.items()]
    schema = dict.fromkeys((ITEM, "state", "by"), pl.String)
    items = rows.join(
        pl.DataFrame(said, schema, orient="row"), on=ITEM, maintain_order="left"
    ).select("action", "person", "channel", "message", "state", "by", ITEM)
    about = "Left out of the list above: for a week what is snoozed, for good what is done."
    return table(MARKED, "Marked", items, about=about)


# ── notes on dates ───────────────────────────────────────────────────────────────────────────────

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
