"""The report of a week against reading messages once. One rule: the floor reads the same columns of
the same messages and groups them once; it is taken in the same rounds as the report.

The work is from the files of days to the bytes of the document with every user and channel. The aim
is about Parquet of all messages; beside it there are floors of only the columns that are grouped,
and of only the messages in the files that the report reads.
"""

import asyncio
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl

from bench.channelstats import made_up
from bench.channelstats.cost import Row, Work, alone, median, say
from channelstats.demo.workspace import Size
from channelstats.facts import Inputs, Options, Period
from channelstats.facts.reading import REPLIES, dates_of
from channelstats.pages.document import report
from channelstats.tables.columns import MESSAGES, DayFiles, joined
from channelstats.tables.configuration import Counts
from channelstats.tables.first_posts import earliest, posts_of

LAST_DAY = date(2024, 3, 9)
WEEK = Period(LAST_DAY - timedelta(6), 7, ZoneInfo("UTC"))
AIM = 20
_DAYS, _VERSION = "days", "b"
_GROUPS = "slack_uid", "slack_cid"
_SIZES = pl.len().alias("m"), pl.col("word_count").sum().alias("w")


def measure(size: Size, folder: Path, rounds: int) -> list[Row]:
    say(f"report: {size.messages:,} messages over {size.days} days")
    read = alone(_written, size, folder).size
    floors, lean_floors, floors_of_read, reports = [], [], [], []
    for number in range(rounds):
        say(f"report: round {number + 1} of {rounds}")
        floors.append(alone(_grouped, folder / "all.parquet"))
        lean_floors.append(alone(_scanned, folder / "all.parquet"))
        floors_of_read.append(alone(_grouped, folder / "read.parquet"))
        reports.append(alone(_reported, size, folder))
    floor, lean_floor = median(floors), median(lean_floors)
    floor_of_read, cost = median(floors_of_read), median(reports)
    days = f"{size.days} days"
    return [
        Row(f"{days}: read all {size.messages:,} messages, group once", floor),
        Row(f"{days}: the same of no more columns than are grouped", lean_floor),
        Row(f"{days}: the same of the {read:,} in files of the report", floor_of_read),
        Row(f"{days}: report of a week, to all", cost, floor, AIM),
        Row(f"{days}: report of a week, to all of those columns", cost, lean_floor),
        Row(f"{days}: report of a week, to those in its files", cost, floor_of_read),
    ]


def _written(size: Size, folder: Path) -> Work:
    """Write what is measured; of the size of the messages that the report reads."""

    def write() -> int:
        messages = made_up.messages(size, LAST_DAY)
        messages.write_parquet(folder / "all.parquet")
        first, last = dates_of(WEEK)
        day = pl.from_epoch("ts", "us").dt.date()
        read = messages.filter(day.is_between(first, last))
        read.write_parquet(folder / "read.parquet")
        files = DayFiles(folder / _DAYS)
        for (date_of,), rows in read.group_by(day.alias("day"), maintain_order=True):
            asyncio.run(files.put({str(date_of): rows}, {str(date_of): _VERSION}))
        counting = Options().counting
        users, _ = made_up.directory(size, LAST_DAY)
        bots = frozenset(uid for uid, user in users.items() if user.is_bot)
        earliest(messages.filter(counting.counted(bots))).write_parquet(folder / "first.parquet")
        return read.height

    return write


def _grouped(parquet: Path) -> Work:
    """The floor; of the size of the groups."""
    return lambda: pl.read_parquet(parquet).group_by(_GROUPS).agg(*_SIZES).height


def _scanned(parquet: Path) -> Work:
    """A floor below what a report can reach: what is not grouped is not read."""
    return lambda: pl.scan_parquet(parquet).group_by(_GROUPS).agg(*_SIZES).collect().height


def _reported(size: Size, folder: Path) -> Work:
    """The report; of the size of its document in bytes."""
    users, channels = made_up.directory(size, LAST_DAY)
    counts = {LAST_DAY: Counts(size.people, size.people, size.people)}
    first_posts = posts_of(pl.read_parquet(folder / "first.parquet"))
    files, (first, last) = DayFiles(folder / _DAYS), dates_of(WEEK)
    days = [str(first + timedelta(number)) for number in range((last - first).days + 1)]

    async def messages_read() -> pl.DataFrame:
        found = await files.find(dict.fromkeys(days, _VERSION))
        return (await files.read(dict(sorted(found.items())), MESSAGES.names()))[1]

    def work() -> int:
        messages = joined([asyncio.run(messages_read())]).drop(REPLIES)
        inputs = Inputs(messages, users, channels, counts, first_posts)
        return len(report(inputs, WEEK, Options(), generated_at=0))

    return work
