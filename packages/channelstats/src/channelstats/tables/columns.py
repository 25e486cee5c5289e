"""Messages as columns: made of their rows, and those of a date kept in a file beside the store.

Rule: the columns are what statistics are made of, and only that: IDs, times and counts, never text.
`ts` and `thread_ts` are whole microseconds, which keeps them exact; several things are a list. Both
spellings of a row are understood, see `channelstats.tables.message_row`.

Rule: a file is used for the version that its rows were read under, and only whole; what else is in
the folder is as good as nothing. A file does not outlive its version: it is overwritten and removed
by the run that ended the version, and on another machine by the first reading of a process. Files
are kept for speed alone and may be deleted at any time.

    <yyyy-mm-dd>-<version>-<digest of its content, for this date and version>.parquet

Only their owner can read them. Where the folder cannot be written to nothing is kept, and messages
are read from rows.
"""

import asyncio
import hashlib
import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import polars as pl

from channelstats.files import PART, erase, write_file
from channelstats.tables.message_row import REACTION_USERS
from keytables import Item
from keytables.stores import SqliteUrl, parse_store

_IDS: Final = ("slack_cid", "slack_uid", "parent_user_id", "subtype")
_LISTS: Final = ("mentions", "reactions", "replies", "bot_replies")
_TEXTS: Final = ("ts", "thread_ts", *_IDS, *_LISTS, "room")
_FLAGS: Final = ("deleted", "question")
_NUMBERS: Final = ("word_count", "reaction_count", "reply_count", "signs", "fetched_at")

ID: Final[pl.DataType] = pl.Categorical()
"""IDs of people and channels, and names of emoji: each text is in memory once. Two such columns are
joined, compared and sorted as texts are, in less time.
"""

MESSAGES: Final = pl.Schema(
    {
        "ts": pl.Int64(),
        "thread_ts": pl.Int64(),
        **dict.fromkeys(_IDS, ID),
        "mentions": pl.List(ID),
        "reactions": pl.List(pl.Struct({"emoji": ID, "reactor": ID})),
        "replies": pl.List(pl.Struct({"replier": ID, "replied_at": pl.Int64()})),
        **dict.fromkeys(_NUMBERS, pl.Int64()),
        "file_count": pl.Int64(),
        **dict.fromkeys(_FLAGS, pl.Boolean()),
        "room": pl.String(),
    }
)
"""Columns of messages. What is absent, and a list of nothing, is null; absent numbers are 0. A
reaction is of an emoji and one person; of a reply by a bot without an account nobody is known.
"""

NOTHING: Final = MESSAGES.to_frame()
SMALL_COUNTS: Final = ("word_count", "reaction_count", "reply_count", "signs", "file_count")

_TIMESTAMP: Final = len("1709575500.000400")

IS_REPLY: Final = pl.col("thread_ts").is_not_null() & (pl.col("thread_ts") != pl.col("ts"))
IS_HEAD: Final = (pl.col("thread_ts") == pl.col("ts")).fill_null(value=False)
"""Whether a message has a thread."""


def frame_of(items: Sequence[Item], *more: str) -> pl.DataFrame:
    """The columns of a page of items, and ``more`` attributes that are texts."""
    texts = {name: [item.get(name) for item in items] for name in (*_TEXTS, *more)}
    texts["file_count"] = [item.get("files") for item in items]
    texts["slack_uid"] = [item.get("slack_uid", item.get("user_id")) for item in items]
    numbers = {name: [item.get(name) for item in items] for name in _NUMBERS}
    columns = [pl.Series(name, cells, pl.String, strict=False) for name, cells in texts.items()]
    columns += [pl.Series(name, cells, pl.Float64, strict=False) for name, cells in numbers.items()]
    flags = {name: [item.get(name) is True for item in items] for name in _FLAGS}
    columns += [pl.Series(name, cells, pl.Boolean) for name, cells in flags.items()]
    frame = pl.DataFrame(columns)
    return (
        frame.with_columns(
            micros("ts"),
            micros("thread_ts"),
            pl.col(_NUMBERS).fill_null(0).cast(pl.Int64),
            # A list of flat objects, whose values are words and numbers.
            pl.col("file_count").str.count_matches("{", literal=True).fill_null(0).cast(pl.Int64),
        )
        .filter(pl.col("ts").is_not_null())
        .with_row_index("row")
        .pipe(lambda cells: cells.drop(_LISTS).join(_lists(cells), on="row", maintain_order="left"))
        .select(*MESSAGES.names(), *more)
        .cast({name: MESSAGES[name] for name in (*_IDS, "mentions", "reactions", "replies")})
    )


def _lists(texts: pl.DataFrame) -> pl.DataFrame:
    """Of each `row` the lists that its texts stand for, see `channelstats.tables.message_row`."""
    parts = texts.lazy().select("row", *_LISTS)
    mentioned = (
        _split("mentions", parts, pl.col("mentions").str.replace_all(",", ":", literal=True), ":")
        .filter(pl.col("mentions") != "")
        .select("row", "mentions")
    )
    reacted = (
        _split("reactions", parts, pl.col("reactions").str.replace_all(";", ":", literal=True))
        .with_columns(users=pl.col("reactions").str.extract(REACTION_USERS))
        .select(
            "row",
            emoji=pl.col("reactions").str.strip_suffix(pl.col("users")),
            reactor=pl.col("users").str.strip_prefix(":").str.split(":"),
        )
        .explode("reactor")
        .filter(pl.col("reactor") != "")
        .select("row", reactions=pl.struct("emoji", "reactor"))
    )
    both = [_split(name, parts, pl.col(name)) for name in ("replies", "bot_replies")]
    replied = pl.concat(
        frame.select(
            "row",
            replier=pl.col(name).str.head(-_TIMESTAMP - 1) if name == "replies" else pl.lit(None),
            at=pl.col(name).str.tail(_TIMESTAMP),
        )
        for name, frame in zip(("replies", "bot_replies"), both, strict=True)
    )
    answered = (
        replied.with_columns(micros("at"))
        .filter(pl.col("at").is_not_null())
        .select("row", replies=pl.struct("replier", replied_at="at"))
    )
    rows = parts.select("row")
    for entries in (mentioned, reacted, answered):
        lists = entries.group_by("row", maintain_order=True).agg(pl.exclude("row"))
        rows = rows.join(lists, on="row", how="left", maintain_order="left")
    return rows.collect()


def _split(name: str, parts: pl.LazyFrame, text: pl.Expr, by: str = ",") -> pl.LazyFrame:
    """A row for each part of a text."""
    return parts.select("row", text.str.split(by).alias(name)).drop_nulls(name).explode(name)


def micros(column: str) -> pl.Expr:
    """Microseconds since the epoch of a column of timestamps; null where it is none."""
    is_timestamp = pl.col(column).str.contains(r"^[0-9]{10}\.[0-9]{6}$")
    digits = pl.col(column).str.replace(".", "", literal=True)
    return pl.when(is_timestamp).then(digits).cast(pl.Int64).alias(column)


def timestamps(column: str) -> pl.Expr:
    """Slack's timestamps of microseconds."""
    seconds = (pl.col(column) // 1_000_000).cast(pl.String).str.zfill(10)
    micros = (pl.col(column) % 1_000_000).cast(pl.String).str.zfill(6)
    return pl.concat_str(seconds, micros, separator=".")


def joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One frame of many, by time, without a row of a key that came before."""
    every = pl.concat(frames, how="vertical_relaxed") if (frames := list(frames)) else NOTHING
    if not every["ts"].is_sorted():  # as that of files of dates is that are all of one zone
        every = every.sort("ts", maintain_order=True)
    same_time = every["ts"].eq(every["ts"].shift()).fill_null(value=False)
    if not same_time.any():  # as nearly always, and soon found out
        return every
    some = every.select("slack_cid", "ts").with_row_index("row")
    some = some.filter(same_time | same_time.shift(-1, fill_value=False))
    again = some.filter(~pl.struct("slack_cid", "ts").is_first_distinct())["row"]
    if again.is_empty():
        return every
    return every.with_row_index("row").filter(~pl.col("row").is_in(again.implode())).drop("row")


def rows_where(frame: pl.DataFrame, chosen: pl.Expr) -> pl.DataFrame:
    """Some of the rows. Of those that follow one another no copy is made."""
    are_chosen = frame.select(chosen).to_series()
    first, number = are_chosen.arg_max() or 0, int(are_chosen.sum())
    is_run = are_chosen.slice(first, number).all()
    return frame.slice(first, number) if is_run else frame.filter(are_chosen)


def is_among(ids: pl.Series) -> pl.Expr:
    """Whether the column of the same name has one of these IDs. A semi-join, or an anti-join, would
    take many times as long.
    """
    return pl.col(ids.name).is_in(ids.implode())


_SMALL: Final = 2**15


def narrowed(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with counts in a quarter of the memory where all are small; polars takes sums of
    such columns in whole numbers of the usual width.
    """
    counts = frame.select(name for name in SMALL_COUNTS if name in frame.columns)
    largest = counts.select(pl.all().max()).row(0)
    small = [
        name for name, most in zip(counts.columns, largest, strict=True) if (most or 0) < _SMALL
    ]
    return frame.cast(dict.fromkeys(small, pl.Int16()))


# ── files ────────────────────────────────────────────────────────────────────────────────────────

_NAME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})-([0-9a-f]+)-([0-9a-f]{16})\.parquet")
_FORM: Final = f"3 {dict(MESSAGES)}"
"""Goes into digests: they are others when the columns are others."""

Versions = Mapping[str, str | None]
"""By date; None for a date that is being written to, of which no file is right."""


def folder_of(store: str, prefix: str, data: Path) -> Path:
    """Where the files of a store (a URL) are: beside an embedded one, or in the data folder."""
    url = parse_store(store)
    if isinstance(url, SqliteUrl):
        return Path(f"{url.path}.days", prefix)
    return data / "days" / hashlib.sha256(f"{store} {prefix}".encode()).hexdigest()[:16]


class DayFiles:
    """The files in a folder, which is made for the first of them. Without one nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def find(self, versions: Versions) -> dict[str, Path]:
        """The files of these versions, by date. They may be damaged."""
        files = await asyncio.to_thread(self._files)
        return {
            day: path
            for path, day, version in files
            if version is not None and versions.get(day) == version
        }

    async def read(
        self, files: Mapping[str, Path], columns: Sequence[str], only: pl.Expr | None = None
    ) -> tuple[set[str], pl.DataFrame]:
        """Those of the dates whose file is whole, and the messages in them all, or ``only`` some:
        of the others no more is unpacked than tells which they are.
        """

        def read() -> tuple[set[str], pl.DataFrame]:
            contents = {day: _content(path) for day, path in files.items()}
            undamaged = {day: data for day, data in contents.items() if data is not None}
            sources: list[IO[bytes]] = [io.BytesIO(data) for data in undamaged.values()]
            if not sources:
                return set(), MESSAGES.to_frame().select(columns)
            # Together they take a quarter of the time.
            messages = pl.scan_parquet(sources, schema=MESSAGES)
            messages = messages if only is None else messages.filter(only)
            # What polars looks up once for each chunk, as categories, it would for each file.
            return set(undamaged), messages.select(columns).collect().rechunk()

        return await asyncio.to_thread(read)

    async def put(self, messages: Mapping[str, pl.DataFrame], versions: Versions) -> None:
        """Keep the messages of dates that have a version, in place of what was kept of them."""

        def put(folder: Path) -> None:
            kept: set[Path] = set()
            with suppress(OSError):  # it is kept for speed alone: a full disk fails no report
                for day, frame in messages.items():
                    if version := versions.get(day):
                        kept.add(_put(folder, day, version, frame))
            self._remove(lambda day, _: day in messages, but=kept)

        if self._folder is not None:
            await asyncio.to_thread(put, self._folder)

    async def drop(self, days: Collection[str]) -> None:
        """Remove all that is kept of these dates."""
        await asyncio.to_thread(self._remove, lambda day, _: day in days)

    async def keep_only(self, versions: Versions) -> list[Path]:
        """Remove all others; return those that can neither be overwritten nor removed."""
        return await asyncio.to_thread(
            self._remove, lambda day, version: version is None or versions.get(day) != version
        )

    def _remove(
        self, is_gone: Callable[[str, str | None], bool], but: Collection[Path] = ()
    ) -> list[Path]:
        return [
            path
            for path, day, version in self._files()
            if path not in but and is_gone(day, version) and not erase(path)
        ]

    def _files(self) -> list[tuple[Path, str, str | None]]:
        """The files that were made here, with date and version; of unfinished ones without."""
        files = list[tuple[Path, str, str | None]]()
        if self._folder is not None:  # pages that versions before this one kept there
            files += [(path, "", None) for path in files_in(self._folder / "pages")]
        for path in files_in(self._folder):
            if match := _NAME.fullmatch(path.name):
                files.append((path, match[1], match[2]))
            elif path.name.startswith(PART):
                files.append((path, "", None))
        return files


def _put(folder: Path, day: str, version: str, messages: pl.DataFrame) -> Path:
    file = io.BytesIO()
    # What statistics of columns are for, leaving out parts of a file, is of no use here.
    messages.select(MESSAGES.names()).write_parquet(file, compression="lz4", statistics=False)
    content = file.getvalue()
    digest = _digest(day, version, content)
    return write_file(folder, f"{day}-{version}-{digest}.parquet", content)


def _digest(day: str, version: str, content: bytes) -> str:
    """Of a date too: a file that was renamed to another one is not whole."""
    return hashlib.sha256(f"{_FORM} {day} {version} ".encode() + content).hexdigest()[:16]


def _content(path: Path) -> bytes | None:
    """What a file holds; None if it is damaged, of other columns, or gone."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    match = _NAME.fullmatch(path.name)
    is_whole = match is not None and match[3] == _digest(match[1], match[2], content)
    return content if is_whole else None


def files_in(folder: Path | None) -> list[Path]:
    """What is in a folder, if there is one."""
    names = list[str]()
    if folder is not None:
        with suppress(OSError):  # there is none yet
            names = os.listdir(folder)
    return [Path(folder or "", name) for name in names]
