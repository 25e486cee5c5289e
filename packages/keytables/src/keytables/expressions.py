"""Conditions and updates of a write, declared as data; and evaluated, for engines that need it.

An expression names parameters in place of the values of a request, so it is declared once, at
import time, and an engine compiles it once::

    NEWER = Attr("node_id").absent() | (Attr("connected_at") < Param("connected_at"))
    TOUCH = Update(set=("connected_at", "node_id"), remove=("critical_failure",))

    await users.update((uaid,), TOUCH, {"connected_at": 5, "node_id": url}, condition=NEWER)

Comparisons, in every engine: ``==`` and the four orderings are false when the attribute is absent
or of another type than the operand; ``!=`` is exactly the negation of ``==``, so it is true for an
absent attribute. Integers and floats compare by value; a boolean is not a number; text compares by
its UTF-8 bytes. Orderings are for numbers, text and bytes; ``==`` is for every type.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from keytables.checks import snapshot
from keytables.errors import SchemaError
from keytables.schema import Table
from keytables.values import Item, Value, Values


class Returning(Enum):
    """What a write returns: nothing, the whole item before it, or the whole item after it."""

    NOTHING = "nothing"
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter; each call gives its value in ``values``."""

    name: str


Operand: TypeAlias = Param | Value
Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


class Condition:
    """What must be true for a write to be applied. Combine with ``&``, ``|`` and ``~``.

    Conditions are compared and hashed by identity.
    """

    __slots__ = ()

    def __and__(self, other: "Condition") -> "Condition":
        return And(self, other)

    def __or__(self, other: "Condition") -> "Condition":
        return Or(self, other)

    def __invert__(self) -> "Condition":
        return Not(self)

    def __bool__(self) -> bool:
        # `a == 1 and b == 2` would silently drop its first operand.
        raise TypeError("combine conditions with &, | and ~, not with and, or, not")


@dataclass(frozen=True, slots=True, eq=False)
class Exists(Condition):
    attribute: str


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Condition):
    attribute: str
    operator: Operator
    operand: Operand


@dataclass(frozen=True, slots=True, eq=False)
class And(Condition):
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Or(Condition):
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Not(Condition):
    inner: Condition


class Attr:
    """A top-level attribute of the stored item, the operand of a condition."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not name:
            raise SchemaError("an attribute needs a name")
        self.name = name

    def exists(self) -> Condition:
        return Exists(self.name)

    def absent(self) -> Condition:
        return Not(Exists(self.name))

    def __eq__(self, other: Operand) -> Condition:  # type: ignore[override]
        return Compare(self.name, "==", other)

    def __ne__(self, other: Operand) -> Condition:  # type: ignore[override]
        return Compare(self.name, "!=", other)

    def __lt__(self, other: Operand) -> Condition:
        return Compare(self.name, "<", other)

    def __le__(self, other: Operand) -> Condition:
        return Compare(self.name, "<=", other)

    def __gt__(self, other: Operand) -> Condition:
        return Compare(self.name, ">", other)

    def __ge__(self, other: Operand) -> Condition:
        return Compare(self.name, ">=", other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Attr({self.name!r})"


Assignments: TypeAlias = Mapping[str, Operand] | tuple[str, ...]


def _assignments(given: Assignments) -> dict[str, Operand]:
    if isinstance(given, tuple):
        return {name: Param(name) for name in given}
    return dict(given)


@dataclass(frozen=True, eq=False)
class Update:
    """An atomic change of one item's attributes. An absent item is created.

    ``set`` assigns values; ``remove`` removes attributes; ``add_to`` adds members to string sets
    (an absent set counts as empty); ``take_from`` removes members, and the attribute with its last
    member. Each is idempotent. A tuple of names in ``set``, ``add_to`` or ``take_from`` stands for
    parameters of the same names.

    An update that only removes (no ``set``, no ``add_to``) does not create an absent item. Key
    attributes cannot be changed. Compared and hashed by identity.
    """

    set: Assignments = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    add_to: Assignments = field(default_factory=dict)
    take_from: Assignments = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [*self.assigned, *self.remove, *self.added, *self.taken]
        if not names:
            raise SchemaError("an update needs at least one attribute")
        for name in names:
            if not name:
                raise SchemaError("an attribute needs a name")
            if names.count(name) > 1:
                raise SchemaError(f"an update names {name!r} twice")

    @property
    def assigned(self) -> dict[str, Operand]:
        return _assignments(self.set)

    @property
    def added(self) -> dict[str, Operand]:
        return _assignments(self.add_to)

    @property
    def taken(self) -> dict[str, Operand]:
        return _assignments(self.take_from)

    @property
    def creates(self) -> bool:
        """Whether it creates an absent item."""
        return bool(self.set or self.add_to)


def check_update(table: Table, update: Update) -> None:
    """Raise SchemaError for an update that names a key of the table."""
    for name in table.key_names:
        if name in (*update.assigned, *update.remove, *update.added, *update.taken):
            raise SchemaError(f"{name!r} is a key of table {table.name!r} and cannot be changed")


# --- evaluated on items ---------------------------------------------------------------------------
#
# For engines whose database does not evaluate them. Each is compiled once into a function; a call
# only looks up the values of its parameters.

MAX_COMPILED: Final = 1000
"""Compiled expressions in the cache; it bounds those that are made for single calls."""

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
    kind = type(value)
    return int if kind is float else kind


def _equal(left: object, right: object) -> bool:
    """Whether two values are equal and of the same type, at every level."""
    if _type(left) is not _type(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
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
    subtracted = [(name, _getter(value)) for name, value in update.taken.items()]
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
        for name, value_of in subtracted:
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
