"""Conditions and updates of a write, declared as data.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from keytables.errors import SchemaError
from keytables.values import Value


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
    """The attribute exists, whatever its value."""

    attribute: str


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Condition):
    """The attribute compares to a value as ``operator`` says."""

    attribute: str
    operator: Operator
    operand: Operand


@dataclass(frozen=True, slots=True, eq=False)
class And(Condition):
    """Both are true."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Or(Condition):
    """At least one is true."""

    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, eq=False)
class Not(Condition):
    """The inner condition is false."""

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
        """``set`` as a mapping."""
        return _assignments(self.set)

    @property
    def added(self) -> dict[str, Operand]:
        """``add_to`` as a mapping."""
        return _assignments(self.add_to)

    @property
    def taken(self) -> dict[str, Operand]:
        """``take_from`` as a mapping."""
        return _assignments(self.take_from)

    @property
    def creates(self) -> bool:
        """Whether it creates an absent item."""
        return bool(self.set or self.add_to)
