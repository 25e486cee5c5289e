"""Quantities as columns are those of `quantities` and `compare`, row by row."""

from typing import Any

import msgspec
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from channelstats.stats.amounts import BEFORE, Amount, Figure, before, changes, quotient, shown
from channelstats.stats.compare import change
from channelstats.stats.json_text import objects
from channelstats.stats.quantities import shown as shown_alone
from support.soak import times

NUMBERS = st.one_of(st.integers(0, 12), st.integers(0, 10**6), st.integers(0, 10**11))
FIGURES = (
    Figure("m"),
    Figure("w", "m"),
    Figure("m", "all", 100),
    Figure("w", "all", 100, tenths=True),
)


class Entry(msgspec.Struct):
    m: int
    w: int
    all: int


ENTRIES = st.builds(Entry, NUMBERS, NUMBERS, NUMBERS)


def columns(entries: list[Entry], suffix: str = "") -> pl.DataFrame:
    names = Entry.__struct_fields__
    return pl.DataFrame(
        {name + suffix: [getattr(entry, name) for entry in entries] for name in names},
        dict.fromkeys((name + suffix for name in names), pl.Int64),
    )


def each(frame: pl.DataFrame, text: pl.Expr) -> list[Any]:
    return [msgspec.json.decode(row) for row in frame.select(text).to_series()]


@given(st.lists(ENTRIES, min_size=1, max_size=8))
def test_a_column_shows_what_each_entry_shows(entries: list[Entry]) -> None:
    frame = columns(entries)
    for figure in FIGURES:
        found = each(frame, objects(of=shown(figure.amount(pl.col))))
        assert [row["of"] for row in found] == [shown_alone(figure(entry)) for entry in entries]


@settings(max_examples=times(30, 300))
@given(st.lists(st.tuples(ENTRIES, st.none() | ENTRIES), min_size=1, max_size=8))
def test_a_column_changes_as_each_entry_changes(rows: list[tuple[Entry, Entry | None]]) -> None:
    now, then = columns([now for now, _ in rows]), [then or Entry(0, 0, 0) for _, then in rows]
    frame = now.hstack(columns(then, BEFORE)).with_columns(
        known=pl.Series([then is not None for _, then in rows])
    )
    for figure in FIGURES:
        text = objects(of=changes(figure.amount(pl.col), figure.amount(before), pl.col("known")))
        for (entry, earlier), found in zip(rows, each(frame, text), strict=True):
            expected = change(figure(entry), None if earlier is None else figure(earlier))
            assert list(found["of"].items()) == list(expected.items())


def test_without_a_period_before_nothing_is_new() -> None:
    frame = pl.DataFrame({"n": [3, 0], "n_before": [0, 0]})
    found = each(frame, objects(of=changes(Amount(pl.col("n")), Amount(before("n")))))
    assert [row["of"]["state"] for row in found] == ["from_zero", "same"]


@given(st.integers(0, 10**30), st.integers(1, 10**30))
def test_a_quotient_is_the_nearest_float_of_numbers_of_any_size(num: int, den: int) -> None:
    frame = pl.DataFrame(
        {"num": [num, 1], "den": [den, 3]}, dict.fromkeys(("num", "den"), pl.Int128)
    )
    assert frame.select(quotient(pl.col("num"), pl.col("den"))).to_series().to_list() == [
        num / den,
        1 / 3,
    ]
