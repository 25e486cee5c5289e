"""Pages as bytes, to be kept in files, and what they depend on beside the tables.

Rule: what was decoded is equal to what was encoded. A text, a number, a truth value, None and a
mapping of these stand for themselves; anything else is a list of the name of its type and its
parts. Only the types that are named here are ever made.
"""

import hashlib
import io
from collections.abc import Callable, Mapping
from datetime import date
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import polars as pl

from channelstats.metrics.table import Column, Kind, Table
from channelstats.pages import model
from channelstats.pages.model import Page

_STRUCTS: Final = (
    *(model.Page, model.Choice, model.Section, model.Text, model.Span),
    *(model.Tiles, model.Tile, Table, Column),
    *(
        model.SeriesChart,
        model.DateNote,
        model.Series,
        model.Heat,
        model.Network,
        model.Node,
        model.Edge,
    ),
)

_MADE_BY: Final[Mapping[str, Callable[..., object]]] = {
    **{made.__name__: made for made in (*_STRUCTS, Kind)},
    "tuple": lambda *parts: parts,
    "frozenset": lambda *parts: frozenset(parts),
    "date": date.fromisoformat,
    "DataFrame": lambda data: pl.read_ipc(io.BytesIO(data)),
}


def encoded(page: Page) -> bytes:
    return msgspec.msgpack.encode(_packed(page))


def decoded(data: bytes) -> Page:
    """The page that was `encoded` by the same code."""
    return cast("Page", _unpacked(msgspec.msgpack.decode(data)))


def _packed(value: object) -> object:
    parts: list[object]
    match value:
        case msgspec.Struct():
            parts = [_packed(getattr(value, name)) for name in value.__struct_fields__]
        case tuple() | frozenset():
            parts = list(map(_packed, value))
        case Enum():  # before texts, as these are texts too
            parts = [value.value]
        case date():
            parts = [value.isoformat()]
        case pl.DataFrame():
            file = io.BytesIO()
            value.write_ipc(file, compression="lz4")
            parts = [file.getvalue()]
        case _:
            return value
    return [type(value).__name__, *parts]


def _unpacked(value: Any) -> object:
    if not isinstance(value, list):
        return value
    name, *parts = value
    return _MADE_BY[name](*map(_unpacked, parts))


@cache
def code_digest() -> str:
    """Another text for other code: a page is used by the code that made it alone."""
    digest, folder = hashlib.sha256(pl.__version__.encode()), Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
