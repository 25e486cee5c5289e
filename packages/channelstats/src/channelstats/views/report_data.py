"""What the reports of a period are built from: its frames, and what is known beside them.

Rule: read once for all reports of a period. A frame is divided once by the channel or the person
that its rows are about, so that hundreds of reports do not look through all of it each.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Final

import polars as pl

from channelstats.stats.activity import HOURS, WEEKDAYS, Key, Step, hour_text
from channelstats.stats.document import report
from channelstats.stats.inputs import Options, load_inputs
from channelstats.stats.interactions import GROUPS
from channelstats.stats.measures import Measures, SmallGroups
from channelstats.stats.messages import REACTED, REPLIED, top_messages
from channelstats.stats.period import Period
from channelstats.stats.quantities import (
    Change,
    Formula,
    beside,
    counts,
    percent_of,
)
from channelstats.stats.rankings import (
    AUTHORS_COMPARED,
    CHANNELS_COMPARED,
    EMOJI_RATE,
    VOLUME_COMPARED,
    members_at_ends,
)
from channelstats.tables import Tables
from channelstats.tables.messages import Progress
from channelstats.views.figures import Figure
from channelstats.views.loading import DashboardData, reach_of
from channelstats.views.model import Choice
from channelstats.views.queue import MarkedItems
from channelstats.views.registry import view_of

MOVED: Final = ("files", "joins", "leaves")
"""Figures of channels that the document has not."""

SIZES: Final = ("total", "people")
"""Of a people group: how often in all, and how many people."""

_STEPS: Final[Mapping[str, tuple[str, Step, Mapping[int, str]]]] = {
    "hours": ("hour", "local_hour", {hour: hour_text(hour) for hour in HOURS}),
    "days": ("day", "local_weekday", dict(enumerate(WEEKDAYS))),
}
"""Of local times: what a step is called, the column it is in, and the names of steps."""


class Partition:
    """The rows of a frame by the text in a column, in the order that they have."""

    def __init__(self, frame: pl.DataFrame, key: str) -> None:
        self._frame = frame.with_columns(pl.col(key).cast(pl.String)).sort(key, maintain_order=True)
        runs = self._frame[key].rle().struct.unnest()
        starts = runs["len"].cum_sum() - runs["len"]
        self._at = dict(zip(runs["value"], zip(starts, runs["len"], strict=True), strict=True))

    def of(self, name: str) -> pl.DataFrame:
        """Those rows; none for a name that is in no row."""
        return self._frame.slice(*self._at.get(name, (0, 0)))


@dataclass(frozen=True)
class ReportData:
    """``made_at`` is in seconds since the epoch; ``created`` is when accounts were made, in
    seconds; ``newest`` is the date of the newest message of all, None where there is none;
    ``members`` those of a channel at both ends of the period. ``marks`` are
    what was said of things to do.
    """

    data: DashboardData
    made_at: int
    smallest_group: int = 1
    created: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    newest: date | None = None
    marks: MarkedItems = field(default_factory=dict)

    @property
    def period(self) -> Period:
        return self.data.period

    @cached_property
    def groups(self) -> SmallGroups:
        return SmallGroups(self.data.whole.now, self.smallest_group)

    @property
    def now(self) -> Measures:
        return self.data.whole.now

    @property
    def before(self) -> Measures:
        return self.data.whole.before

    @cached_property
    def channels(self) -> pl.DataFrame:
        """Those that may be listed, the most words first: their numbers beside those of the period
        before, what is known of them, and the changes of `COMPARED` and `MOVED` by name.
        """
        known = self.data.known_channels
        compared = {**CHANNELS_COMPARED, **{name: Formula(name) for name in MOVED}}
        return (
            self.groups.listable(self.data.whole.channels)
            .join(known, on="slack_cid", how="left", maintain_order="left")
            .with_columns(rank=pl.int_range(1, pl.len() + 1), **self.changes(compared))
        )

    @cached_property
    def people(self) -> pl.DataFrame:
        """The same of everybody with an entry, by rank."""
        return self.data.whole.authors.with_columns(**self.changes(AUTHORS_COMPARED))

    @cached_property
    def channel_people(self) -> pl.DataFrame:
        """The same of the people in each channel."""
        found = beside(
            self.now.channel_authors, self.before.channel_authors, "slack_cid", "slack_uid"
        )
        return found.with_columns(**self.changes(VOLUME_COMPARED))

    def changes(self, compared: Mapping[str, Formula]) -> dict[str, pl.Expr]:
        """The changes of the rows of a frame that is `beside` the period before."""
        return {name: self.data.whole.changes(of) for name, of in compared.items()}

    @property
    def emoji(self) -> pl.DataFrame:
        """See `emoji_rates`: of everything."""
        found = counts(self.now.period_messages.reactions, "emoji")
        return emoji_rates(found.with_columns(w=pl.lit(self.now.volume.words, pl.Int64)))

    @cached_property
    def document(self) -> bytes:
        """The document of the period as JSON, as far as it may be shown."""
        of, smallest = self.data, self.smallest_group
        return report(
            of.inputs, of.period, of.options, generated_at=self.made_at, smallest_group=smallest
        )

    def top(self, count: str) -> pl.DataFrame:
        """The messages with the most of something that may be listed."""
        return self.groups.listable(top_messages(self.now.period_messages, count))

    @cached_property
    def to_do(self) -> pl.DataFrame:
        """What is to be done first, as the view To do has it of these days."""
        everything = Choice(self.period.start, self.period.last)
        smallest, marks = self.smallest_group, self.marks
        view = view_of("todo", self.data, everything, smallest_group=smallest, marks=marks)
        return view.tables[0].rows

    def of_channel(self, table: str, cid: str) -> pl.DataFrame:
        """What a channel's report is made of: `figures` (one row), `people`, `emoji`, `days`,
        `hours` or a count of messages, in the order that it is shown in. Of what has a column for
        the channel alone that is the first.
        """
        return self._divided(table, "slack_cid").of(cid)

    def of_person(self, table: str, uid: str) -> pl.DataFrame:
        """The same of a person: `figures`, `groups` and `first_posts` (one row each), `channels`,
        `emoji` received, `days`, `hours`, a count of messages or a people group.
        """
        return self._divided(table, "slack_uid").of(uid)

    @cached_property
    def _partitions(self) -> dict[tuple[str, str], Partition]:
        return {}

    def _divided(self, table: str, key: Key) -> Partition:
        if (table, key) not in self._partitions:
            self._partitions[table, key] = Partition(self._frame(table, key), key)
        return self._partitions[table, key]

    def _frame(self, table: str, key: Key) -> pl.DataFrame:
        if table in GROUPS:
            found = self.now.interactions.group(table)
            return found.select(slack_uid="uid", person="other", times="n")
        if table in (REACTED, REPLIED):
            return self.top(table)
        if table == "emoji":
            words = self.now.author_frame if key == "slack_uid" else self.now.channel_frame
            found = counts(self.now.period_messages.reactions, key, "emoji")
            return emoji_rates(
                found.join(words.select(key, "w"), on=key, how="left", maintain_order="left")
            )
        if table in _STEPS:
            return self._shares(table, key)
        frames: dict[tuple[str, str], Callable[[], pl.DataFrame]] = {
            ("figures", "slack_cid"): lambda: self.channels,
            ("figures", "slack_uid"): lambda: self.people,
            ("groups", "slack_uid"): self._groups,
            ("people", "slack_cid"): lambda: self.channel_people,
            ("channels", "slack_uid"): self._homes,
            ("first_posts", "slack_uid"): lambda: self.data.measured.first_posts,
        }
        return frames[table, key]()

    def _shares(self, table: str, key: Key) -> pl.DataFrame:
        """The `share` of each hour or day in the `messages` of one channel or person."""
        step, number, labels = _STEPS[table]
        shown_step = pl.col(number).cast(pl.Int64).replace_strict(labels, return_dtype=pl.String)
        volumes = self.now.activity.of_each(key, number)
        return volumes.with_columns(all=pl.col("m").sum().over(key)).select(
            key,
            shown_step.alias(step),
            share=percent_of("m", "all").column().shown(),
            messages="m",
        )

    def _homes(self) -> pl.DataFrame:
        """The channels that people have words in, the most words first."""
        found = self.groups.listable(self.now.channel_authors).filter(pl.col("w") > 0)
        found = found.sort(-pl.col("w"), -pl.col("m"), "slack_cid")
        return found.select("slack_uid", "rank", channel="slack_cid", messages="m", words="w")

    def _groups(self) -> pl.DataFrame:
        """How each people group changed of everybody with an entry; who had none before is
        compared with nothing done.
        """
        sizes = {f"{name}_{size}": Formula(f"{name}_{size}") for name in GROUPS for size in SIZES}
        found = beside(self.now.with_people, self.before.with_people, "slack_uid")
        found = found.fill_null(0).with_columns(was=pl.lit(value=True))
        return found.select("slack_uid", **self.changes(sizes))

    @property
    def not_compared(self) -> str:
        """Why the period is not compared with the one before; "" where it is."""
        if self.data.whole.is_meaningful:
            return ""
        history = self.data.inputs.history
        known = f"since {history.first}"
        if history.last is not None and history.last < self.period.last:
            known = f"up to {history.last}"
        return f"Messages are known {known}: nothing is compared with the period before."

    def compared(self, figure: Figure) -> Change:
        """A figure of everything against the one before, where the two can be compared."""
        now, before = (figure.measure(measures) for measures in (self.now, self.before))
        return self.data.whole.change(now or 0, before)


def emoji_rates(found: pl.DataFrame) -> pl.DataFrame:
    """How often each emoji was used, of `n` times and among `w` words."""
    rate = EMOJI_RATE.column().shown()
    return found.select(
        pl.exclude("n", "w", "emoji"), times="n", emoji="emoji", per_thousand_words=rate
    )


async def load_report_data(
    tables: Tables,
    period: Period,
    options: Options,
    *,
    now: int,
    counted: Iterable[str] = (),
    smallest_group: int = 1,
    refresh: bool = False,
    progress: Progress | None = None,
) -> ReportData:
    """Read what the reports of a period are built from. ``now`` is in seconds since the epoch;
    ``counted`` are the channels whose members are looked up, by ID. For ``refresh`` see
    `load_inputs`; ``progress`` is told of dates read, and of all.
    """
    # What is to be done is found in as many days as in the dashboard.
    inputs = await load_inputs(
        tables, period, options, progress, reach=reach_of(period), refresh=refresh
    )
    created = await tables.users_created.all()
    members = {}
    for cid in counted:
        samples = await tables.members_log.samples(cid)
        ends = members_at_ends(samples, period)
        if ends is not None:
            members[cid] = ends
    data = DashboardData(inputs, period, options, period.start.weekday())
    newest = max(await tables.messages.days(), default=None)
    day = None if newest is None else date.fromisoformat(newest)
    marks = await tables.marks.all()
    return ReportData(data, now, smallest_group, created, members, day, marks)
