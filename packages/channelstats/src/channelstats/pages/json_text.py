"""Frames as JSON text: what would be millions of dictionaries never becomes Python objects.

Rule: text goes in as it is and comes out as JSON; the order of keys is that of the frame.

An expression "in JSON" is text that is JSON already; whole numbers are that too.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

import msgspec
import polars as pl

from channelstats.metrics.quantities import Change
from channelstats.tables.columns import ID

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
