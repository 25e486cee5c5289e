"""Text made of columns is the JSON of what the columns hold."""

import json
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.pages.document_rows import (
    lists,
    mapping,
    mappings,
    objects,
    pieces,
    quoted,
    with_texts,
)

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1)


def only(frame: pl.DataFrame, *pieces: pl.Expr) -> Any:
    [text] = frame.select(pl.concat_str(*pieces)).to_series()
    return msgspec.json.decode(text)


@given(TEXTS)
def test_texts_come_back_as_they_were(texts: list[str]) -> None:
    found = pl.DataFrame({"text": texts}).select(quoted(pl.col("text"))).to_series()
    assert [json.loads(text) for text in found] == texts


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_come_back_as_they_were(numbers: list[float]) -> None:
    frame = pl.DataFrame({"n": numbers})
    plain = frame.select(pl.col("n").cast(pl.String)).to_series()
    fields = frame.select(objects({"n": pl.col("n")})).to_series()
    assert [json.loads(text) for text in plain] == numbers
    assert [json.loads(text)["n"] for text in fields] == numbers


@given(TEXTS)
def test_keys_are_quoted_whatever_they_are_made_of(texts: list[str]) -> None:
    keys = list(dict.fromkeys(texts))
    frame = pl.DataFrame({"key": keys, "n": range(len(keys))})
    for column in (pl.col("key"), pl.col("key").cast(pl.Enum(sorted(keys)))):
        written = mapping(frame.with_columns(column), "key", pl.col("n"))
        found = json.loads(bytes(written))
        assert list(found.items()) == [(key, number) for number, key in enumerate(keys)]


def test_a_mapping_of_nothing_is_empty() -> None:
    nothing = pl.DataFrame(schema={"key": pl.String, "n": pl.Int64})
    assert bytes(mapping(nothing, "key", pl.col("n"))) == b"{}"


def test_mappings_are_in_the_order_of_the_rows() -> None:
    frame = pl.DataFrame({"who": ["b", "a", "b"], "key": [7, 8, 5], "n": [1, 2, 3]})
    found = mappings(frame, "who", "key", n=pl.col("n"), twice=2 * pl.col("n"))
    assert found.rows() == [
        ("b", '{"7":1,"5":3}', '{"7":2,"5":6}'),
        ("a", '{"8":2}', '{"8":4}'),
    ]


def test_fields_are_in_the_order_given() -> None:
    frame = pl.DataFrame({"n": [1], "list": ["[2]"], "none": [None]})
    text = pieces({"z": pl.col("none"), "n": pl.col("n")}, "list", more="list")
    assert list(only(frame, *text).items()) == [
        ("z", None),
        ("n", 1),
        ("list", [2]),
        ("more", [2]),
    ]
    assert only(frame, lists(pl.col("n"), pl.col("list"))) == [1, [2]]


@pytest.mark.parametrize("empty", ["{}", "[]"])
def test_what_has_no_text_is_empty(empty: str) -> None:
    frame = pl.DataFrame({"who": ["b", "a"]})
    texts = pl.DataFrame({"uid": ["a"], "text": ['{"x":1}']})
    assert with_texts(frame, "who", texts, empty=empty).rows() == [("b", empty), ("a", '{"x":1}')]
