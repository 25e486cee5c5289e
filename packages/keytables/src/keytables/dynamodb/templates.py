"""Requests of the writes of one table, put into words once for each condition and update.

The one rule: a call only adds values. A second wording is made only where a parameter is the empty
set, which DynamoDB cannot be sent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from keytables.dynamodb.codec import Wire, dumps, wire
from keytables.dynamodb.conditions import (
    NOW,
    Alias,
    has_order,
    holds_on_nothing,
    of_beginning,
    of_update,
    of_write,
)
from keytables.dynamodb.updates import Parts, parts_of
from keytables.errors import SchemaError
from keytables.expressions import (
    And,
    Compare,
    Condition,
    Not,
    Operand,
    Or,
    Param,
    Returning,
    Update,
)
from keytables.schema import Table
from keytables.values import Values

__all__ = ["Bound", "Check", "Request", "Template", "beginning", "head"]

Check: TypeAlias = Callable[[object], object]
"""Raises SchemaError for a value that an attribute cannot hold."""

_RETURNING: Final = {
    Returning.NOTHING: "NONE",
    Returning.OLD: "ALL_OLD",
    Returning.NEW: "ALL_NEW",
}
_NO_VALUES: Final[Values] = {}
_NO_PARTS: Final = Parts({}, (), {}, {})


def head(name: str, **members: object) -> bytes:
    """Return the beginning of a request on the table of that name: JSON without its last brace."""
    return dumps({"TableName": name, **members})[:-1]


class Request(msgspec.Struct, frozen=True):
    """A request but for the time at which it is to be judged, which some need."""

    begin: bytes
    end: bytes
    needs_now: bool

    def at(self, now: float) -> bytes:
        """Return the request, to be judged at the time ``now``."""
        if not self.needs_now:
            return self.begin + self.end
        return b'%b"%b":{"N":"%b"}%b' % (self.begin, NOW.encode(), repr(now).encode(), self.end)


@dataclass(frozen=True, slots=True)
class _Wording:
    """Everything but key or item, and values. ``places`` are the parameters in it, and theirs."""

    begin: bytes
    places: tuple[tuple[str, str], ...]
    literals: Mapping[str, Wire]
    needs_now: bool
    parts: Parts

    @classmethod
    def of(cls, head: bytes, alias: Alias, condition: str | None, parts: Parts) -> "_Wording":
        members: dict[str, object] = {}
        if condition is not None:
            members["ConditionExpression"] = condition
            members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if change := parts.text(alias):
            members["UpdateExpression"] = change
        if alias.names:
            members["ExpressionAttributeNames"] = {
                placeholder: name for name, placeholder in alias.names.items()
            }
        begin = head + b"," + dumps(members)[1:-1] if members else head
        return cls(begin, tuple(alias.params.items()), alias.literals, alias.now, parts)


class Bound(msgspec.Struct, frozen=True):
    """A wording with the values of one call, by their placeholders."""

    wording: _Wording
    values: Mapping[str, Wire]

    def request(self, what: bytes) -> Request:
        """Return the request about ``what``: its key or item as a member in JSON."""
        wording = self.wording
        begin = b"%b,%b" % (wording.begin, what)
        if not self.values:
            return Request(begin, b"}", needs_now=False)
        begin += b',"ExpressionAttributeValues":{'
        end = dumps(self.values)[1:] + b"}"
        return Request(begin, b"," + end if wording.needs_now else end, wording.needs_now)


@dataclass(slots=True)
class _Use:
    """What the value of a parameter must be fit for."""

    ordering: bool = False
    members: bool = False
    checks: list[Check] = field(default_factory=list)


class Template:
    """A conditional put or delete, or an update, of one table.

    ``checks`` judge the attributes that are keys of an index, or the expiry. Raises SchemaError for
    an expression that no values can make good.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        condition: Condition | None,
        update: Update | None = None,
        returning: Returning = Returning.NOTHING,
        *,
        checks: Mapping[str, Check],
    ) -> None:
        self._table = table
        self._condition, self._update = condition, update
        self._head = head(name, ReturnValues=_RETURNING[returning])
        self._uses: dict[str, _Use] = {}
        self._wordings: dict[frozenset[str], _Wording] = {}
        self.on_nothing = holds_on_nothing(condition)
        """Whether the condition holds where there is no item."""
        if condition is not None:
            self._note_condition(condition)
        if update is not None:
            self._note_update(update, checks)
        self._wording(frozenset())

    def bind(self, values: Values | None) -> Bound:
        """Return the request with these values, which may be changed after the call.

        Raises SchemaError for one that is missing or does not fit.
        """
        given = _NO_VALUES if values is None else values
        sent: dict[str, Wire] = {}
        empty: frozenset[str] = frozenset()
        for name, use in self._uses.items():
            if name not in given:
                raise SchemaError(f"no value for the parameter {name!r}")
            value = given[name]
            for check in use.checks:
                check(value)
            found = wire(value, name)
            if found is None:
                empty |= {name}
            else:
                sent[name] = found
            if use.ordering and (found is None or not has_order(found)):
                raise SchemaError(f"{name!r}: only numbers, text and bytes have an order")
            if use.members and found is not None:
                _check_members(name, found)
        wording = self._wording(empty)
        return Bound(
            wording, {**{at: sent[name] for name, at in wording.places}, **wording.literals}
        )

    def _wording(self, empty: frozenset[str]) -> _Wording:
        found = self._wordings.get(empty)
        if found is not None:
            return found
        alias, table, condition, update = Alias(empty), self._table, self._condition, self._update
        if update is not None:
            parts = parts_of(update, alias)
            stated = of_update(table, condition, alias, creates=update.creates)
        else:
            parts = _NO_PARTS
            stated = None if condition is None else of_write(table, condition, alias)
        made = self._wordings[empty] = _Wording.of(self._head, alias, stated, parts)
        return made

    def _note_condition(self, condition: Condition) -> None:
        match condition:
            case And(left, right) | Or(left, right):
                self._note_condition(left)
                self._note_condition(right)
            case Not(inner):
                self._note_condition(inner)
            case Compare(_, operator, Param(name)):
                use = self._uses.setdefault(name, _Use())
                use.ordering = use.ordering or operator not in ("==", "!=")

    def _note_update(self, update: Update, checks: Mapping[str, Check]) -> None:
        members = {**update.added, **update.taken}
        for name in self._table.key_names:
            if name in (*update.assigned, *update.remove, *members):
                raise SchemaError(
                    f"{name!r} is a key of table {self._table.name!r} and cannot be changed"
                )
        for name, operand in update.assigned.items():
            self._note_assigned(operand, checks.get(name))
        for name, operand in members.items():
            if isinstance(operand, Param):
                self._uses.setdefault(operand.name, _Use()).members = True
            elif (literal := wire(operand, name)) is not None:
                _check_members(name, literal)

    def _note_assigned(self, operand: Operand, check: Check | None) -> None:
        if isinstance(operand, Param):
            use = self._uses.setdefault(operand.name, _Use())
            if check is not None:
                use.checks.append(check)
        elif check is not None:
            check(operand)


def beginning(table: Table, name: str) -> Bound:
    """Return the put of an item where there is none, or only an expired one."""
    alias = Alias()
    wording = _Wording.of(head(name), alias, of_beginning(table, alias), _NO_PARTS)
    return Bound(wording, wording.literals)


def _check_members(name: str, sent: Wire) -> None:
    if "SS" not in sent:
        raise SchemaError(f"{name!r}: expected a set of text to add or take")
