"""What views of long periods cost in a very large workspace:
`python -m bench.channelstats.long_cost [--messages N]`. One rule: the workspace is made as columns
of days, and every view is measured in a new process: from nothing read to the view, and of days
that were read before.

The floor is one pass over the same messages: read four columns of each day, group them once. Beside
Overview stands a plain script that makes its tables from the same files, without a choice, first
posts, local times, what became of questions, or exact ranks.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from bench import machine
from bench.channelstats.cost import Row, Work, alone, median, print_report, say
from channelstats.counting import Counting
from channelstats.facts import Options
from channelstats.pages.loading import DashboardData, load
from channelstats.pages.model import VIEWS, Choice
from channelstats.pages.views import view_of
from channelstats.tables import Tables
from channelstats.tables.columns import MESSAGES, DayFiles
from channelstats.tables.directory import Channel, FirstPost, User
from keytables.sqlite import SqliteEngine

LAST_DAY: Final = date(2026, 11, 21)
DAYS: Final = 365
ZONES: Final = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo", "")
_PERIODS: Final = (28, 84, 365)
_STEPS: Final = 1 << 20
_CHANNELS: Final = 500


def uniform(number: int, seed: int) -> pl.Series:
    """Numbers from 0 up to 1."""
    steps = pl.Series(range(1024)).sample(number, with_replacement=True, shuffle=True, seed=seed)
    fine = pl.Series(range(1024)).sample(number, with_replacement=True, shuffle=True, seed=seed + 1)
    return (steps * 1024 + fine) / _STEPS


def messages_of(day: date, number: int, people: int) -> pl.DataFrame:
    """Messages of a date by time: more of some people and in some channels, half of them replies,
    of which some come on the next day; every fifth has reactions, every seventh mentions somebody.
    """
    seed = day.toordinal() * 100
    midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
    chance = {name: uniform(number, seed + 2 * at) for at, name in enumerate(_CHANCES)}
    of = pl.DataFrame(chance).select(
        ts=(midnight + pl.col("at") * 86_399e6).cast(pl.Int64) // 10 * 10,
        slack_cid=_named("C", pl.col("channel") ** 3 * _CHANNELS),
        slack_uid=_named("U", _person(pl.col("person"), pl.col("channel"), people)),
        word_count=(1 - pl.col("words").log() * 12).clip(1, 300).cast(pl.Int64),
        kind=pl.col("kind"),
        parent=pl.col("parent"),
        noticed=pl.col("noticed"),
        reactor=pl.col("reactor"),
        mentioned=pl.col("mentioned"),
    )
    of = of.unique("ts").sort("ts").with_row_index("row")
    heads = of.filter(pl.col("kind") < 0.12).select(
        head="row", thread_ts="ts", parent_user_id="slack_uid", in_channel="slack_cid"
    )
    place = (pl.col("parent") * pl.lit(max(heads.height, 1))).cast(pl.UInt32)
    replies = (
        of.filter(pl.col("kind") > 0.55)
        .with_columns(place=place)
        .join(heads.with_row_index("place"), on="place")
        .filter(pl.col("thread_ts") < pl.col("ts"))
        .select("row", "head", "thread_ts", "parent_user_id", "in_channel")
    )
    answered = (
        replies.join(of.select("row", "slack_uid", "ts"), on="row")
        .select("head", reply=pl.struct(replier="slack_uid", replied_at="ts"))
        .group_by("head", maintain_order=True)
        .agg(replies="reply", reply_count=pl.len().cast(pl.Int64))
        .rename({"head": "row"})
    )
    emoji = pl.lit("emoji_") + (pl.col("reactor") * 1e4 % 40).cast(pl.Int64).cast(pl.String)
    one, other = (_named("U", pl.col(name) ** 2 * people) for name in ("reactor", "mentioned"))
    several, noticed = pl.col("noticed") < 0.06, pl.col("noticed") < 0.2
    made = (
        of.join(replies.drop("head"), on="row", how="left")
        .join(answered, on="row", how="left")
        .with_columns(
            slack_cid=pl.coalesce("in_channel", "slack_cid"),
            thread_ts=pl.when(pl.col("reply_count") > 0).then("ts").otherwise("thread_ts"),
            reply_count=pl.col("reply_count").fill_null(0),
            reactions=pl.when(several)
            .then(pl.concat_list(*(pl.struct(emoji=emoji, reactor=of) for of in (one, other))))
            .when(noticed)
            .then(pl.concat_list(pl.struct(emoji=emoji, reactor=one))),
            reaction_count=pl.when(several).then(2).when(noticed).then(1).otherwise(0),
            mentions=pl.when(pl.col("mentioned") < 0.15).then(pl.concat_list(one)),
            question=pl.col("parent") < 0.1,
            signs=(pl.col("parent") * 1e4 % 128).cast(pl.Int64),
            fetched_at=pl.lit(midnight // 1_000_000 + 90_000),
            file_count=pl.when(pl.col("kind") < 0.03).then(1).otherwise(0),
            deleted=pl.lit(value=False),
            **{name: pl.lit(None, pl.String) for name in ("subtype", "room")},
        )
    )
    return made.select(*MESSAGES.names()).cast(MESSAGES)


_CHANCES: Final = (
    *("at", "channel", "person", "words", "kind"),
    *("parent", "noticed", "reactor", "mentioned"),
)


def _person(person: pl.Expr, channel: pl.Expr, people: int) -> pl.Expr:
    """Some write much more than others, and in a channel mostly the same few hundred."""
    own = (channel**3 * _CHANNELS).floor() * 37
    return (own + person**2 * people / 4) % people


def _named(letter: str, number: pl.Expr) -> pl.Expr:
    digits = number.floor().cast(pl.Int64).cast(pl.String).str.zfill(8)
    return pl.concat_str(pl.lit(letter), digits)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Tables]:
    engine = await SqliteEngine.open(folder / "channelstats.sqlite")
    try:
        yield await Tables.open(engine, "channelstats", ZoneInfo("UTC"), folder / "days")
    finally:
        await engine.close()


async def make(folder: Path, messages: int, number: int) -> None:
    """The workspace in a folder."""
    dates = [LAST_DAY - timedelta(back) for back in range(DAYS)]
    working = [7 if day.weekday() < 5 else 1 for day in dates]
    async with opened(folder) as tables:
        begin = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp())
        people = [f"U{number:08}" for number in range(number)]
        channels = [f"C{number:08}" for number in range(_CHANNELS)]
        await tables.put_users(
            (
                User(uid, f"name{at}", tz=ZONES[at % len(ZONES)], tz_offset=0)
                for at, uid in enumerate(people)
            ),
            begin,
        )
        rows = (Channel(cid, f"channel-{cid}", 40, begin, is_channel=True) for cid in channels)
        await tables.channels.put(rows)
        posts = (
            (uid, FirstPost(f"{begin + at}.000000", "C00000000")) for at, uid in enumerate(people)
        )
        await tables.first_posts.put(posts)
        await tables.configuration.put_first_posts_counting(Counting().name)
        versions, files = tables.messages.versions, DayFiles(folder / "days")
        days = [day.isoformat() for day in dates]
        await versions.add_zones(frozenset(("UTC",)))
        await versions.open("bench", days)
        await versions.close(dict.fromkeys(days, frozenset(("bench",))))
        known = await versions.all()
        for day, share in zip(dates, working, strict=True):
            made = messages_of(day, messages * share // sum(working), number)
            await files.put({day.isoformat(): made}, known)
        end = datetime(LAST_DAY.year, LAST_DAY.month, LAST_DAY.day, tzinfo=UTC) + timedelta(1)
        await tables.configuration.raise_last_run(int(end.timestamp()))


def _viewed(folder: Path, name: str, days: int) -> Work:
    """A view of the last days, from nothing read; of the size of what was read."""
    choice = Choice(LAST_DAY - timedelta(days - 1), LAST_DAY)

    async def work() -> int:
        async with opened(folder) as tables:
            data = await load(tables, choice, Options())
            view_of(name, data, choice)
            return data.inputs.messages.height

    return lambda: asyncio.run(work())


def _viewed_of_read(folder: Path, name: str, days: int) -> Work:
    """The same view when its days are in memory; of the size of its tables."""
    choice = Choice(LAST_DAY - timedelta(days - 1), LAST_DAY)

    async def read() -> DashboardData:
        async with opened(folder) as tables:
            return await load(tables, choice, Options())

    data = asyncio.run(read())
    return lambda: sum(table.rows.height for table in view_of(name, data, choice).tables)


def _passed(folder: Path, days: int) -> Work:
    """The floor: four columns of the same days, grouped once."""
    first = (LAST_DAY - timedelta(days - 1)).isoformat()
    files = [path for path in sorted((folder / "days").iterdir()) if path.name >= first]
    sums = pl.len().alias("m"), pl.col("word_count").sum()
    return lambda: pl.scan_parquet(files).group_by("slack_uid").agg(*sums).collect().height


def _scripted(folder: Path, days: int) -> Work:
    """The tables of Overview, now and before, as one writes them in a script."""
    paths = sorted((folder / "days").glob("*.parquet"))
    last = int(datetime(LAST_DAY.year, LAST_DAY.month, LAST_DAY.day, tzinfo=UTC).timestamp())
    end = (last + 86_400) * 1_000_000
    sums = {"messages": pl.len(), "words": pl.sum("word_count")}

    def tables(begin: int, end: int) -> list[pl.LazyFrame]:
        messages = pl.scan_parquet(paths).filter(pl.col("ts").is_between(begin, end, closed="left"))
        time = pl.from_epoch("ts", "us")
        replies = messages.filter(pl.col("thread_ts") != pl.col("ts")).select(
            "slack_cid", "thread_ts", replier="slack_uid", at="ts"
        )
        answered = (
            messages.select("slack_cid", "slack_uid", thread_ts="ts")
            .join(replies, on=["slack_cid", "thread_ts"])
            .filter(pl.col("replier") != pl.col("slack_uid"))
        )
        waits = answered.group_by("slack_cid", "thread_ts").agg(pl.min("at"))
        return [
            messages.group_by("slack_uid").agg(**sums, reactions=pl.sum("reaction_count")),
            messages.group_by("slack_cid").agg(**sums, posters=pl.n_unique("slack_uid")),
            messages.group_by(time.dt.date().alias("day")).agg(**sums),
            messages.group_by(time.dt.weekday().alias("day"), time.dt.hour().alias("hour")).agg(
                **sums
            ),
            waits.select((pl.col("at") - pl.col("thread_ts")).median()),
        ]

    def work() -> int:
        length = days * 86_400 * 1_000_000
        both = (*tables(end - length, end), *tables(end - 2 * length, end - length))
        return sum(table.height for table in pl.collect_all(both))

    return work


def measure(folder: Path, periods: Sequence[int], views: Sequence[str], rounds: int) -> list[Row]:
    rows = []
    for days in periods:
        say(f"views of {days} days")
        floor = median([alone(_passed, folder, days) for _ in range(rounds)])
        rows.append(Row(f"{days} days: read four columns, group once", floor))
        for name in views:
            cost = median([alone(_viewed, folder, name, days) for _ in range(rounds)])
            rows.append(Row(f"{days} days: {name}, with {cost.size:,} messages read", cost, floor))
            cost = median([alone(_viewed_of_read, folder, name, days) for _ in range(rounds)])
            rows.append(Row(f"{days} days: {name}, of what was read", cost, floor))
            if name == "overview":
                scripted = median([alone(_scripted, folder, days) for _ in range(rounds)])
                rows.append(Row(f"{days} days: its tables by a plain script", scripted, floor))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.channelstats.long_cost",
        description="What the first view of a period costs, as ratios to one pass over it.",
    )
    parser.add_argument(
        "--messages", type=int, default=2_000_000, metavar="N", help="of a year (%(default)s)"
    )
    parser.add_argument(
        "--days",
        type=int,
        action="append",
        metavar="N",
        help="of a period; once for each (28, 84, 365)",
    )
    parser.add_argument("--view", action="append", choices=VIEWS, help="once for each (all)")
    parser.add_argument("--people", type=int, default=20_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--data-root", type=Path, default=Path("/var/tmp"), metavar="DIR", help="(%(default)s)"
    )
    options = parser.parse_args(arguments)
    surroundings = machine.Surroundings()
    with tempfile.TemporaryDirectory(dir=options.data_root) as folder:
        say(f"{options.messages:,} messages of {DAYS} days")
        asyncio.run(make(Path(folder), options.messages, options.people))
        periods, views = options.days or _PERIODS, options.view or list(VIEWS)
        rows = measure(Path(folder), periods, views, options.rounds)
    print_report(rows, options.rounds, surroundings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
