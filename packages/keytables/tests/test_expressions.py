"""Conditions and updates are plain data, compared by identity."""

import pytest

from keytables import Attr, Param, SchemaError, Update
from keytables.expressions import And, Compare, Exists, Not, Or
from support.cases import cases


def test_operators_build_a_tree() -> None:
    condition = (Attr("a") == Param("p")) & (Attr("b").absent() | ~(Attr("c") > 5))
    assert isinstance(condition, And)
    assert isinstance(condition.left, Compare)
    assert (condition.left.attribute, condition.left.operator) == ("a", "==")
    assert condition.left.operand == Param("p")
    either = condition.right
    assert isinstance(either, Or)
    assert isinstance(either.left, Not)
    assert isinstance(either.left.inner, Exists)
    assert isinstance(either.right, Not)


def test_expressions_are_hashed_by_identity() -> None:
    first, second = Attr("a") == 1, Attr("a") == 1
    assert len({first, second, first}) == 2
    update, same = Update(remove=("a",)), Update(remove=("a",))
    assert len({update, same, update}) == 2


def test_an_expression_with_an_unhashable_literal_can_be_hashed() -> None:
    condition, update = Attr("a") == [1], Update(set={"a": [1]})
    assert {condition: 1, update: 2}[update] == 2


def test_a_condition_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="&"):
        bool(Attr("a") == 1)


def test_a_tuple_of_names_stands_for_parameters() -> None:
    update = Update(set=("a", "b"), add_to=("c",), take_from={"d": Param("e")})
    assert update.assigned == {"a": Param("a"), "b": Param("b")}
    assert update.added == {"c": Param("c")}
    assert update.taken == {"d": Param("e")}


@cases(
    ("update", "creates"),
    [
        (Update(set=("a",)), True),
        (Update(add_to=("a",)), True),
        (Update(remove=("a",)), False),
        (Update(take_from=("a",)), False),
        (Update(remove=("a",), set=("b",)), True),
    ],
)
def test_an_update_creates_an_item_unless_it_only_removes(update: Update, creates: bool) -> None:
    assert update.creates is creates


def test_an_update_names_at_least_one_attribute_and_each_once() -> None:
    for twice in ({"add_to": ("a",), "take_from": ("a",)}, {"set": ("a",), "remove": ("a",)}):
        with pytest.raises(SchemaError):
            Update(**twice)
    for none in ((), ("",)):
        with pytest.raises(SchemaError):
            Update(set=none)
