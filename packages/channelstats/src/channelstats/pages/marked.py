"""A page as it is shown: its items as they were marked and assigned.

Rule: what somebody says of an item changes no page that was made before, so it is on the next one.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec
import polars as pl

from channelstats.metrics.registry import METRICS
from channelstats.metrics.table import Table
from channelstats.pages.components import table
from channelstats.pages.model import TO_DO, Page, Section
from channelstats.pages.queue import ITEM, LISTED, QUEUE, SHOWN
from channelstats.tables.marks import ItemMark, assignment_of

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
