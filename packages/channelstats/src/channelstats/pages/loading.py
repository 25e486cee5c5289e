"""What the views of a choice of days are made of, and what must not be shown of it.

Rule: the days are read once; every view and every choice of a channel or a person works on the
same. What is read is bounded by a most of days and of messages; where there are more, a channel is
read alone.

With a smallest group of k, a channel in which fewer than k people posted in the period is in no
list and cannot be chosen, nor are messages in it listed, and of a group of channels it is left
out; figures of the whole stay as they are, as in reports. Where fewer than k posted in all, no
person is named at all.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import polars as pl

from channelstats.days import SUNDAY, period_text
from channelstats.identifiers import SLACKBOT
from channelstats.stats import Inputs, Options, Period, quantities
from channelstats.facts.reading import LARGE, ReportContext, TooManyMessages, load_inputs
from channelstats.stats.measures import MeasuredInputs, Measures, SmallGroups
from channelstats.facts.periods import MONTH, WEEK, YEAR
from channelstats.metrics.quantities import Change, Formula, Quantity
from channelstats.stats.rankings import known_channels
from channelstats.tables import Tables
from channelstats.tables.directory import Channel
from channelstats.tables.exclusion import resolve_people
from channelstats.tables.messages import Progress
from channelstats.pages.model import (
    ALL_VIEWS,
    Choice,
    ChoiceError,
    Kind,
    Line,
    Page,
    Part,
    Section,
    Table,
    Text,
    Tile,
    Tiles,
)

MOST_DAYS: Final = 400
MOST_MESSAGES: Final = 12_000_000
"""Of what is read for one choice of days: a million takes 0.25 GB while its views are made."""

UNREAD: Final = ("room", "fetched_at")
"""Columns that no view is made from."""

COHORTS: Final = 12
"""Weeks that newcomers are followed over, or those of a longer period, where there are not too many
messages in them."""

_NOT_LISTED: Final = "Nothing is listed here. Small groups are left out."

_EARLIEST: Final = date(2000, 1, 1)
_LATEST: Final = date(2200, 1, 1)
"""No message is from a time beyond."""


class TooMuch(ChoiceError):  # noqa: N818 - named for what happened
    """There are too many messages in the days of a choice."""


class Comparison(NamedTuple):
    """A choice in the period and in the one before."""

    now: Measures
    before: Measures

    @property
    def is_meaningful(self) -> bool:
        """Whether messages of both are known whole."""
        return all(of.history.covers(of.period) for of in self)

    def change(self, now: Quantity, before: Quantity | None) -> Change:
        """A number against the one before, where these can be compared."""
        return (
            quantities.change(now, before) if self.is_meaningful else quantities.not_compared(now)
        )

    def changes(self, of: Formula) -> pl.Expr:
        """`change` of each row of `channels` or `authors`."""
        now = of.column()
        if self.is_meaningful:
            return quantities.changes(now, of.column(quantities.before), pl.col("was"))
        nothing, state = pl.lit(None, pl.Float64), pl.lit("not_compared")
        return pl.struct(cur=now.shown(), prev=nothing, diff_pct=nothing, state=state)

    @property
    def before_title(self) -> str:
        return "A year before" if self.now.period.back else "Period before"

    @property
    def channels(self) -> pl.DataFrame:
        """The channels with messages, beside the period before: see `beside`."""
        now, before = (of.channel_frame for of in self)
        return quantities.beside(now, before, "slack_cid")

    @property
    def authors(self) -> pl.DataFrame:
        """Everybody with an entry, whoever is chosen, beside the period before."""
        now, before = (of.whole.author_frame for of in self)
        return quantities.beside(now, before, "slack_uid")

    @property
    def person(self) -> str:
        return self.now.person


@dataclass(frozen=True)
class DashboardData:
    """``cohorts`` are the weeks that newcomers are followed over; ``first_weekday`` is the one that
    weeks begin with, Monday is 0. ``then`` are the same weeks a year before, read for themselves,
    where these are compared with.
    """

    inputs: Inputs
    period: Period
    options: Options
    first_weekday: int = SUNDAY
    cohorts: int = COHORTS
    then: "DashboardData | None" = None

    def against_year(self, then: "DashboardData") -> "DashboardData":
        """The same, compared with these days of a year before."""
        return replace(self, period=replace(self.period, back=YEAR), then=then)

    @property
    def channels(self) -> Mapping[str, Channel]:
        return self.inputs.channels

    @cached_property
    def known_channels(self) -> pl.DataFrame:
        """See `rankings.known_channels`."""
        return known_channels(self.channels, self.period)

    @cached_property
    def measured(self) -> MeasuredInputs:
        return MeasuredInputs(self.inputs, self.period, self.options)

    @cached_property
    def whole(self) -> Comparison:
        """Everything."""
        return self._compared(())

    @cached_property
    def gone(self) -> list[str]:
        """Whose account is deactivated, or a bot's, Slackbot's too."""
        users = self.inputs.users.items()
        return [uid for uid, of in users if of.deleted or of.is_bot or uid == SLACKBOT]

    @property
    def is_large(self) -> bool:
        """Whether its views take so much memory that they should not be made beside others."""
        return self.inputs.messages.height > LARGE

    def measured_in(self, channels: tuple[str, ...]) -> MeasuredInputs:
        """Of these channels together, without any of all."""
        if not channels:
            return self.measured
        return self.measured.only(pl.col("slack_cid").is_in(channels))

    def scope(self, choice: Choice) -> Comparison:
        """What was chosen."""
        whole = self._compared(choice.channels) if choice.channels else self.whole
        if not choice.person:
            return whole
        return self._compared(choice.channels, choice.person, whole)

    def _compared(
        self, channels: tuple[str, ...], person: str = "", whole: Comparison | None = None
    ) -> Comparison:
        now = self.measured_in(channels)
        before = now if self.then is None else self.then.measured_in(channels)
        if whole is None:
            return Comparison(now.measures(self.period), before.measures(self.period.previous))
        is_theirs = pl.col("slack_uid") == person
        own = now.only(is_theirs)
        own_before = own if before is now else before.only(is_theirs)
        return Comparison(
            own.measures(self.period, person, whole.now),
            own_before.measures(self.period.previous, person, whole.before),
        )


async def load(
    tables: Tables,
    choice: Choice,
    options: Options,
    *,
    first_weekday: int = SUNDAY,
    context: ReportContext | None = None,
    progress: Progress | None = None,
    alone: AbstractAsyncContextManager[None] | None = None,
) -> DashboardData:
    """Read what the days of a choice and as many before are made of, beside a ``context`` that was
    read before. ``progress`` is called with the dates read, and all. Of a choice with channels no
    message of another one is read. For ``alone`` see `load_inputs`.

    :raises ChoiceError: there are no such days, or too many of them or of messages in them
    """
    period = period_of(choice, tables)
    options = of_pages(options)
    for reach in dict.fromkeys((reach_of(period), period.ending_with(_least(period)))):
        try:
            inputs = await load_inputs(
                tables,
                period,
                options,
                progress,
                context=context,
                reach=reach,
                most=MOST_MESSAGES,
                channels=choice.channels,
                unread=UNREAD,
                alone=alone,
            )
        except TooManyMessages:
            continue
        cohorts = min(reach.days, max(period.days, COHORTS * WEEK)) // WEEK
        return DashboardData(inputs, period, options, first_weekday, cohorts)
    raise TooMuch(
        f"there are more than {MOST_MESSAGES:,} messages in these days and those they are"
        " compared with: choose fewer days, or a channel"
    )


async def load_members(tables: Tables, choice: Choice, options: Options) -> tuple[str, ...]:
    """Who is in the chosen channel, as it was read last, but for those who are excluded."""
    text = await tables.bulk.get(choice.channel) or ""
    users = await tables.users.all() if options.excluded_users else {}
    out = resolve_people(options.excluded_users, users)
    return tuple(uid for uid in text.split(",") if uid and uid not in out)


def of_pages(options: Options) -> Options:
    """Options as pages need them."""
    if options.merge_skin_tones is None:
        return replace(options, merge_skin_tones=True)
    return options


def reach_of(period: Period) -> Period:
    """The days that everything said of a period is made of, but where there are too many messages
    in them.
    """
    return period.ending_with(max(_least(period), COHORTS * WEEK))


def _least(period: Period) -> int:
    """Days that are needed in any case: those compared with, and those before newcomers."""
    return max(2 * period.days, period.days + MONTH)


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


def refuse_small(choice: Choice, groups: SmallGroups) -> None:
    """Refuse what hides nobody.

    :raises ChoiceError: the choice is of a group that is too small to be shown
    """
    small = f"fewer than {groups.smallest} people posted"
    if choice.channels and not any(map(groups.shows, choice.channels)):
        where = "each of these channels: none is" if choice.group else "this channel: it is not"
        raise ChoiceError(f"{small} in {where} shown on its own")
    if choice.person and not groups.names_people:
        raise ChoiceError(f"{small} in these days: nobody is shown on their own")


class ViewRequest:
    """What the view ``name`` was asked for: a choice, and the smallest group that may be shown;
    ``members`` are who is in the channel, where that matters.

    :raises ChoiceError: the choice is of a group that is too small to be shown
    """

    def __init__(
        self,
        name: str,
        data: DashboardData,
        choice: Choice,
        smallest_group: int,
        members: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.data = data
        self.choice = choice
        self.members = members
        self.smallest_group = smallest_group
        groups = SmallGroups(data.whole.now, smallest_group)
        self.shows, self.listable = groups.shows, groups.listable
        self.names_people = groups.names_people
        for channel in (choice.channel, *choice.compare):
            refuse_small(msgspec.structs.replace(choice, channel=channel), groups)
        shown = tuple(filter(self.shows, choice.group))
        self.choice = choice = msgspec.structs.replace(choice, group=shown)
        self.scope: Comparison = data.scope(choice)

    def measures_of(self, people: pl.Series, days: Period) -> Measures:
        """What these people wrote in other days, in the chosen channels or anywhere."""
        measured = self.data.measured_in(self.choice.channels)
        return measured.only(pl.col("slack_uid").is_in(people.implode())).measures(days)

    def page(
        self,
        about: str,
        *sections: Section,
        summary: Iterable[Line] = (),
        tiles: tuple[Tile, ...] = (),
        notes: tuple[str, ...] = (),
        compares: bool = True,
    ) -> Page:
        """The page of the view, without what must not be shown."""
        period, lead, lines = self.data.period, list[Part](), tuple(summary)
        if lines:
            lead.append(Text(lines))
        if tiles:
            lead.append(Tiles(tiles))
        return Page(
            name=self.name,
            title=(ALL_VIEWS[self.name],),
            choice=self.choice,
            before=(period.previous.start, period.previous.last),
            compares=compares,
            about=about,
            period=period_text(period.start, period.last),
            lead=tuple(lead),
            sections=tuple(map(self._shown_section, sections)),
            notes=(*self._silence, *notes, *self._suppression),
            small_channels=frozenset(cid for cid in self.data.channels if not self.shows(cid)),
        )

    def _shown_section(self, section: Section) -> Section:
        """A section of `_shown` parts. An empty list does not say that there is nobody or nothing
        where some may be left out.
        """
        parts = tuple(map(self._shown, section.parts))
        kinds = {of.kind for table in section.tables for of in table.columns}
        may_be_cut = self.smallest_group > 1 and kinds & {Kind.PERSON, Kind.CHANNEL}
        empty = _NOT_LISTED if may_be_cut else section.empty
        return msgspec.structs.replace(section, parts=parts, empty=empty)

    def _shown(self, part: Part) -> Part:
        """A table without the people in it where too few posted."""
        if not isinstance(part, Table) or self.names_people:
            return part
        names_people = any(column.kind is Kind.PERSON for column in part.columns)
        if not names_people:
            return part
        return msgspec.structs.replace(part, rows=part.rows.clear(), whole="")

    @property
    def where(self) -> str:
        """The channels chosen, as the end of a sentence."""
        of_one = " in this channel" if self.choice.channel else ""
        return " in these channels" if self.choice.group else of_one

    @property
    def _silence(self) -> tuple[str, ...]:
        """Says so when there is nothing."""
        if self.scope.now.messages.height:
            return ()
        who = "This person wrote nothing" if self.scope.person else "Nobody wrote anything"
        return (f"{who}{self.where} in this period.",)

    @property
    def _suppression(self) -> tuple[str, ...]:
        """What is left out, in words."""
        if self.smallest_group <= 1:
            return ()
        if not self.names_people:
            return (f"Fewer than {self.smallest_group} people posted, so nobody is named.",)
        if not all(map(self.shows, self.data.whole.now.channel_frame["slack_cid"])):
            out = "left out" if self.choice.group else "not listed"
            return (f"Channels where fewer than {self.smallest_group} people posted are {out}.",)
        return ()
