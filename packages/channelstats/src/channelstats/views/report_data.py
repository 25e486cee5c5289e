"""What the reports of a period are built from: its frames, and what is known beside them.

Rule: read once for all reports of a period. A frame is divided once by the channel or the person
that its rows are about, so that hundreds of reports do not look through all of it each.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from channelstats.identifiers import timestamp
from channelstats.privacy.inputs import HiddenInputs, hidden_inputs
from channelstats.privacy.pseudonyms import Pseudonyms
from channelstats.stats.inputs import Options, load_inputs
from channelstats.stats.interactions import GROUPS
from channelstats.stats.measures import Measures, SmallGroups
from channelstats.stats.messages import REACTED, REPLIED, top_messages
from channelstats.stats.period import Period
from channelstats.stats.quantities import Change, Quantity, counts, shown
from channelstats.stats.rankings import Author, ChannelVolume, members_at_ends
from channelstats.tables import Tables
from channelstats.tables.messages import Progress
from channelstats.views.loading import DashboardData


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


class PeriodTables:
    """The frames of one period by what a report is about, each when it is first asked for."""

    def __init__(self, measures: Measures, groups: SmallGroups) -> None:
        self.measures = measures
        self._groups = groups
        self._partitions: dict[tuple[str, str], Partition] = {}

    @cached_property
    def channels(self) -> dict[str, ChannelVolume]:
        """Those that may be listed, the most words first."""
        found = self.measures.channels
        return {of.slack_cid: of for of in found if self._groups.shows(of.slack_cid)}

    @cached_property
    def authors(self) -> dict[str, Author]:
        return {of.slack_uid: of for of in self.measures.authors}

    def of_channel(self, table: str, cid: str) -> pl.DataFrame:
        """What a channel's report is made of: `people`, `emoji`, `days`, `hours` or a count of
        messages, in the order that it is shown in.
        """
        return self._divided(table, "slack_cid").of(cid)

    def of_person(self, table: str, uid: str) -> pl.DataFrame:
        """The same of a person: `channels`, `emoji` received, `days`, `hours`, a count of messages
        or a people group.
        """
        return self._divided(table, "uid" if table in GROUPS else "slack_uid").of(uid)

    def _divided(self, table: str, key: str) -> Partition:
        if (table, key) not in self._partitions:
            self._partitions[table, key] = Partition(self._frame(table, key), key)
        return self._partitions[table, key]

    def _frame(self, table: str, key: str) -> pl.DataFrame:
        measures, activity = self.measures, self.measures.activity
        if table in GROUPS:
            return measures.interactions.group(table)
        if table in (REACTED, REPLIED):
            return self.top(table)
        if table == "emoji":
            return counts(measures.period_messages.reactions, key, "emoji")
        if table == "people":
            return measures.channel_authors
        if table == "channels":
            found = self._groups.listable(measures.channel_authors).filter(pl.col("w") > 0)
            return found.sort(-pl.col("w"), -pl.col("m"), "slack_cid")
        times = {
            ("days", "slack_cid"): lambda: activity.channel_days,
            ("hours", "slack_cid"): lambda: activity.channel_hours,
            ("days", "slack_uid"): lambda: activity.author_days,
            ("hours", "slack_uid"): lambda: activity.author_hours,
        }
        return times[table, key]()

    def top(self, count: str) -> pl.DataFrame:
        """The messages with the most of something that may be listed."""
        return self._groups.listable(top_messages(self.measures.period_messages, count))


@dataclass(frozen=True)
class ReportData:
    """``made_at`` is in seconds since the epoch; ``created`` is when accounts were made, in
    seconds; ``members`` those of a channel at both ends of the period. ``hidden`` are the names of
    pseudonymous IDs, None where IDs are real.
    """

    data: DashboardData
    made_at: int
    smallest_group: int = 1
    created: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    hidden: HiddenInputs | None = None

    @property
    def period(self) -> Period:
        return self.data.period

    @cached_property
    def groups(self) -> SmallGroups:
        return SmallGroups(self.data.whole.now.chosen, self.smallest_group)

    @cached_property
    def now(self) -> PeriodTables:
        return PeriodTables(self.data.whole.now.chosen, self.groups)

    @cached_property
    def before(self) -> PeriodTables:
        """Of the period before, all groups: what is listed is decided by this period."""
        measures = self.data.whole.before.chosen
        return PeriodTables(measures, SmallGroups(measures))

    @cached_property
    def _first_posts(self) -> dict[str, tuple[int, str]]:
        """Everybody's first message: microseconds since the epoch, channel."""
        frame = self.data.measured.first_posts.select("slack_uid", "ts", "slack_cid")
        return {uid: (ts, cid) for uid, ts, cid in frame.iter_rows()}

    def first_message(self, uid: str) -> tuple[str, str, int] | None:
        """Somebody's first message: channel, `CID/ts/`, seconds since the epoch; the message is ""
        where times are hidden.
        """
        if uid not in self._first_posts:
            return None
        ts, cid = self._first_posts[uid]
        message = "" if self.data.inputs.hides_times else f"{cid}/{timestamp(ts)}/"
        return cid, message, ts // 1_000_000

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

    def change(self, now: Quantity, before: Quantity | None) -> Change:
        """A number against the one before, where the two can be compared."""
        return self.data.whole.change(now, before)


def plain(number: Quantity) -> Change:
    """A number that is compared with nothing."""
    return unchanged(shown(number))


def unchanged(number: float) -> Change:
    """The same of a number as it is shown."""
    return {"cur": number, "prev": number, "diff_pct": None, "state": "same"}


async def load_report_data(
    tables: Tables,
    period: Period,
    options: Options,
    *,
    now: int,
    counted: Iterable[str] = (),
    smallest_group: int = 1,
    names: Pseudonyms | None = None,
    refresh: bool = False,
    progress: Progress | None = None,
) -> ReportData:
    """Read what the reports of a period are built from. ``now`` is in seconds since the epoch;
    ``counted`` are the channels whose members are looked up, by the IDs that are shown; with
    ``names`` all is under pseudonyms. For ``refresh`` see `load_inputs`; ``progress`` is told of
    dates read, and of all.
    """
    inputs = await load_inputs(tables, period, options, progress, refresh=refresh)
    created = await tables.users_created.all()
    hidden, real = None, {cid: cid for cid in inputs.channels}
    if names is not None:
        real = {names.identifier(cid): cid for cid in inputs.channels}
        created = {names.identifier(uid): at for uid, at in created.items()}
        hidden = await asyncio.to_thread(hidden_inputs, inputs, names)
        inputs = hidden.inputs
    members = {}
    for cid in counted:
        found = members_at_ends(await tables.members_log.samples(real.get(cid, cid)), period)
        if found is not None:
            members[cid] = found
    data = DashboardData(inputs, period, options)
    return ReportData(data, now, smallest_group, created, members, hidden)
