"""What the views of a choice of days are made of.

Rule: the days are read once; every view and every choice of a channel or a person works on the
same. What is read is bounded by a most of days and of messages.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Final

import polars as pl

from channelstats.privacy.inputs import hidden_inputs
from channelstats.privacy.pseudonyms import Pseudonyms
from channelstats.stats import Inputs, Options, Period
from channelstats.stats.inputs import TooManyMessages, load_inputs
from channelstats.stats.measures import MeasuredInputs
from channelstats.stats.period import MONTH, SUNDAY, WEEK
from channelstats.tables import Tables
from channelstats.tables.directory import Channel
from channelstats.tables.messages import Progress
from channelstats.views.comparison import Comparison, Selection
from channelstats.views.model import Choice, ChoiceError
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
