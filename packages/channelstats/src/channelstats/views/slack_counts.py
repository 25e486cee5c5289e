"""What Slack's own analytics say of a period and of the one before.

Rule: a period has counts only where the spans that are stored make up all of its days: a number of
some of them would be compared with one of all. They are of the whole workspace: with a channel or a
person chosen there are none.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import polars as pl

from channelstats.days import DAY
from channelstats.privacy import Pseudonyms
from channelstats.stats import Options, Period
from channelstats.tables import Tables
from channelstats.tables.columns import ID
from channelstats.tables.exclusion import resolve_people
from channelstats.tables.slack_analytics import DateSpan, Subject, tiling

IN_UTC: Final = "Slack's own analytics count days in UTC"


class MemberCounts(msgspec.Struct, frozen=True):
    """Members who were active, which reading is too, and who posted anywhere; messages anywhere and
    in channels. None for what the files did not say.
    """

    active: int
    posters: int | None
    messages: int | None
    channel_messages: int | None


@dataclass(frozen=True)
class SlackCounts:
    """``members`` and ``before`` of the period and the one before; ``channels`` has the columns
    `slack_cid`, `viewers` and `slack_messages`; None where there are no counts. ``is_least``: the
    viewers are the most of several spans. ``near`` is the newest days in a row that are stored,
    where the period is not covered whole.
    """

    members: MemberCounts | None = None
    before: MemberCounts | None = None
    channels: pl.DataFrame | None = None
    is_least: bool = False
    near: Mapping[Subject, DateSpan] = field(default_factory=dict)

    def nearest(self, subject: Subject) -> tuple[str, ...]:
        """Says which days to choose where not all of the period have counts."""
        if subject not in self.near:
            return ()
        span = self.near[subject]
        stored = f"are stored from {span.first} to {span.last}: choose these days to see them."
        return (f"Slack's own analytics of {subject} {stored}",)


async def load_slack_counts(
    tables: Tables, period: Period, options: Options, names: Pseudonyms | None = None
) -> SlackCounts:
    """Read what is stored of a period; with ``names`` channels are under pseudonyms."""
    now, before = _span(period), _span(period.previous)
    stored = {subject: await tables.slack_analytics.spans(subject) for subject in Subject}
    if not any(stored.values()):
        return SlackCounts()
    users = await tables.users.all() if options.excluded_users else {}
    out = resolve_people(options.excluded_users, users)
    near: dict[Subject, DateSpan] = {}
    read: dict[tuple[Subject, DateSpan], list[pl.DataFrame]] = {}
    for subject, whole in (
        (Subject.MEMBERS, now),
        (Subject.MEMBERS, before),
        (Subject.CHANNELS, now),
    ):
        spans = tiling(stored[subject], whole)
        read[subject, whole] = await tables.slack_analytics.read(subject, spans)
        if whole is now and not spans and (found := _near(stored[subject], now)):
            near[subject] = found

    def counted() -> SlackCounts:
        channels = read[Subject.CHANNELS, now]
        return SlackCounts(
            _members(read[Subject.MEMBERS, now], out),
            _members(read[Subject.MEMBERS, before], out),
            _channels(channels, names) if channels else None,
            is_least=len(channels) > 1,
            near=near,
        )

    return await asyncio.to_thread(counted)


def _span(period: Period) -> DateSpan:
    return DateSpan(period.start, period.last)


def _near(stored: Sequence[DateSpan], whole: DateSpan) -> DateSpan | None:
    """The newest days in a row that are stored, by spans that have days of ``whole``."""
    found: DateSpan | None = None
    for span in stored:
        if span.first > whole.last or span.last < whole.first:
            continue
        follows = found is not None and span.first == found.last + DAY
        if found is None or span.last > found.last:
            found = DateSpan(found.first, span.last) if found and follows else span
    return found


def _members(frames: Sequence[pl.DataFrame], out: frozenset[str]) -> MemberCounts | None:
    if not frames:
        return None
    found = pl.concat(frames).filter(~pl.col("id").is_in(sorted(out)))
    messages = _sum(found["messages"])
    posters = found.filter(pl.col("messages") > 0)["id"].n_unique()
    return MemberCounts(
        active=found.filter(pl.col("days_active") > 0)["id"].n_unique(),
        posters=None if messages is None else posters,
        messages=messages,
        channel_messages=_sum(found["channel_messages"]),
    )


def _channels(frames: Sequence[pl.DataFrame], names: Pseudonyms | None) -> pl.DataFrame:
    messages = pl.when(pl.col("messages").count() > 0).then(pl.col("messages").sum())
    found = (
        pl.concat(frames)
        .group_by(slack_cid=pl.col("id").cast(ID))
        .agg(pl.col("viewers").max(), slack_messages=messages)
    )
    if names is None:
        return found
    shown = [names.identifier(cid) for cid in found["slack_cid"]]
    return found.with_columns(slack_cid=pl.Series(shown, dtype=ID))


def _sum(column: pl.Series) -> int | None:
    """The sum; None where nothing is known, though there is somebody."""
    if column.len() and column.null_count() == column.len():
        return None
    return int(column.sum())
