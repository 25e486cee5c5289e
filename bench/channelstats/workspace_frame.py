"""A workspace as the columns of its messages, made in seconds. One rule: the same size and seed
make the same rows, with the long tails, threads, reactions and mentions that a workspace has.

Every random number is a hash of a row's number, so nothing is drawn one at a time.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from channelstats.tables.columns import MESSAGES
from channelstats.tables.directory import Channel, User

EMOJI = (
    *("+1", "heart", "tada", "joy", "eyes", "rocket", "pray", "white_check_mark", "fire", "100"),
    *("wave", "clap", "raised_hands", "thinking_face", "+1::skin-tone-2", "sob", "sparkles"),
    *("bulb", "coffee", "wave::skin-tone-4", "ok_hand", "muscle", "snake", "whale", "party_parrot"),
)
ZONES = (
    ("America/Los_Angeles", -28800),
    ("America/New_York", -18000),
    ("America/Sao_Paulo", -10800),
    ("Europe/London", 0),
    ("Europe/Berlin", 3600),
    ("Europe/Kyiv", 7200),
    ("Asia/Kolkata", 19800),
    ("Asia/Tokyo", 32400),
    ("Australia/Sydney", 39600),
)
_REPLIES = 0.35
_REACTED = 0.22
_MENTIONING = 0.12
_JOINS = 0.02
_BOTS = 0.03
_HOMES = 10
_DAY = 86_400
_ROWS = pl.col("row")


@dataclass(frozen=True)
class Size:
    people: int = 20_000
    channels: int = 500
    messages: int = 2_000_000
    days: int = 365


def users(size: Size) -> dict[str, User]:
    """Everybody. Few are bots, every twentieth has no zone."""
    found = {}
    for number in range(size.people):
        tz, offset = ZONES[number % 7 * 5 % len(ZONES)] if number % 20 else ("", None)
        name = f"person{number}"
        uid = f"U{number:09d}"
        found[uid] = User(uid, name, tz=tz, tz_offset=offset, is_bot=number % 900 == 899)
    return found


def channels(size: Size) -> dict[str, Channel]:
    ids = [f"C{number:09d}" for number in range(size.channels)]
    return {cid: Channel(cid, f"channel-{cid[1:]}", size.people, is_channel=True) for cid in ids}


def messages(size: Size, last_day: date, *, seed: int = 1) -> pl.DataFrame:
    """The rows, with the columns of `channelstats.tables.columns`."""
    chance = _Chance(seed)
    said = _said(size, last_day, chance).with_columns(chance.of("replies") < _REPLIES)
    placed = said.sort("slack_cid", "ts").with_columns(
        place=pl.int_range(pl.len()).over("slack_cid")
    )
    threaded = _threaded(placed, chance)
    return (
        threaded.join(_reactions(placed, chance), on="row", how="left")
        .join(_mentions(placed, chance), on="row", how="left")
        .with_columns(
            pl.col("reaction_count", "reply_count").fill_null(0),
            bot_replies=pl.lit(None, pl.String),
            room=pl.lit(None, pl.String),
            fetched_at=pl.lit(_midnight(last_day) + 2 * _DAY, pl.Int64),
            deleted=pl.lit(value=False),
        )
        .sort("ts")
        .select(MESSAGES.names())
        .cast(MESSAGES)
    )


class _Chance:
    """Columns of numbers from 0 up to 1, a different one for each name."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, name: str) -> pl.Expr:
        mixed = pl.struct(_ROWS, pl.lit(f"{self._seed} {name}")).hash(self._seed)
        return ((mixed // 2**11).cast(pl.Float64) / 2**53).alias(name)


def _id(number: pl.Expr, letter: str) -> pl.Expr:
    return letter + number.cast(pl.String).str.zfill(9)


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def _said(size: Size, last_day: date, chance: _Chance) -> pl.DataFrame:
    """Who says how much where and when: fewer on weekends, most in the afternoon of UTC."""
    first = _midnight(last_day - timedelta(size.days - 1))
    day = (size.days * chance.of("day")).cast(pl.Int64)
    weekend = ((first // _DAY + day + 3) % 7 >= 5) & (chance.of("weekend") < 0.6)
    hours = chance.of("hour") + chance.of("hour 2") + chance.of("hour 3")
    second = (hours * _DAY / 3 + 0.1 * _DAY).cast(pl.Int64) % _DAY
    kind = chance.of("subtype")
    home = pl.struct(pl.col("author"), (_HOMES * chance.of("home") ** 2).cast(pl.Int64)).hash(7)
    channel = size.channels * ((home % 2**40).cast(pl.Float64) / 2**40) ** 3
    author = (size.people * chance.of("author") ** 2.5).cast(pl.Int64)
    rows = pl.select(row=pl.int_range(size.messages, dtype=pl.Int64))
    return rows.with_columns(author=author).select(
        "row",
        # the row's number in the microseconds makes every time another
        ts=(first + pl.when(weekend).then((day + 2) % size.days).otherwise(day) * _DAY + second)
        * 1_000_000
        + _ROWS % 1_000_000,
        slack_cid=_id(channel.cast(pl.Int64), "C"),
        slack_uid=_id(pl.col("author"), "U"),
        word_count=(1 - 14 * (1 - chance.of("words")).log()).cast(pl.Int64),
        subtype=pl.when(kind < _JOINS)
        .then(pl.lit("channel_join"))
        .when(kind < _JOINS + _BOTS)
        .then(pl.lit("bot_message")),
    )


def _threaded(said: pl.DataFrame, chance: _Chance) -> pl.DataFrame:
    """Replies go to one of the last few heads of their channel."""
    back = (-6 * (1 - chance.of("back")).log()).cast(pl.Int64)
    numbered = said.with_columns(head=(~pl.col("replies")).cum_sum().over("slack_cid"))
    heads = numbered.filter(~pl.col("replies")).select(
        "slack_cid", "head", head_ts="ts", parent="slack_uid"
    )
    replies = (
        numbered.filter("replies")
        .with_columns(head=pl.max_horizontal(pl.col("head") - back, 1))
        .join(heads, on=("slack_cid", "head"))
        .select("row", "head_ts", "parent", "slack_cid", "slack_uid", "ts")
    )
    listed = replies.group_by("slack_cid", ts="head_ts").agg(
        reply_count=pl.len(),
        answers=pl.format("{}:{}", "slack_uid", _timestamp(pl.col("ts"))).sort().str.join(","),
    )
    return (
        said.drop("replies")
        .join(listed, on=("slack_cid", "ts"), how="left")
        .join(replies.select("row", "head_ts", parent_user_id="parent"), on="row", how="left")
        .with_columns(
            replies="answers",
            thread_ts=pl.coalesce("head_ts", pl.when(pl.col("reply_count") > 0).then(pl.col("ts"))),
        )
    )


def _timestamp(micros: pl.Expr) -> pl.Expr:
    whole, part = micros // 1_000_000, micros % 1_000_000
    return pl.format("{}.{}", whole, part.cast(pl.String).str.zfill(6))


def _reactions(placed: pl.DataFrame, chance: _Chance) -> pl.DataFrame:
    """`row`, `reactions`, `reaction_count` of those that have any: one or a few people each."""
    many = (1 - 1.6 * (1 - chance.of("many")).log()).cast(pl.Int64)
    each = (
        placed.filter(chance.of("reacted") < _REACTED)
        .with_columns(message="row", number=pl.int_ranges(0, many))
        .explode("number")
        .with_columns(row=_ROWS * 64 + pl.col("number"))
        .with_columns(emoji=(len(EMOJI) * chance.of("emoji") ** 3).cast(pl.Int64))
    )
    reacted = _somebody_near(each, placed, chance, "reactor").unique(
        ("message", "emoji", "reactor"), maintain_order=True
    )
    return (
        reacted.group_by("message", "emoji", maintain_order=True)
        .agg(pl.len().alias("count"), pl.col("reactor").str.join(":"))
        .with_columns(name=pl.col("emoji").replace_strict(dict(enumerate(EMOJI))))
        .group_by("message", maintain_order=True)
        .agg(
            reactions=pl.format("{}:{}", "name", "reactor").str.join(","),
            reaction_count=pl.col("count").sum().cast(pl.Int64),
        )
        .rename({"message": "row"})
    )


def _mentions(placed: pl.DataFrame, chance: _Chance) -> pl.DataFrame:
    some = placed.filter(chance.of("mentions") < _MENTIONING)
    return _somebody_near(some, placed, chance, "mentions").select("row", "mentions")


def _somebody_near(
    rows: pl.DataFrame, placed: pl.DataFrame, chance: _Chance, name: str
) -> pl.DataFrame:
    """The rows with the author of a message of the same channel that is not far, by that name."""
    back = (-40 * (1 - chance.of(f"near {name}")).log()).cast(pl.Int64)
    authors = placed.select("slack_cid", "place", pl.col("slack_uid").alias(name))
    near = rows.with_columns(place=pl.max_horizontal(pl.col("place") - back, 0))
    return near.join(authors, on=("slack_cid", "place"), maintain_order="left")
