"""Conditions and updates as functions over items.

The one rule: compiled once for each expression; a call only looks values up.
"""

import operator
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeAlias, cast

from keytables.checks import snapshot
from keytables.errors import SchemaError
from keytables.expressions import (
    And,
    Compare,
    Condition,
    Exists,
    Not,
    Operand,
    Or,
    Param,
    Update,
)
from keytables.schema import Table
from keytables.values import Item, Value

__all__ = ["Change", "Predicate", "compile_condition", "compile_update", "same"]

Predicate: TypeAlias = Callable[[Item, Mapping[str, Value]], bool]
"""Judges an item (an empty one when there is none) with the values of the parameters."""

Change: TypeAlias = Callable[[Item, Mapping[str, Value]], None]
"""Changes an item in place. Values inside it are replaced, never changed themselves."""

_Getter: TypeAlias = Callable[[Mapping[str, Value]], Value]

_ORDERINGS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABSENT: Final = object()


def _kind(value: object) -> type:
    """Return the kind as conditions see it: one for all numbers, apart from booleans."""
    if isinstance(value, bool):
        return bool
    for kind in (str, int, bytes, list, Mapping, AbstractSet):
        if isinstance(value, kind):
            return cast(type, kind)
    return int if isinstance(value, float) else type(value)


def same(left: object, right: object) -> bool:
    """Whether two values are equal and of one kind, all the way down."""
    if _kind(left) is not _kind(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def _getter(operand: Operand) -> _Getter:
    if isinstance(operand, Param):
        name = operand.name

        def parameter(values: Mapping[str, Value]) -> Value:
            try:
                return values[name]
            except KeyError:
                raise SchemaError(f"no value for the parameter {name!r}") from None

        return parameter
    literal = snapshot(operand, "a literal")
    return lambda _: literal


def compile_condition(condition: Condition) -> Predicate:
    """Return the function of a condition."""
    match condition:
        case Exists(attribute):
            return lambda item, _: attribute in item
        case Not(inner):
            judge = compile_condition(inner)
            return lambda item, values: not judge(item, values)
        case And(left, right):
            first, second = compile_condition(left), compile_condition(right)
            return lambda item, values: first(item, values) and second(item, values)
        case Or(left, right):
            first, second = compile_condition(left), compile_condition(right)
            return lambda item, values: first(item, values) or second(item, values)
        case Compare():
            return _comparison(condition)
    raise SchemaError(f"not a condition: {condition!r}")


def _comparison(compare: Compare) -> Predicate:
    attribute, value_of = compare.attribute, _getter(compare.operand)
    if compare.operator == "==":
        return lambda item, values: same(item.get(attribute, _ABSENT), value_of(values))
    if compare.operator == "!=":
        return lambda item, values: not same(item.get(attribute, _ABSENT), value_of(values))
    holds = _ORDERINGS[compare.operator]

    def ordered(item: Item, values: Mapping[str, Value]) -> bool:
        value, stored = value_of(values), item.get(attribute, _ABSENT)
        kind = _kind(value)
        if kind not in (str, int, bytes):
            raise SchemaError(f"{attribute!r}: only numbers, text and bytes have an order")
        return _kind(stored) is kind and holds(stored, value)

    return ordered


def compile_update(table: Table, update: Update) -> Change:
    """Return the function of an update. Raises SchemaError when it names a key attribute."""
    assigned = [(name, _getter(value)) for name, value in update.assigned.items()]
    added = [(name, _getter(value)) for name, value in update.added.items()]
    taken = [(name, _getter(value)) for name, value in update.taken.items()]
    removed = update.remove
    for name in table.key_names:
        if name in (*removed, *(named for named, _ in (*assigned, *added, *taken))):
            raise SchemaError(f"{name!r} is a key of table {table.name!r} and cannot be changed")

    def change(item: Item, values: Mapping[str, Value]) -> None:
        for name, value_of in assigned:
            value = value_of(values)
            if value == frozenset():
                item.pop(name, None)
            else:
                item[name] = value
        for name in removed:
            item.pop(name, None)
        for name, value_of in added:
            _store_set(item, name, _members(item, name) | _operand(value_of(values), name))
        for name, value_of in taken:
            _store_set(item, name, _members(item, name) - _operand(value_of(values), name))

    return change


def _members(item: Item, name: str) -> frozenset[str]:
    stored = item.get(name, frozenset())
    if not isinstance(stored, frozenset):
        raise SchemaError(f"attribute {name!r} is not a set")
    return stored


def _operand(value: Value, name: str) -> frozenset[str]:
    if not isinstance(value, frozenset):
        raise SchemaError(f"{name!r}: expected a set to add or take, got {type(value).__name__}")
    return value


def _store_set(item: Item, name: str, members: frozenset[str]) -> None:
    if members:
        item[name] = members
    else:
        item.pop(name, None)
