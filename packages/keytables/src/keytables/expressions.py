"""Conditions and updates of a write, as data.

The one rule: an expression holds no values of a request, only names of parameters, so it is
declared once (at import time) and an engine compiles it once::

    NEWER = Attr("node_id").absent() | (Attr("connected_at") < Param("connected_at"))
    TOUCH = Update(set=("connected_at", "node_id"), remove=("critical_failure",))

    await users.update((uaid,), TOUCH, {"connected_at": 5, "node_id": url}, condition=NEWER)

How comparisons judge, in every engine: ``==`` and the four orderings are false when the attribute
is absent or of another kind than the operand; ``!=`` is exactly the negation of ``==``, so it holds
for an absent attribute. Numbers compare by value, whole or not; a boolean is not a number; text
compares by its UTF-8 bytes. Orderings are for numbers, text and bytes; ``==`` is for everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from keytables.errors import SchemaError
from keytables.schema import Value

__all__ = [
    "And",
    "Attr",
    "Compare",
    "Condition",
    "Exists",
    "Not",
    "Operand",
    "Or",
    "Param",
    "Returning",
    "Update",
]


class Returning(Enum):
    """What a write answers with: nothing, the whole item before it, or the whole item after it."""

    NOTHING = "nothing"
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Param:
    """A place for a value given with each call in ``values``."""

    name: str


Operand: TypeAlias = Param | Value
Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


class Condition:
    """What must hold for a write to be applied. Joined with ``&``, ``|`` and ``~``.

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
        # `a == 1 and b == 2` would silently drop its first half.
        raise TypeError("join conditions with &, | and ~, not with and, or, not")


@dataclass(frozen=True, slots=True, eq=False)
class Exists(Condition):
    """The attribute is there, whatever it holds."""

    attribute: str


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Condition):
    """The attribute stands in a relation to a value."""

    attribute: str
    operator: Operator
    operand: Operand


@dataclass(frozen=True, slots=True, eq=False)
class And(Condition):
    """Both hold."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Or(Condition):
    """At least one holds."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Not(Condition):
    """The inner one does not hold."""

    inner: Condition


class Attr:
    """A top-level attribute of the stored item, to state a condition about."""

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
    """A change of one item's attributes, applied at once. The item is made when it is absent.

    ``set`` gives attributes new values; ``remove`` takes attributes away; ``add_to`` adds members
    to string sets (an absent set begins empty); ``take_from`` takes members out, and the attribute
    goes with its last member. Each may be applied twice with the result of once. A tuple of names
    in ``set``, ``add_to`` or ``take_from`` stands for parameters of the same names.

    An update that could only take away (no ``set``, no ``add_to``) leaves an absent item absent.
    Key attributes cannot be changed. Compared and hashed by identity.
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
        """``set`` with its shorthand resolved."""
        return _assignments(self.set)

    @property
    def added(self) -> dict[str, Operand]:
        """``add_to`` with its shorthand resolved."""
        return _assignments(self.add_to)

    @property
    def taken(self) -> dict[str, Operand]:
        """``take_from`` with its shorthand resolved."""
        return _assignments(self.take_from)

    @property
    def creates(self) -> bool:
        """Whether an absent item is made by it."""
        return bool(self.set or self.add_to)
