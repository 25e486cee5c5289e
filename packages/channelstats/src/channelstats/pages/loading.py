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
from channelstats.facts import Inputs, Options, Period
from channelstats.facts.facts import Facts, Slice
from channelstats.facts.periods import MONTH, WEEK, YEAR
from channelstats.facts.reading import LARGE, ReportContext, TooManyMessages, load_inputs
from channelstats.metrics.query import Scope
from channelstats.metrics.table import Kind, Table
from channelstats.pages.model import (
    ALL_VIEWS,
    Choice,
    ChoiceError,
    Line,
    Page,
    Part,
    Section,
    Text,
    Tile,
    Tiles,
)
from channelstats.pages.small_groups import SmallGroups
from channelstats.tables import Tables
from channelstats.tables.columns import ID, is_among
from channelstats.tables.directory import Channel
from channelstats.tables.exclusion import resolve_people
from channelstats.tables.messages import Progress

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


class Members(NamedTuple):
    """Of one channel: IDs of its ``people``, and how many there were, as ``samples`` of (seconds,
    members) in the order of time.
    """

    people: tuple[str, ...] = ()
    samples: tuple[tuple[int, int], ...] = ()

    def at_ends(self, period: Period) -> tuple[int, int] | None:
        """How many at the beginning and at the end; None when no sample was taken before the end.

        The beginning is the latest sample up to the first midnight, else the earliest after it; the
        end is the latest sample before the midnight after the last date.
        """
        until_end = [members for at, members in self.samples if at < period.end]
        if not until_end:
            return None
        until_begin = [members for at, members in self.samples if at <= period.begin]
        return (until_begin or until_end[:1])[-1], until_end[-1]


NO_MEMBERS: Final = Members()


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
        """What is known of channels beside their messages: `slack_cid`, `members`, and whether each
        is `new`, made after the period began, `private` or `archived`.
        """
        begin = self.period.begin
        rows = [
            (cid, known.members, known.created > begin, known.is_private, known.is_archived)
            for cid, known in self.channels.items()
        ]
        flags = dict.fromkeys(("new", "private", "archived"), pl.Boolean())
        schema = {"slack_cid": ID, "members": pl.Int64(), **flags}
        return pl.DataFrame(rows, schema, orient="row")

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.inputs, self.options)

    @cached_property
    def whole(self) -> Scope:
        """Everything."""
        then = self.then or self
        return Scope(self.facts.slice(self.period), then.facts.slice(self.period.previous))

    @property
    def is_large(self) -> bool:
        """Whether its views take so much memory that they should not be made beside others."""
        return self.inputs.messages.height > LARGE

    def scope(self, choice: Choice) -> Scope:
        """What was chosen."""
        if not choice.channels and not choice.person:
            return self.whole
        chosen = choice.channels, choice.person
        # What was made of everybody serves a person too.
        return Scope(
            *(
                Slice(part.facts, part.period, *chosen, None if choice.channels else part)
                for part in self.whole
            )
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


async def load_members(tables: Tables, choice: Choice, options: Options) -> Members:
    """The members of the chosen channel, as they were read, but for those who are excluded."""
    text = await tables.bulk.get(choice.channel) or ""
    users = await tables.users.all() if options.excluded_users else {}
    out = resolve_people(options.excluded_users, users)
    people = tuple(uid for uid in text.split(",") if uid and uid not in out)
    return Members(people, tuple(await tables.members_log.samples(choice.channel)))


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
    ``members`` are those of the channel, where they matter.

    :raises ChoiceError: the choice is of a group that is too small to be shown
    """

    def __init__(
        self,
        name: str,
        data: DashboardData,
        choice: Choice,
        smallest_group: int,
        members: Members = NO_MEMBERS,
    ) -> None:
        self.name = name
        self.data = data
        self.choice = choice
        self.members = members
        self.smallest_group = smallest_group
        groups = SmallGroups(data.whole.now, smallest_group)
        self.shows, self.listable = groups.shows, groups.listable
        self.names_people, self._groups = groups.names_people, groups
        for channel in (choice.channel, *choice.compare):
            refuse_small(msgspec.structs.replace(choice, channel=channel), groups)
        shown = tuple(filter(self.shows, choice.group))
        self.choice = choice = msgspec.structs.replace(choice, group=shown)
        self.scope: Scope = data.scope(choice)

    def written(self, people: pl.DataFrame, days: Period) -> pl.DataFrame:
        """What these people wrote in some days, in the chosen channels or anywhere."""
        there = self.data.facts.slice(days, self.choice.channels)
        return there.messages.filter(is_among(people["slack_uid"]))

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
        kinds = {column.kind for table in section.tables for column in table.columns}
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
        if not all(map(self.shows, self._groups.posters)):
            out = "left out" if self.choice.group else "not listed"
            return (f"Channels where fewer than {self.smallest_group} people posted are {out}.",)
        return ()
