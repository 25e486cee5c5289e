"""Declarations are checked when they are created."""

from collections.abc import Callable

import pytest

from keytables import Index, Key, Kind, Range, SchemaError, Table
from support.cases import cases

A, B = Key("a"), Key("b")


@cases(
    "declare",
    [
        lambda: Key(""),
        lambda: Index("", A),
        lambda: Index("idx", A, Key("a", Kind.NUMBER)),
        lambda: Table("t", A),
        lambda: Table("has space", A),
        lambda: Table("x" * 256, A),
        lambda: Table('quo"te', A),
        lambda: Table("table", A, Key("a")),
        lambda: Table("table", A, indexes=(Index("idx", B), Index("idx", A))),
        lambda: Table("table", A, indexes=(Index("idx", Key("a", Kind.NUMBER)),)),
        lambda: Table("table", A, expiry="a"),
        lambda: Table("table", A, indexes=(Index("idx", B),), expiry="b"),
        lambda: Range(prefix="a", gt="a"),
    ],
)
def test_a_bad_declaration_is_a_schema_error(declare: Callable[[], object]) -> None:
    with pytest.raises(SchemaError):
        declare()


def test_the_expiry_may_be_the_key_of_an_index() -> None:
    table = Table("table", A, indexes=(Index("idx", A, Key("end", Kind.NUMBER)),), expiry="end")
    assert table.index("idx").sort == Key("end", Kind.NUMBER)


def test_an_unknown_index_is_named_in_the_error() -> None:
    with pytest.raises(SchemaError, match="'other'"):
        Table("table", A).index("other")


def test_key_attributes_are_those_of_table_and_indexes() -> None:
    table = Table("table", A, B, indexes=(Index("idx", B, A),))
    assert table.key_names == ("a", "b")
    assert table.key_attributes == (A, B, B, A)
