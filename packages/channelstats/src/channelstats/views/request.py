"""What a view was asked for, and what must not be shown of it.

Rule: with a smallest group of k, a channel in which fewer than k people posted in the period is in
no list and cannot be chosen, nor are messages in it listed; figures of the whole stay as they are,
as in reports. Where fewer than k posted in all, no person is named at all.
"""

from collections.abc import Mapping
from functools import cached_property

import msgspec
import polars as pl

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


def refuse_small(
    choice: Choice, smallest_group: int, posters: int, posters_of: Mapping[str, int]
) -> None:
    """Refuse what hides nobody; so many posted, and so many in each channel.

    :raises ChoiceError: the choice is of a group that is too small to be shown
    """
    if smallest_group == 1:
        return
    small = f"fewer than {smallest_group} people posted"
    if choice.channel and posters_of.get(choice.channel, 0) < smallest_group:
        raise ChoiceError(f"{small} in this channel: it is not shown on its own")
    if choice.person and posters < smallest_group:
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
        posters = {of.slack_cid: of.posters for of in whole.channels}
        self._shown = {cid for cid, number in posters.items() if number >= smallest_group}
        self.names_people = smallest_group == 1 or whole.volume.posters >= smallest_group
        refuse_small(choice, smallest_group, whole.volume.posters, posters)
        self.scope: Comparison = data.scope(choice)

    def shows(self, cid: str) -> bool:
        """Whether a channel may be listed."""
        return self.smallest_group == 1 or cid in self._shown

    def listable(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows whose `slack_cid` may be listed."""
        if self.smallest_group == 1:
            return frame
        return frame.filter(pl.col("slack_cid").is_in(sorted(self._shown)))

    @cached_property
    def suppression_notes(self) -> tuple[str, ...]:
        """What is left out, in words."""
        if not self.names_people:
            return (f"Fewer than {self.smallest_group} people posted: nobody is named.",)
        if any(not self.shows(of.slack_cid) for of in self.data.whole.now.chosen.channels):
            return (f"Channels with fewer than {self.smallest_group} posters are not listed.",)
        return ()
