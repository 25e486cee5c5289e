"""Frames as JSON text, and the rows that the document is written from: what would be millions of
dictionaries never becomes Python objects.

Rule: text goes in as it is and comes out as JSON; the order of keys is that of the frame.

An expression "in JSON" is text that is JSON already; whole numbers are that too.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import fsum
from typing import Final, TypeAlias, Union

import msgspec
import polars as pl

from channelstats.facts.facts import REACTED, REPLIED, Slice
from channelstats.metrics.quantities import Change, Formula, percent_of, ranked
from channelstats.metrics.query import BY_MESSAGES, BY_WORDS, aggregated, entries
from channelstats.metrics.volume import volume
from channelstats.pages.small_groups import SmallGroups
from channelstats.tables.columns import ID, timestamps
from channelstats.tables.directory import Channel

Part: TypeAlias = Union["Json", msgspec.Raw, Mapping[str, "Part"]]
"""What a document is written from: some parts of it are in JSON already."""

Json: TypeAlias = Union[  # noqa: UP007 - recursive, so named in quotes
    bool,
    int,
    float,
    str,
    Sequence["Json"],
    Mapping[str, "Json"],
    Mapping[int, "Json"],
    Change,
    None,
]

Fields: TypeAlias = Mapping[str, pl.Expr]

_KEY = pl.col("key in JSON")


def objects(fields: Fields) -> pl.Expr:
    """An object of each row, with these fields."""
    return together(fields).struct.json_encode()


def together(fields: Fields) -> pl.Expr:
    """Fields as one column, to be a field of an object."""
    return pl.struct(field.alias(name) for name, field in fields.items())


def pieces(fields: Fields, *columns: str, **called: str) -> list[pl.Expr]:
    """An object of each row: some fields, and columns in JSON by their names or as they are
    ``called``. In pieces, so that large texts are put together once.
    """
    made = [objects(fields).str.strip_suffix("}")]
    for name, column in {**dict(zip(columns, columns, strict=True)), **called}.items():
        made += [pl.lit(f',"{name}":'), pl.col(column)]
    return [*made, pl.lit("}")]


def quoted(text: pl.Expr) -> pl.Expr:
    """Texts as JSON strings."""
    return objects({"_": text}).str.strip_prefix('{"_":').str.strip_suffix("}")


def lists(*parts: pl.Expr) -> pl.Expr:
    """A list of each row, of parts in JSON."""
    return pl.concat_str(pl.lit("["), pl.concat_str(*parts, separator=","), pl.lit("]"))


def mappings(frame: pl.DataFrame, outer: str, key: str, **values: pl.Expr) -> pl.DataFrame:
    """An object for each ``outer`` of {key: value}, in a column for each of the values in JSON."""
    entries = {name: pl.concat_str(_KEY, pl.lit(":"), value) for name, value in values.items()}
    objects_of = (
        frame.with_columns(_keys(frame[key]))
        .select(outer, **entries)
        .group_by(outer, maintain_order=True)
        .agg(pl.all())
    )
    texts = (
        pl.concat_str(pl.lit("{"), pl.col(name).list.join(","), pl.lit("}")).alias(name)
        for name in values
    )
    return objects_of.select(pl.col(outer).cast(ID), *texts)


def mapping(frame: pl.DataFrame, key: str, *value: pl.Expr) -> msgspec.Raw:
    """One object of {key: value}; the value in JSON, or the pieces of it."""
    entries = frame.with_columns(_keys(frame[key])).select(pl.concat_str(_KEY, pl.lit(":"), *value))
    texts = entries.to_series().to_list() or [""]
    texts[0] = "{" + texts[0]
    texts[-1] += "}"
    return msgspec.Raw(",".join(texts))


def _keys(column: pl.Series) -> pl.Series:
    """A column of keys in JSON; of an Enum, each of its texts is quoted once."""
    enum = isinstance(column.dtype, pl.Enum)
    texts = column.dtype.categories if isinstance(column.dtype, pl.Enum) else column
    keys = texts.cast(pl.String).to_frame("text").select(quoted(pl.col("text"))).to_series()
    if enum:
        keys = keys.gather(column.to_physical())
    return keys.alias(_KEY.meta.output_name())


def with_texts(
    frame: pl.DataFrame, key: str, *texts: pl.DataFrame, empty: str = "{}"
) -> pl.DataFrame:
    """The frame with the columns of others, found by their first; ``empty`` where there is none."""
    for each in texts:
        first, *columns = each.columns
        frame = frame.join(
            each, left_on=key, right_on=first, how="left", maintain_order="left"
        ).with_columns(pl.col(columns).fill_null(empty))
    return frame


# ── rows of a period ─────────────────────────────────────────────────────────────────────────────

TOP_MESSAGES: Final = 10
"""Messages that are listed of everybody, of a channel, of an author."""

SIZE: Final = ("messages", "words")
PAIR: Final = lists(*map(pl.col, SIZE))
EMOJI_RATE: Final = Formula("times_used", "words", 1000).column().shown().cast(pl.String)

POSTING: Final = {"posting_days": ("weekday", "timed"), "posting_hours": ("hour", "workdays")}
"""When each posts: by what, and of which messages. Hours are those from Monday to Friday."""

TOP_LISTS: Final = {REACTED: "most_reacted", REPLIED: "most_replied"}

_TOP_ENTRY: Final = lists(
    pl.col("count"),
    quoted(timestamps("ts")),
    quoted(pl.col("slack_cid")),
    quoted(pl.col("slack_uid")),
    pl.coalesce(quoted(timestamps("thread_ts")), pl.lit("null")),
)
"""`[count, ts, channel, author, thread or null]`."""


class PeriodRows:
    """Rows of a period, ranked by words, and columns of JSON beside them."""

    def __init__(self, part: Slice, groups: SmallGroups, channels: Mapping[str, Channel]) -> None:
        self.slice, self.groups = part, groups
        known = [
            (cid, one.name, one.created > part.period.begin, one.members)
            for cid, one in channels.items()
        ]
        kinds = {"channel": pl.Categorical(), "name": pl.String(), "new": pl.Boolean()}
        self.known = pl.DataFrame(known, {**kinds, "members": pl.Int64()}, orient="row")
        """What is known of channels beside their messages."""

    @cached_property
    def people(self) -> pl.DataFrame:
        """Whoever wrote, ranked, then who was answered in own threads, by ID."""
        names = ("reactions", "replies_received", "reactions_given")
        return entries(self.slice, "person", names, BY_MESSAGES, BY_WORDS)

    @cached_property
    def posters(self) -> pl.DataFrame:
        return self.people.filter(pl.col("messages") > 0)

    @cached_property
    def channels(self) -> pl.DataFrame:
        return entries(self.slice, "channel", ("posters", "reactions"), BY_MESSAGES, BY_WORDS)

    @cached_property
    def listed(self) -> pl.DataFrame:
        """The channels that are large enough."""
        return self.groups.listable(self.channels, "channel")

    @cached_property
    def channel_people(self) -> pl.DataFrame:
        """Each author in each channel, with the `rank` there; channels by ID, authors by rank."""
        return (
            ranked(aggregated(self.slice, ("channel", "person"), SIZE), BY_WORDS, "person")
            .with_columns(rank=pl.int_range(1, pl.len() + 1).over("channel"))
            .sort("channel", maintain_order=True)
        )

    @property
    def with_people(self) -> pl.DataFrame:
        """The channels with their authors, as JSON."""
        people = mappings(self.channel_people, "channel", "person", people=PAIR)
        return with_texts(self.listed, "channel", people)

    def with_posting(self, rows: pl.DataFrame, by: str) -> pl.DataFrame:
        for name, (step, table) in POSTING.items():
            volumes = aggregated(self.slice, (by, step), SIZE, table=table).sort(step)
            rows = with_texts(rows, by, mappings(volumes, by, step, **{name: PAIR}))
        return rows

    def with_emoji(self, rows: pl.DataFrame, by: str, words: pl.DataFrame) -> pl.DataFrame:
        """With how often each emoji was used on messages of each, and per 1000 of their words."""
        used = ranked(
            aggregated(self.slice, (by, "emoji"), ("times_used",)), ["times_used"], "emoji"
        )
        used = used.join(words.select(by, "words"), on=by, how="left", maintain_order="left")
        texts = mappings(used, by, "emoji", emoji=pl.col("times_used"), emoji_rate=EMOJI_RATE)
        return with_texts(rows, by, texts)

    def with_top_lists(self, rows: pl.DataFrame, by: str, whose: str) -> pl.DataFrame:
        """With the most reacted and the most replied messages of each."""
        for count, name in TOP_LISTS.items():
            top = self.groups.listable(self.slice.top(count)).collect()
            of_each = top.group_by(whose, maintain_order=True).head(TOP_MESSAGES)
            texts = of_each.select(whose, text=_TOP_ENTRY)
            each = texts.group_by(whose, maintain_order=True).agg("text")
            listed = each.select(whose, lists(pl.col("text").list.join(",")).alias(name))
            rows = with_texts(rows, by, listed, empty="[]")
        return rows

    def channels_of_people(self) -> pl.DataFrame:
        """The channels in which each author has words, the most words first."""
        rows = (
            self.groups.listable(self.channel_people, "channel")
            .with_columns(all_words=pl.col("words").sum().over("channel"))
            .filter(pl.col("words") > 0)
            .join(self.known.select("channel", "name"), on="channel", how="left")
            .sort(-pl.col("words"), -pl.col("messages"), "channel")
        )
        about = {name: pl.col(name) for name in ("rank", "words", "messages")}
        about |= {"slack_cid": pl.col("channel"), "name": pl.coalesce("name", "channel")}
        about["percent"] = percent_of("words", "all_words").column().shown()
        return mappings(rows, "person", "channel", enriched_channels=objects(about))

    def sizes(self, by: str, table: str = "") -> pl.DataFrame:
        return aggregated(self.slice, (by,), SIZE, table=table).sort(by)

    def shares_of_hours(self) -> list[float]:
        """The mean per author of the percentage of messages in each hour, from Monday to Friday."""
        by_hour = aggregated(self.slice, ("person", "hour"), SIZE, table="workdays")
        share = pl.col("messages") / pl.col("messages").sum().over("person")
        each = dict(by_hour.with_columns(share=share).group_by("hour").agg("share").iter_rows())
        authors = max(by_hour["person"].n_unique(), 1)
        return [100 * fsum(each.get(hour, ())) / authors for hour in range(24)]

    def zones(self) -> pl.DataFrame:
        """What was written in each zone of enough posters, with the `people` there."""
        zones = self.slice.facts.zones
        people = aggregated(self.slice, ("person",), SIZE).sort("person")
        people = people.join(zones, left_on="person", right_on="slack_uid", maintain_order="left")
        every = people.group_by("tz").agg(pl.col(SIZE).sum(), people="person")
        large = every.filter(pl.col("people").list.len() >= self.groups.smallest)
        return ranked(large, BY_WORDS, "tz")

    def top_messages(self, count: str) -> msgspec.Raw:
        top = self.groups.listable(self.slice.top(count)).head(TOP_MESSAGES)
        return msgspec.Raw(f"[{','.join(top.select(_TOP_ENTRY).collect().to_series())}]")

    def emoji(self) -> pl.DataFrame:
        used = aggregated(self.slice, ("emoji",), ("times_used",))
        words = pl.lit(volume(self.slice).words, pl.Int64)
        return ranked(used, ["times_used"], "emoji").with_columns(words=words)
