"""Exact numbers: rounded, shown, and as columns what they are row by row."""

from fractions import Fraction
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelstats.metrics.quantities import (
    BEFORE,
    ColumnQuantity,
    Formula,
    Quantity,
    before,
    change,
    changes,
    quotient,
    shown,
)
from channelstats.pages.document_rows import objects
from support.soak import times

NUMBERS = st.one_of(st.integers(0, 12), st.integers(0, 10**6), st.integers(0, 10**11))
QUANTITIES = st.integers(0, 10**12) | st.builds(
    Fraction, st.integers(0, 10**9), st.integers(1, 10**9)
)
FORMULAS = (
    Formula("m"),
    Formula("w", "m"),
    Formula("m", "all", 100),
    Formula("w", "all", 100, tenths=True),
)


class Entry(msgspec.Struct):
    m: int
    w: int
    all: int


ENTRIES = st.builds(Entry, NUMBERS, NUMBERS, NUMBERS)


def exact(formula: Formula, entry: Entry) -> Quantity:
    """What a formula stands for, of one entry."""
    num: Quantity = formula.times * int(getattr(entry, formula.num))
    if formula.den:
        den = int(getattr(entry, formula.den))
        num = Fraction(num) / den if den else Fraction(0)
    return round(Fraction(num), 1) if formula.tenths else num


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
    for formula in FORMULAS:
        found = each(frame, objects({"of": formula.column().shown()}))
        assert [row["of"] for row in found] == [shown(exact(formula, entry)) for entry in entries]


@settings(max_examples=times(30, 300))
@given(st.lists(st.tuples(ENTRIES, st.none() | ENTRIES), min_size=1, max_size=8))
def test_a_column_changes_as_each_entry_changes(rows: list[tuple[Entry, Entry | None]]) -> None:
    now, then = columns([now for now, _ in rows]), [then or Entry(0, 0, 0) for _, then in rows]
    frame = now.hstack(columns(then, BEFORE)).with_columns(
        known=pl.Series([then is not None for _, then in rows])
    )
    for formula in FORMULAS:
        text = objects({"of": changes(formula.column(), formula.column(before), pl.col("known"))})
        for (entry, earlier), found in zip(rows, each(frame, text), strict=True):
            before_it = None if earlier is None else exact(formula, earlier)
            expected = change(exact(formula, entry), before_it)
            assert list(found["of"].items()) == list(expected.items())


def test_without_a_period_before_nothing_is_new() -> None:
    frame = pl.DataFrame({"n": [3, 0], "n_before": [0, 0]})
    found = each(
        frame, objects({"of": changes(ColumnQuantity(pl.col("n")), ColumnQuantity(before("n")))})
    )
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


@pytest.mark.parametrize(
    ("w", "all_words", "tenths"),
    [(1, 2000, 0.0), (3, 2000, 0.2), (5, 2000, 0.2), (7, 2000, 0.4), (1001, 2_000_000, 0.1)],
)
def test_tenths_are_rounded_half_to_even(w: int, all_words: int, tenths: float) -> None:
    frame = columns([Entry(0, w, all_words)])
    assert frame.select(FORMULAS[-1].column().shown()).item() == tenths


# ── against the period before ────────────────────────────────────────────────────────────────────


def test_for_machines() -> None:
    assert change(3, 2) == {"cur": 3, "prev": 2, "diff_pct": 50.0, "state": "up"}
    assert change(3, None) == {"cur": 3, "prev": None, "diff_pct": None, "state": "new"}
    assert change(3, 0) == {"cur": 3, "prev": 0, "diff_pct": None, "state": "from_zero"}
    assert change(0, 0) == {"cur": 0, "prev": 0, "diff_pct": None, "state": "same"}
    assert change(1000, 1004)["state"] == "same"
    assert change(1000, 1004)["diff_pct"] == pytest.approx(-0.398406, abs=1e-6)


@pytest.mark.parametrize(
    ("cur", "prev", "state"),
    [(201, 200, "up"), (199, 200, "down"), (401, 400, "same"), (399, 400, "same")],
)
def test_half_a_percent_is_a_change_and_less_is_none(cur: int, prev: int, state: str) -> None:
    assert change(cur, prev)["state"] == state


@given(QUANTITIES, QUANTITIES)
def test_it_is_decided_exactly(cur: Quantity, prev: Quantity) -> None:
    now, then = Fraction(cur), Fraction(prev)
    found = change(cur, prev)
    if then == 0:
        assert found["state"] == ("from_zero" if now else "same")
        assert found["diff_pct"] is None
        return
    diff = now * 100 / then - 100
    assert found["diff_pct"] == float(diff)
    expected = "same" if abs(diff) < Fraction(1, 2) else "up" if diff > 0 else "down"
    assert found["state"] == expected
