"""Rows of messages as columns.

Rule: the columns are what statistics are made of, and only that; a page of items becomes columns
before the next page is read, so no more than a page of Python objects exists at a time.

`ts` and `thread_ts` are whole microseconds, which keeps them exact. Both spellings of a row are
understood, see `channelstats.tables.message_row`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from keytables import Item

_TEXTS: Final = {
    "ts": ("ts",),
    "slack_cid": ("slack_cid",),
    "slack_uid": ("slack_uid", "user_id"),
    "mentions": ("mentions",),
    "reactions": ("reactions",),
    "thread_ts": ("thread_ts",),
    "parent_user_id": ("parent_user_id",),
    "replies": ("replies",),
    "bot_replies": ("bot_replies",),
    "subtype": ("subtype",),
    "room": ("room",),
}
_NUMBERS: Final = ("word_count", "reaction_count", "reply_count", "fetched_at")

MESSAGES: Final = pl.Schema(
    {
        **dict.fromkeys(_TEXTS, pl.String()),
        "ts": pl.Int64(),
        "thread_ts": pl.Int64(),
        **dict.fromkeys(_NUMBERS, pl.Int64()),
        "deleted": pl.Boolean(),
    }
)
"""Columns of messages. Absent text is null, absent numbers are 0."""

IS_REPLY: Final = pl.col("thread_ts").is_not_null() & (pl.col("thread_ts") != pl.col("ts"))
IS_HEAD: Final = (pl.col("thread_ts") == pl.col("ts")).fill_null(value=False)
"""Whether a message has a thread."""


def frame_of(items: Sequence[Item]) -> pl.DataFrame:
    """The columns of a page of items."""
    columns: dict[str, pl.Series] = {}
    for column, names in _TEXTS.items():
        values = [item.get(names[0]) for item in items]
        for older in names[1:]:
            values = [
                item.get(older) if value is None else value
                for value, item in zip(values, items, strict=True)
            ]
        columns[column] = pl.Series(column, values, pl.String, strict=False)
    for column in _NUMBERS:
        numbers = [item.get(column) for item in items]
        columns[column] = pl.Series(column, numbers, pl.Float64, strict=False)
    deleted = [item.get("deleted") is True for item in items]
    frame = pl.DataFrame([*columns.values(), pl.Series("deleted", deleted, pl.Boolean)])
    return (
        frame.with_columns(
            micros("ts"),
            micros("thread_ts"),
            pl.col(_NUMBERS).fill_null(0).cast(pl.Int64),
        )
        .filter(pl.col("ts").is_not_null())
        .select(MESSAGES.names())
    )


def micros(column: str) -> pl.Expr:
    """Microseconds since the epoch of a column of timestamps; null where it is none."""
    parts = pl.col(column).str.extract_groups(r"^([0-9]{10})\.([0-9]{6})$")
    whole, part = (parts.struct.field(number).cast(pl.Int64) for number in ("1", "2"))
    return (whole * 1_000_000 + part).alias(column)


def joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One frame of many, without a row of a key that came before."""
    every = pl.concat([MESSAGES.to_frame(), *frames])
    same_time = every["ts"].is_duplicated()  # few are, and only they can be of one key
    some = every.select("slack_cid", "ts").with_row_index("row").filter(same_time)
    again = some.filter(~pl.struct("slack_cid", "ts").is_first_distinct())["row"]
    if again.is_empty():
        return every
    return every.with_row_index("row").filter(~pl.col("row").is_in(again.implode())).drop("row")
