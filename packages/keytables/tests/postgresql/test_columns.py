"""Keys as columns sort and compare as in every engine."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables import Index, Key, Kind, Table
from keytables.postgresql.columns import (
    LONG,
    Columns,
    ColumnValue,
    encode_number,
    encode_text,
    shorten,
)

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("\0\1\2"))
numbers = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(1e-130, 9e125)
    | st.floats(-9e125, -1e-130)
    | st.sampled_from([0, 0.0, 1, 1.0, 2**53, 2.0**53, 2**53 + 1, 1.8e16])
)


def in_bytes(value: ColumnValue) -> bytes:
    """As the collation "C" of a database in UTF-8 compares it."""
    assert isinstance(value, str)
    return value.encode()


@given(texts, texts)
def test_text_sorts_by_its_bytes_and_has_no_zero(one: str, other: str) -> None:
    first, second = in_bytes(encode_text(one)), in_bytes(encode_text(other))
    assert (first < second) == (one.encode() < other.encode())
    assert (first == second) == (one == other)
    assert b"\0" not in first


@given(numbers, numbers)
def test_numbers_sort_by_value(one: float, other: float) -> None:
    first, second = encode_number(one), encode_number(other)
    assert isinstance(first, Decimal)
    assert isinstance(second, Decimal)
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@given(st.text(min_size=LONG // 5, max_size=2 * LONG), st.text(min_size=LONG // 5))
def test_long_keys_stay_different(one: str, other: str) -> None:
    first, second = shorten(one), shorten(other)
    assert (first == second) == (one == other)
    assert len(in_bytes(first)) <= max(LONG, 600)


@pytest.mark.parametrize("size", [LONG, LONG + 1, 2048])
def test_a_long_key_of_bytes_is_shortened_to_one_that_none_has(size: int) -> None:
    shortened = shorten(b"x" * size)
    assert isinstance(shortened, bytes)
    assert (len(shortened) == size) == (size == LONG)
    assert len(shortened) <= 600
    assert shortened == b"x" * size or len(shortened) > LONG


def test_a_column_has_the_name_of_its_attribute_where_a_column_can_have_it() -> None:
    table = Table(
        "things",
        Key("user"),
        Key("Place of birth"),
        indexes=(Index("by_item", Key("item"), Key("n", Kind.NUMBER)),),
        expiry="end",
    )
    columns = Columns(table)
    assert columns.names == (*('"user"', '"~1"', '"~2"', '"n"'), *("expires", "item", "row"))


def test_only_keys_that_are_compared_for_equality_are_shortened() -> None:
    table = Table("things", Key("user"), Key("place"), indexes=(Index("by_place", Key("place")),))
    columns = Columns(table)
    long = "x" * (LONG + 1)
    assert [column.encode(long) == long for column in columns.keys] == [False, True]
