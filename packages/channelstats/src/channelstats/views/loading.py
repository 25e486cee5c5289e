"""What the views of a choice of days are made of, and what must not be shown of it.

Rule: the days are read once; every view and every choice of a channel or a person works on the
same. What is read is bounded by a most of days and of messages.

With a smallest group of k, a channel in which fewer than k people posted in the period is in no
list and cannot be chosen, nor are messages in it listed; figures of the whole stay as they are, as
in reports. Where fewer than k posted in all, no person is named at all.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Final

import msgspec
import polars as pl

from channelstats.privacy import Pseudonyms, hidden_inputs
from channelstats.stats import Inputs, Options, Period
from channelstats.stats.inputs import TooManyMessages, load_inputs
from channelstats.stats.measures import MeasuredInputs, SmallGroups
from channelstats.stats.period import MONTH, SUNDAY, WEEK
from channelstats.stats.rankings import is_new
from channelstats.tables import Tables
from channelstats.tables.directory import Channel
from channelstats.tables.messages import Progress
from channelstats.views.comparison import Comparison, Selection
from channelstats.views.model import Chart, Choice, ChoiceError, Table, Tile
from channelstats.views.slack_counts import SlackCounts, load_slack_counts

MOST_DAYS: Final = 400
MOST_MESSAGES: Final = 1_000_000
"""Of what is read for one choice of days: about 2 GB while the views of it are made."""

COHORTS: Final = 12
"""Weeks that newcomers are followed over, where there are not too many messages in them."""

_EARLIEST: Final = date(2000, 1, 1)
_LATEST: Final = date(2200, 1, 1)
"""No message is from a time beyond."""


@dataclass(frozen=True)
class DashboardData:
    """``cohorts`` are the weeks that newcomers are followed over; ``first_weekday`` is the one that
    weeks begin with, Monday is 0.
    """

    inputs: Inputs
    period: Period
    options: Options
    first_weekday: int = SUNDAY
    cohorts: int = COHORTS
    slack: SlackCounts = field(default_factory=SlackCounts)

    @property
    def channels(self) -> Mapping[str, Channel]:
        return self.inputs.channels

    @cached_property
    def known_channels(self) -> pl.DataFrame:
        """What is known of channels beside their messages: `slack_cid`, `members`, and whether each
        is `new` in the period, `private` or `archived`.
        """
        rows = [
            (cid, of.members, is_new(of, self.period), of.is_private, of.is_archived)
            for cid, of in self.channels.items()
        ]
        flags = dict.fromkeys(("new", "private", "archived"), pl.Boolean)
        schema = {"slack_cid": pl.String, "members": pl.Int64, **flags}
        return pl.DataFrame(rows, schema, orient="row")

    @cached_property
    def measured(self) -> MeasuredInputs:
        return MeasuredInputs(self.inputs, self.period, self.options)

    @cached_property
    def whole(self) -> Comparison:
        """Everything."""
        return self._scope()

    def scope(self, choice: Choice) -> Comparison:
        """What was chosen."""
        found = self.whole
        if choice.channel:
            here = pl.col("slack_cid") == choice.channel
            found = self._scope(here)
        if not choice.person:
            return found
        theirs = pl.col("slack_uid") == choice.person

        def of_person(whole: Selection) -> Selection:
            counted_messages = whole.period_messages.source.only(theirs)
            posts = whole.chosen.first_posts.filter(theirs)
            measures = self.measured.measures(whole.period, counted_messages, posts)
            return Selection(measures, whole.history, choice.person, whole)

        return Comparison(of_person(found.now), of_person(found.before))

    def _scope(self, here: pl.Expr | None = None) -> Comparison:
        """Of all messages, or of those of a channel."""
        measured, messages, posts = self.measured, None, None
        if here is not None:
            messages = measured.counted_messages.only(here)
            posts = measured.first_posts.filter(here)
        return Comparison(
            *(
                Selection(measured.measures(days, messages, posts), self.inputs.history)
                for days in (self.period, self.period.previous)
            )
        )


async def load(
    tables: Tables,
    choice: Choice,
    options: Options,
    *,
    first_weekday: int = SUNDAY,
    names: Pseudonyms | None = None,
    progress: Progress | None = None,
) -> DashboardData:
    """Read what the days of a choice and as many before are made of; with ``names`` all under
    pseudonyms. ``progress`` is called with the dates read, and all.

    :raises ChoiceError: there are no such days, or too many of them or of messages in them
    """
    period = period_of(choice, tables)
    needed = max(2 * period.days, period.days + MONTH)
    for days in sorted({max(needed, COHORTS * WEEK), needed}, reverse=True):
        reach = period.ending_with(days)
        try:
            inputs = await load_inputs(
                tables, period, options, progress, reach=reach, most=MOST_MESSAGES
            )
        except TooManyMessages:
            continue
        if names is not None:
            inputs = (await asyncio.to_thread(hidden_inputs, inputs, names)).inputs
        cohorts = min(days // WEEK, COHORTS)
        slack = await load_slack_counts(tables, period, options, names)
        return DashboardData(inputs, period, options, first_weekday, cohorts, slack)
    raise ChoiceError(
        f"there are more than {MOST_MESSAGES:,} messages in these days and those they are"
        " compared with: choose fewer days"
    )


def period_of(choice: Choice, tables: Tables) -> Period:
    """The days of a choice."""
    days = (choice.last - choice.first).days + 1
    if days < 1:
        raise ChoiceError(f"{choice.first} is after {choice.last}")
    if days > MOST_DAYS:
        raise ChoiceError(f"{days:,} days are too many to show: {MOST_DAYS} are the most")
    if choice.first < _EARLIEST or choice.last >= _LATEST:
        raise ChoiceError(f"days lie between {_EARLIEST} and {_LATEST}")
    return Period(choice.first, days, tables.zone)


# ── what is asked for ────────────────────────────────────────────────────────────────────────────


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
    """What a view was asked for: a choice, and the smallest group that may be shown.

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
        self.slack = SlackCounts() if choice.channel or choice.person else data.slack

    @cached_property
    def suppression_notes(self) -> tuple[str, ...]:
        """What is left out, in words."""
        if not self.names_people:
            return (f"Fewer than {self.smallest_group} people posted, so nobody is named.",)
        if not all(map(self.shows, self.data.whole.now.chosen.channel_frame["slack_cid"])):
            return (
                f"Channels where fewer than {self.smallest_group} people posted are not listed.",
            )
        return ()
