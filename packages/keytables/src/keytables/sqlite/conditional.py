"""Writes that read the stored item first: conditions and updates, compiled, and their operations.

A condition or update is compiled once into a function over items; a call only looks up the values
of its parameters.
"""

import operator
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import apsw

from keytables.checks import PLAIN_TYPES, snapshot
from keytables.errors import ConditionFailed, SchemaError
from keytables.expressions import (
    And,
    Compare,
    Condition,
    Exists,
    Not,
    Operand,
    Or,
    Param,
    Returning,
    Update,
)
from keytables.schema import Table
from keytables.sqlite.codec import Row, RowCodec, unpack
from keytables.sqlite.statements import Statements
from keytables.sqlite.write_queue import Operation, Pending
from keytables.values import Item, KeyTuple, Value, Values

__all__ = [
    "MAX_COMPILED",
    "Change",
    "ConditionalDeleteRow",
    "ConditionalPutRow",
    "Predicate",
    "UpdateRow",
    "compile_condition",
    "compile_update",
]

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
    for name in table.key_names:
        if name in (*removed, *(named for named, _ in (*assigned, *added, *taken))):
            raise SchemaError(f"{name!r} is a key of table {table.name!r} and cannot be changed")

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


class _ConditionalOperation(Operation):
    """A write that reads the stored item first."""

    __slots__ = ("clock", "condition", "key", "returning", "statements", "values")

    def __init__(
        self,
        pending: Pending,
        statements: Statements,
        key: KeyTuple,
        size: int,
        *,
        clock: Callable[[], float],
        condition: Condition | None,
        values: Values | None,
        returning: Returning = Returning.NOTHING,
    ) -> None:
        self.table, self.pending = statements.table.name, pending
        self.partition, self.size = key[0], size
        self.waiters = self.error = self.result = None
        self.statements, self.key, self.clock = statements, key, clock
        self.condition = None if condition is None else compile_condition(condition)
        self.values: dict[str, Value] = {}
        if values:
            for name, value in values.items():
                plain = type(value) in PLAIN_TYPES
                self.values[name] = value if plain else snapshot(value, name)
        self.returning = returning

    def read(self, cursor: apsw.Cursor) -> tuple[Item | None, bytes | None]:
        """Return the stored item and its blob, unless it is expired. Raises ConditionFailed."""
        key: Row = self.key
        if self.statements.table.expiry is not None:
            key = (*key, self.clock())
        blob: bytes | None = cursor.execute(self.statements.get, key).get
        item = None if blob is None else unpack(blob)
        if self.condition is not None and not self.condition(item or {}, self.values):
            raise ConditionFailed(item)
        return item, blob


class ConditionalPutRow(_ConditionalOperation):
    """Store ``row`` if the condition is true."""

    __slots__ = ("row",)

    row: Row

    def apply(self, cursor: apsw.Cursor) -> object:
        self.read(cursor)
        cursor.execute(self.statements.put, self.row)
        return None


class ConditionalDeleteRow(_ConditionalOperation):
    """Delete the item if the condition is true, and return it if asked for."""

    __slots__ = ()

    def apply(self, cursor: apsw.Cursor) -> object:
        item, _ = self.read(cursor)
        cursor.execute(self.statements.delete, self.key)
        return item if self.returning is Returning.OLD else None


class UpdateRow(_ConditionalOperation):
    """Change attributes of the item if the condition is true; create the item if it is absent."""

    __slots__ = ("change", "codec", "creates")

    change: Change
    codec: RowCodec
    creates: bool

    def apply(self, cursor: apsw.Cursor) -> object:
        old, blob = self.read(cursor)
        if old is None and not self.creates:
            return None
        if old is None:
            item: Item = dict(zip(self.statements.table.key_names, self.key, strict=True))
        else:
            item = old.copy()
        self.change(item, self.values)
        row = self.codec.row(item)
        changed = cast(bytes, row[self.codec.blob_column])
        if changed != blob:
            cursor.execute(self.statements.put, row)
        if self.returning is Returning.NEW:
            return unpack(changed)
        return old if self.returning is Returning.OLD else None
