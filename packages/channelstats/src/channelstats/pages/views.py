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
from channelstats.pages.loading import NO_MEMBERS, DashboardData, Members, ViewRequest
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
    members: Members = NO_MEMBERS,
) -> Page:
    """The page of a view, of a choice of the days that were read; see `channelstats.pages.loading`
    for ``smallest_group`` and ``members``. What somebody marked or noted is not on it yet.

    :raises KeyError: there is no view of that name
    :raises ChoiceError: the choice is of other days, or of a group too small to be shown
    """
    make, period = _VIEWS[name], data.period
    if (choice.first, choice.last) != (period.start, period.last):
        raise ChoiceError(f"days are those from {period.start} to {period.last}")
    return make(ViewRequest(name, data, choice, smallest_group, members))
