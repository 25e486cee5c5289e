"""What a view was asked for, and what must not be shown of it.

Rule: with a smallest group of k, a channel in which fewer than k people posted in the period is in
no list and cannot be chosen, nor are messages in it listed; figures of the whole stay as they are,
as in reports. Where fewer than k posted in all, no person is named at all.
"""

from functools import cached_property

import msgspec

from channelstats.stats.measures import SmallGroups
from channelstats.views.comparison import Comparison
from channelstats.views.loading import DashboardData
from channelstats.views.model import Chart, Choice, ChoiceError, Table, Tile


class ViewContent(msgspec.Struct, frozen=True):
    """A view without what all views have."""

    lead: str
    tiles: tuple[Tile, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def refuse_small(choice: Choice, groups: SmallGroups) -> None:
    """Refuse what hides nobody.

    :raises ChoiceError: the choice is of a group that is too small to be shown
    """
    small = f"fewer than {groups.smallest} people posted"
    if choice.channel and not groups.shows(choice.channel):
        raise ChoiceError(f"{small} in this channel: it is not shown on its own")
    if choice.person and not groups.names_people:
        raise ChoiceError(f"{small} in these days: nobody is shown on their own")


class ViewRequest:
    """See the module.

    :raises ChoiceError: the choice is of a group that is too small to be shown
    """

    def __init__(self, data: DashboardData, choice: Choice, smallest_group: int) -> None:
        self.data = data
        self.choice = choice
        self.smallest_group = smallest_group
        whole = data.whole.now.chosen
        groups = SmallGroups(whole, smallest_group)
        self.shows, self.listable = groups.shows, groups.listable
        self.names_people = groups.names_people
        refuse_small(choice, groups)
        self.scope: Comparison = data.scope(choice)

    @cached_property
    def suppression_notes(self) -> tuple[str, ...]:
        """What is left out, in words."""
        if not self.names_people:
            return (f"Fewer than {self.smallest_group} people posted, so nobody is named.",)
        if any(not self.shows(of.slack_cid) for of in self.data.whole.now.chosen.channels):
            return (
                f"Channels where fewer than {self.smallest_group} people posted are not listed.",
            )
        return ()
