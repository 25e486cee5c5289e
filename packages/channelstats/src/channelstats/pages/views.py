"""Every view by its name.

Rule: pure: the same data and choice give the same view. It takes a moment, so it is made in a
thread.
"""

from collections.abc import Callable, Mapping
from typing import Final

from channelstats.pages import (
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
)
from channelstats.pages.date_notes import NO_NOTES, DateNotes, with_date_notes
from channelstats.pages.loading import NO_MEMBERS, DashboardData, Members, ViewRequest
from channelstats.pages.marked import NO_MARKS, MarkedItems, with_marks
from channelstats.pages.model import CHANNEL, GROUP, MESSAGES, PERSON, Choice, ChoiceError, Page

_VIEWS: Final[Mapping[str, Callable[[ViewRequest], Page]]] = {
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
    PERSON: person.view,
    CHANNEL: channel.view,
    MESSAGES: messages.view,
    GROUP: newcomers.group,
}


def view_of(
    name: str,
    data: DashboardData,
    choice: Choice,
    *,
    smallest_group: int = 1,
    marks: MarkedItems = NO_MARKS,
    notes: DateNotes = NO_NOTES,
    members: Members = NO_MEMBERS,
) -> Page:
    """The page of a view, of a choice of the days that were read. For ``smallest_group`` and
    ``members`` see `channelstats.pages.loading`, for ``marks`` `channelstats.pages.marked`, for
    ``notes`` `channelstats.pages.date_notes`.

    :raises KeyError: there is no view of that name
    :raises ChoiceError: the choice is of other days, or of a group too small to be shown
    """
    page = unmarked_view_of(name, data, choice, smallest_group=smallest_group, members=members)
    return with_date_notes(with_marks(page, marks), notes)


def unmarked_view_of(
    name: str,
    data: DashboardData,
    choice: Choice,
    *,
    smallest_group: int = 1,
    members: Members = NO_MEMBERS,
) -> Page:
    """The same before `with_marks` and `with_date_notes`."""
    made, period = _VIEWS[name], data.period
    if (choice.first, choice.last) != (period.start, period.last):
        raise ChoiceError(f"days are those from {period.start} to {period.last}")
    return made(ViewRequest(name, data, choice, smallest_group, members))
