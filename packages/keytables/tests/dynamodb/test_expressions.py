"""Conditions and updates as DynamoDB's expressions, and what an update leaves."""

from typing import Any

import pytest

from keytables import Attr, Condition, Param, Update
from keytables.dynamodb.expressions import (
    Placeholders,
    condition_text,
    holds_for_missing_item,
    update_actions,
)
from keytables.expressions import Compare, Operand
from support.cases import cases

# --- conditions -----------------------------------------------------------------------------------

A, B, C = Attr("a"), Attr("b"), Attr("c")


def readable(text: str | None, to: Placeholders) -> str:
    """The text with its names and literals in place of their placeholders."""
    assert text is not None
    originals: dict[str, str] = {placeholder: name for name, placeholder in to.names.items()}
    originals |= {placeholder: f"${name}" for name, placeholder in to.params.items()}
    originals |= {
        placeholder: next(iter(value.values())) for placeholder, value in to.literals.items()
    }
    return " ".join(
        "".join(originals.get(part, part) for part in _split(word)) for word in text.split(" ")
    )


def _split(word: str) -> list[str]:
    inner = word.strip("()").rpartition("(")[2]
    return [*word.partition(inner)] if inner else [word]


@cases(
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
)
def test_parentheses_are_only_where_they_are_needed(condition: Condition, text: str) -> None:
    to = Placeholders()
    assert readable(condition_text(condition, to), to) == text


def test_nothing_stored_equals_the_empty_set() -> None:
    to = Placeholders(frozenset({"p"}))
    never = "attribute_exists(a) AND attribute_not_exists(a)"
    nothing: frozenset[str] = frozenset()
    for operand in (Param("p"), nothing):
        assert readable(condition_text(equal(A, operand), to), to) == never
        assert readable(condition_text(~equal(A, operand), to), to) == f"NOT ({never})"
    assert not to.params
    assert not to.literals


def equal(attribute: Attr, operand: Operand) -> Condition:
    return Compare(attribute.name, "==", operand)


@cases(
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
)
def test_it_is_known_which_conditions_hold_without_an_item(
    condition: Condition | None, expected: bool
) -> None:
    assert holds_for_missing_item(condition) is expected


# --- updates --------------------------------------------------------------------------------------

UPDATE = Update(set=("a",), remove=("b",), add_to=("plus",), take_from=("minus",))
VALUES: dict[str, dict[str, Any]] = {
    ":0": {"N": "5"},
    ":1": {"SS": ["x", "y"]},
    ":2": {"SS": ["z"]},
}
APPLIED: dict[str, Any] = {
    "user": {"S": "u"},
    "a": {"N": "5.0"},
    "plus": {"SS": ["y", "w", "x"]},
    "minus": {"SS": ["w"]},
    "other": {"S": "of another client"},
}


def is_applied(item: dict[str, Any]) -> bool:
    return update_actions(UPDATE, Placeholders()).is_applied(item, VALUES)


def test_an_update_is_applied_when_every_action_is() -> None:
    assert is_applied(APPLIED)
    assert is_applied({name: value for name, value in APPLIED.items() if name != "minus"})


@cases(
    "other",
    [
        {"a": {"N": "6"}},
        {"a": {"S": "5"}},
        {"b": {"NULL": True}},
        {"plus": {"SS": ["x"]}},
        {"plus": {"S": "xy"}},
        {"minus": {"SS": ["w", "z"]}},
    ],
)
def test_an_update_is_not_applied_when_one_action_is_not(other: dict[str, Any]) -> None:
    assert not is_applied({**APPLIED, **other})


@pytest.mark.parametrize("missing", ["a", "plus"])
def test_an_update_is_not_applied_when_an_attribute_is_missing(missing: str) -> None:
    assert not is_applied({name: value for name, value in APPLIED.items() if name != missing})


def test_a_new_item_has_what_is_set_and_added() -> None:
    item = update_actions(UPDATE, Placeholders()).new_item({"user": {"S": "u"}}, VALUES)
    assert item == {"user": {"S": "u"}, "a": {"N": "5"}, "plus": {"SS": ["x", "y"]}}


def test_setting_the_empty_set_is_removing() -> None:
    actions = update_actions(
        Update(set={"a": Param("p"), "b": Param("q")}), Placeholders(frozenset({"p"}))
    )
    assert actions.sets == {"b": ":0"}
    assert actions.removes == ("a",)
