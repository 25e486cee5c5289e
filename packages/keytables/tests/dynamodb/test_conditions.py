"""Conditions in DynamoDB's words."""

from typing import Any

import pytest

from keytables import Attr, Condition, Key, Param, SchemaError, Table
from keytables.dynamodb.conditions import (
    Alias,
    holds_on_nothing,
    of_beginning,
    of_update,
    of_write,
    text_of,
)
from keytables.expressions import Compare, Operand

A, B, C = Attr("a"), Attr("b"), Attr("c")
PLAIN = Table("plain", Key("user"))
EXPIRING = Table("expiring", Key("user"), expiry="end")


def readable(text: str | None, alias: Alias) -> str:
    """The text with its names and literals in place of their placeholders."""
    assert text is not None
    there: dict[str, str] = {placeholder: name for name, placeholder in alias.names.items()}
    there |= {placeholder: f"${name}" for name, placeholder in alias.params.items()}
    there |= {at: next(iter(sent.values())) for at, sent in alias.literals.items()}
    return " ".join(
        "".join(there.get(part, part) for part in _split(word)) for word in text.split(" ")
    )


def _split(word: str) -> list[str]:
    inner = word.strip("()").rpartition("(")[2]
    return [*word.partition(inner)] if inner else [word]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (A.exists(), "attribute_exists(a)"),
        (A.absent(), "attribute_not_exists(a)"),
        (~A.absent(), "attribute_exists(a)"),
        (A == 5, "a = 5"),
        (A != 5, "NOT a = 5"),
        (~(A != 5), "a = 5"),
        (~~(A == 5), "a = 5"),
        (Param("p") > A, "a < $p"),
        (~(A >= 5), "NOT a >= 5"),
        ((A == 1) & (B == 2) & (C == 3), "a = 1 AND b = 2 AND c = 3"),
        ((A == 1) & ((B == 2) | (C == 3)), "a = 1 AND (b = 2 OR c = 3)"),
        ((A == 1) & (B == 2) | (C == 3), "a = 1 AND b = 2 OR c = 3"),
        (~((A == 1) | (B == 2)), "NOT (a = 1 OR b = 2)"),
        (~(A == 1) & ~(B == 2), "NOT a = 1 AND NOT b = 2"),
    ],
    ids=repr,
)
def test_parentheses_stand_only_where_they_must(condition: Condition, text: str) -> None:
    alias = Alias()
    assert readable(text_of(condition, alias), alias) == text


def test_nothing_stored_equals_the_empty_set() -> None:
    alias = Alias(frozenset({"p"}))
    never = "attribute_exists(a) AND attribute_not_exists(a)"
    nothing: frozenset[str] = frozenset()
    for operand in (Param("p"), nothing):
        assert readable(text_of(equal(A, operand), alias), alias) == never
        assert readable(text_of(~equal(A, operand), alias), alias) == f"NOT ({never})"
    assert not alias.params
    assert not alias.literals


def test_names_and_values_stand_aside_once() -> None:
    alias = Alias()
    text = text_of(equal(A, Param("p")) | equal(A, Param("q")) & equal(B, Param("p")), alias)
    assert text == "#0 = :0 OR #0 = :1 AND #1 = :0"
    assert alias.names == {"a": "#0", "b": "#1"}
    assert alias.params == {"p": ":0", "q": ":1"}


def equal(attribute: Attr, operand: Operand) -> Condition:
    return Compare(attribute.name, "==", operand)


@pytest.mark.parametrize("literal", [True, None, [1], {"a": 1}, {"a"}, frozenset()], ids=repr)
def test_only_numbers_text_and_bytes_have_an_order(literal: Any) -> None:
    with pytest.raises(SchemaError):
        text_of(literal > A, Alias())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (None, True),
        (A.exists(), False),
        (A.absent(), True),
        (A == 5, False),
        (A != 5, True),
        (A < 5, False),
        (~(A < 5), True),
        (A.absent() | (A < 5), True),
        (A.absent() & (A < 5), False),
    ],
    ids=repr,
)
def test_it_is_known_what_holds_where_there_is_no_item(
    condition: Condition | None, expected: bool
) -> None:
    assert holds_on_nothing(condition) is expected


DEAD = "end > 0 AND end <= :now"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (A == 5, f"NOT ({DEAD}) AND a = 5"),
        (A.absent(), f"{DEAD} OR attribute_not_exists(a)"),
        ((A == 5) | (B == 6), f"NOT ({DEAD}) AND (a = 5 OR b = 6)"),
    ],
    ids=repr,
)
def test_a_write_judges_an_expired_item_as_none(condition: Condition, text: str) -> None:
    alias = Alias()
    assert readable(of_write(EXPIRING, condition, alias), alias) == text
    assert alias.now


def test_a_table_without_expiry_pays_nothing() -> None:
    alias = Alias()
    assert readable(of_write(PLAIN, A == 5, alias), alias) == "a = 5"
    assert of_update(PLAIN, None, alias, creates=True) is None
    assert not alias.now


@pytest.mark.parametrize(
    ("condition", "creates", "text"),
    [
        (None, True, f"NOT ({DEAD})"),
        (None, False, f"NOT ({DEAD}) AND attribute_exists(user)"),
        ((A == 5) | (B == 6), True, f"NOT ({DEAD}) AND (a = 5 OR b = 6)"),
        (A.absent(), True, f"NOT ({DEAD}) AND attribute_not_exists(a)"),
    ],
    ids=repr,
)
def test_an_update_touches_nothing_expired(
    condition: Condition | None, creates: bool, text: str
) -> None:
    alias = Alias()
    assert readable(of_update(EXPIRING, condition, alias, creates=creates), alias) == text


def test_an_update_that_only_takes_away_needs_the_item() -> None:
    alias = Alias()
    found = of_update(PLAIN, A == 5, alias, creates=False)
    assert readable(found, alias) == "attribute_exists(user) AND a = 5"


def test_an_item_begins_where_there_is_none_alive() -> None:
    alias = Alias()
    text = readable(of_beginning(EXPIRING, alias), alias)
    assert text == f"attribute_not_exists(user) OR {DEAD}"
