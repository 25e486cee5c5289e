"""Every view by its name.

Rule: pure: the same data and choice give the same view. It takes a moment, so it is made in a
thread.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from channelstats.views import (
    channel,
    channels,
    hours,
    messages,
    network,
    newcomers,
    overview,
    people,
    person,
    reactions,
    threads,
    todo,
    topics,
)
from channelstats.views.loading import (
    NO_MARKS,
    DashboardData,
    MarkedItems,
    ViewContent,
    ViewRequest,
)
from channelstats.views.model import (
    ALL_VIEWS,
    CHANNEL,
    MESSAGES,
    PERSON,
    Choice,
    ChoiceError,
    Kind,
    Table,
    View,
)

_VIEWS: Final[Mapping[str, Callable[[ViewRequest], ViewContent]]] = {
    "overview": overview.view,
    "todo": todo.view,
    "volume": overview.volume,
    "hours": hours.view,
    "channels": channels.view,
    "people": people.view,
    "threads": threads.view,
    "reactions": reactions.view,
    "network": network.view,
    "newcomers": newcomers.view,
    "topics": topics.view,
    PERSON: person.view,
    CHANNEL: channel.view,
    MESSAGES: messages.view,
}


_TELL_TIMES: Final = frozenset({Kind.MESSAGE, Kind.ITEM})


def view_of(
    name: str,
    data: DashboardData,
    choice: Choice,
    *,
    smallest_group: int = 1,
    marks: MarkedItems = NO_MARKS,
) -> View:
    """A view of a choice of the days that were read. For ``smallest_group`` and ``marks`` see
    `channelstats.views.loading`.

    :raises KeyError: there is no view of that name
    :raises ChoiceError: the choice is of other days, or of a group too small to be shown
    """
    made = _VIEWS[name]
    period = data.period
    if (choice.first, choice.last) != (period.start, period.last):
        raise ChoiceError(f"days are those from {period.start} to {period.last}")
    request = ViewRequest(data, choice, smallest_group, marks)
    parts = made(request)
    return View(
        name=name,
        title=ALL_VIEWS[name],
        lead=parts.lead,
        choice=choice,
        before=(period.previous.start, period.previous.last),
        tiles=parts.tiles,
        charts=parts.charts,
        tables=tuple(_shown(table, request) for table in parts.tables),
        notes=(*_silence(request), *parts.notes, *request.suppression_notes),
        small_channels=frozenset(cid for cid in data.channels if not request.shows(cid)),
    )


def _shown(table: Table, request: ViewRequest) -> Table:
    """The table; where times are hidden, without what leads to messages, and where too few posted,
    without the people in it.
    """
    kinds = {column.name: column.kind for column in table.columns}
    if Kind.PERSON in kinds.values() and not request.names_people:
        table = msgspec.structs.replace(table, rows=table.rows.clear(), whole="")
    if request.data.inputs.hides_times:
        table = table.without(*(name for name, kind in kinds.items() if kind in _TELL_TIMES))
    return table


def _silence(request: ViewRequest) -> tuple[str, ...]:
    """Says so when there is nothing."""
    if request.scope.now.messages.height:
        return ()
    who = "This person wrote nothing" if request.scope.person else "Nobody wrote anything"
    where = " in this channel" if request.choice.channel else ""
    return (f"{who}{where} in this period.",)
