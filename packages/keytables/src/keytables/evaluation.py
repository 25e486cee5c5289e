"""Conditions and updates as functions over items, for engines that evaluate them themselves.

Each is compiled once; a call only looks up the values of its parameters.
"""

import operator
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

from keytables.checks import check_update, snapshot
from keytables.errors import SchemaError
from keytables.expressions import And, Compare, Condition, Exists, Not, Operand, Or, Param, Update
from keytables.schema import Table
from keytables.values import Item, Value, Values

MAX_COMPILED: Final = 1000
"""Compiled expressions that are kept. A program declares few; this bounds those of single calls."""

Predicate: TypeAlias = Callable[[Item, Values], bool]
"""Evaluates a condition on an item (an empty one when there is none)."""

Change: TypeAlias = Callable[[Item, Values], None]
"""Changes an item in place. Values of the item are replaced, never mutated."""

_Getter: TypeAlias = Callable[[Values], Value]

_ORDERINGS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABSENT: Final = object()


def _type(value: object) -> type:
    """Return the type as conditions see it: the same for all numbers, another for booleans."""
    if isinstance(value, bool):
        return bool
    for type_ in (str, int, bytes, list, Mapping, AbstractSet):
        if isinstance(value, type_):
            return cast(type, type_)
    return int if isinstance(value, float) else type(value)


def _equal(left: object, right: object) -> bool:
    """Whether two values are equal and of the same type, at every level."""
    if _type(left) is not _type(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return left == right


def _getter(operand: Operand) -> _Getter:
    if isinstance(operand, Param):
        name = operand.name

        def parameter(values: Values) -> Value:
            try:
                return values[name]
            except KeyError:
                raise SchemaError(f"no value for the parameter {name!r}") from None

        return parameter
    literal = snapshot(operand, "a literal")
    return lambda _: literal


@lru_cache(maxsize=MAX_COMPILED)
def compile_condition(condition: Condition) -> Predicate:
    """Return the function that evaluates a condition. Raises SchemaError."""
    return _predicate(condition)


def _predicate(condition: Condition) -> Predicate:
    match condition:
        case Exists(attribute):
            return lambda item, _: attribute in item
        case Not(Exists(attribute)):
            return lambda item, _: attribute not in item
        case Not(inner):
            positive = _predicate(inner)
            return lambda item, values: not positive(item, values)
        case And(left, right):
            first, second = _predicate(left), _predicate(right)
            return lambda item, values: first(item, values) and second(item, values)
        case Or(left, right):
            first, second = _predicate(left), _predicate(right)
            return lambda item, values: first(item, values) or second(item, values)
        case Compare():
            return _comparison(condition)
    raise SchemaError(f"not a condition: {condition!r}")


def _comparison(compare: Compare) -> Predicate:
    attribute, value_of = compare.attribute, _getter(compare.operand)
    if compare.operator == "==":
        return lambda item, values: _equal(item.get(attribute, _ABSENT), value_of(values))
    if compare.operator == "!=":
        return lambda item, values: not _equal(item.get(attribute, _ABSENT), value_of(values))
    compared = _ORDERINGS[compare.operator]

    def ordered(item: Item, values: Values) -> bool:
        value, stored = value_of(values), item.get(attribute, _ABSENT)
        type_ = _type(value)
        if type_ not in (str, int, bytes):
            raise SchemaError(f"{attribute!r}: only numbers, text and bytes have an order")
        return _type(stored) is type_ and compared(stored, value)

    return ordered


def compile_update(table: Table, update: Update) -> tuple[Change, bool]:
    """Return the function that applies an update, and whether that creates an absent item.

    Raises SchemaError if it names a key attribute.
    """
    assigned = [(name, _getter(value)) for name, value in update.assigned.items()]
    added = [(name, _getter(value)) for name, value in update.added.items()]
    taken = [(name, _getter(value)) for name, value in update.taken.items()]
    removed = update.remove
    check_update(table, update)

    def change(item: Item, values: Values) -> None:
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

    return change, update.creates


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
