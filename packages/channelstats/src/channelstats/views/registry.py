"""Every view by its name.

Rule: pure: the same data and choice give the same view. It takes a moment, so it is made in a
thread.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from channelstats.views import (
    channels,
    hours,
    network,
    newcomers,
    overview,
    people,
    reactions,
    threads,
    todo,
    volume,
)
from channelstats.views.frame_rows import FrameRows
from channelstats.views.glossary import explained, explained_columns
from channelstats.views.loading import DashboardData
from channelstats.views.model import VIEWS, Choice, ChoiceError, Kind, Table, View
from channelstats.views.request import ViewContent, ViewRequest

_VIEWS: Final[Mapping[str, Callable[[ViewRequest], ViewContent]]] = {
    "overview": overview.view,
    "todo": todo.view,
    "volume": volume.view,
    "hours": hours.view,
    "channels": channels.view,
    "people": people.view,
    "threads": threads.view,
    "reactions": reactions.view,
    "network": network.view,
    "newcomers": newcomers.view,
}


def view_of(name: str, data: DashboardData, choice: Choice, *, smallest_group: int = 1) -> View:
    """A view of a choice of the days that were read. For ``smallest_group`` see
    `channelstats.views.request`.

    :raises KeyError: there is no view of that name
    :raises ChoiceError: the choice is of other days, or of a group too small to be shown
    """
    made = _VIEWS[name]
    period = data.period
    if (choice.first, choice.last) != (period.start, period.last):
        raise ChoiceError(f"days are those from {period.start} to {period.last}")
    request = ViewRequest(data, choice, smallest_group)
    parts = made(request)
    return View(
        name=name,
        title=VIEWS[name],
        lead=parts.lead,
        choice=choice,
        before=(period.previous.start, period.previous.last),
        tiles=explained(parts.tiles),
        charts=explained(parts.charts),
        tables=explained_columns(_shown(parts.tables, data)),
        notes=(*_silence(request), *parts.notes, *request.suppression_notes),
        small_channels=frozenset(cid for cid in data.channels if not request.shows(cid)),
    )


def _shown(tables: tuple[Table, ...], data: DashboardData) -> tuple[Table, ...]:
    """The tables; where times are hidden, without what leads to messages."""
    if not data.inputs.hides_times:
        return tables
    return tuple(_without(table, Kind.MESSAGE) for table in tables)


def _without(table: Table, kind: Kind) -> Table:
    """The table without the columns of a kind."""
    gone = [at for at, column in enumerate(table.columns) if column.kind is kind]
    if not gone:
        return table
    kept = [at for at in range(len(table.columns)) if at not in gone]
    rows = table.rows
    return msgspec.structs.replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=rows.without(gone)
        if isinstance(rows, FrameRows)
        else tuple(tuple(row[at] for at in kept) for row in rows),
    )


def _silence(request: ViewRequest) -> tuple[str, ...]:
    """Says so when there is nothing."""
    if request.scope.now.messages.height:
        return ()
    who = "This person wrote nothing" if request.scope.person else "Nobody wrote anything"
    where = " in this channel" if request.choice.channel else ""
    return (f"{who}{where} in this period.",)
