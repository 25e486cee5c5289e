"""Request templates: the conditional writes of a table, compiled once for each condition and
update, so that a call only adds values.

Where parameters are the empty set, which cannot be sent to DynamoDB, the expression is another one
and compiled once for these parameters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from keytables.dynamodb.codec import AttributeValue, dumps, encode_value
from keytables.dynamodb.expressions import (
    NOW,
    Placeholders,
    UpdateActions,
    create_condition,
    holds_for_missing_item,
    is_ordered,
    update_actions,
    update_condition,
    write_condition,
)
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

__all__ = [
    "BoundExpression",
    "TimedRequest",
    "ValueCheck",
    "WriteTemplate",
    "create_request",
    "request_head",
]

ValueCheck: TypeAlias = Callable[[object], object]
"""Raises SchemaError for a value that an attribute cannot hold."""

_RETURNING: Final = {
    Returning.NOTHING: "NONE",
    Returning.OLD: "ALL_OLD",
    Returning.NEW: "ALL_NEW",
}
_NO_VALUES: Final[Values] = {}
_NO_ACTIONS: Final = UpdateActions({}, (), {}, {})


def request_head(table_name: str, **members: object) -> bytes:
    """Return the beginning of a request on a table: JSON without its closing brace."""
    return dumps({"TableName": table_name, **members})[:-1]


class TimedRequest(msgspec.Struct, frozen=True):
    """A request without the time that expiry is compared with, which some need."""

    begin: bytes
    end: bytes
    needs_now: bool

    def at(self, now: float) -> bytes:
        """Return the request as of the time ``now``."""
        if not self.needs_now:
            return self.begin + self.end
        return b'%b"%b":{"N":"%b"}%b' % (self.begin, NOW.encode(), repr(now).encode(), self.end)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """Everything of a request but the key or item, and the values.

    ``params``: parameters and their placeholders. ``actions``: those of an update.
    """

    begin: bytes
    params: tuple[tuple[str, str], ...]
    literals: Mapping[str, AttributeValue]
    needs_now: bool
    actions: UpdateActions

    @classmethod
    def of(
        cls, head: bytes, to: Placeholders, condition: str | None, actions: UpdateActions
    ) -> "CompiledExpression":
        members: dict[str, object] = {}
        if condition is not None:
            members["ConditionExpression"] = condition
            members["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if update := actions.text(to):
            members["UpdateExpression"] = update
        if to.names:
            members["ExpressionAttributeNames"] = {
                placeholder: name for name, placeholder in to.names.items()
            }
        begin = head + b"," + dumps(members)[1:-1] if members else head
        return cls(begin, tuple(to.params.items()), to.literals, to.needs_now, actions)


class BoundExpression(msgspec.Struct, frozen=True):
    """An expression with the values of one call, by their placeholders."""

    expression: CompiledExpression
    values: Mapping[str, AttributeValue]

    def request(self, target: bytes) -> TimedRequest:
        """Return the request for a key or item, given as a member in JSON."""
        expression = self.expression
        begin = b"%b,%b" % (expression.begin, target)
        if not self.values:
            return TimedRequest(begin, b"}", needs_now=False)
        begin += b',"ExpressionAttributeValues":{'
        end = dumps(self.values)[1:] + b"}"
        needs_now = expression.needs_now
        return TimedRequest(begin, b"," + end if needs_now else end, needs_now)


@dataclass(slots=True)
class _ParameterUse:
    """What the value of a parameter must be fit for."""

    ordered: bool = False
    members: bool = False
    checks: list[ValueCheck] = field(default_factory=list)


class WriteTemplate:
    """A conditional put or delete, or an update, of one table.

    ``checks``: of the attributes that are keys of an index, or the expiry. Raises SchemaError for
    an expression that is wrong whatever the values.
    """

    def __init__(
        self,
        table: Table,
        table_name: str,
        condition: Condition | None,
        update: Update | None = None,
        returning: Returning = Returning.NOTHING,
        *,
        checks: Mapping[str, ValueCheck],
    ) -> None:
        self._table = table
        self._condition, self._update = condition, update
        self._head = request_head(table_name, ReturnValues=_RETURNING[returning])
        self._uses: dict[str, _ParameterUse] = {}
        self._compiled: dict[frozenset[str], CompiledExpression] = {}
        self.holds_for_missing_item = holds_for_missing_item(condition)
        if condition is not None:
            self._note_condition(condition)
        if update is not None:
            self._note_update(update, checks)
        self._compile(frozenset())

    def bind(self, values: Values | None) -> BoundExpression:
        """Return the expression with these values, which may be changed after the call.

        Raises SchemaError for one that is missing or does not fit.
        """
        given = _NO_VALUES if values is None else values
        encoded: dict[str, AttributeValue] = {}
        empty: frozenset[str] = frozenset()
        for name, use in self._uses.items():
            if name not in given:
                raise SchemaError(f"no value for the parameter {name!r}")
            value = given[name]
            for check in use.checks:
                check(value)
            found = encode_value(value, name)
            if found is None:
                empty |= {name}
            else:
                encoded[name] = found
            if use.ordered and (found is None or not is_ordered(found)):
                raise SchemaError(f"{name!r}: only numbers, text and bytes have an order")
            if use.members and found is not None:
                _check_members(name, found)
        expression = self._compile(empty)
        bound = {placeholder: encoded[name] for name, placeholder in expression.params}
        return BoundExpression(expression, {**bound, **expression.literals})

    def _compile(self, empty: frozenset[str]) -> CompiledExpression:
        found = self._compiled.get(empty)
        if found is not None:
            return found
        to, table, condition, update = (
            Placeholders(empty),
            self._table,
            self._condition,
            self._update,
        )
        if update is not None:
            actions = update_actions(update, to)
            text = update_condition(table, condition, to, creates=update.creates)
        else:
            actions = _NO_ACTIONS
            text = None if condition is None else write_condition(table, condition, to)
        made = self._compiled[empty] = CompiledExpression.of(self._head, to, text, actions)
        return made

    def _note_condition(self, condition: Condition) -> None:
        match condition:
            case And(left, right) | Or(left, right):
                self._note_condition(left)
                self._note_condition(right)
            case Not(inner):
                self._note_condition(inner)
            case Compare(_, operator, Param(name)):
                use = self._uses.setdefault(name, _ParameterUse())
                use.ordered = use.ordered or operator not in ("==", "!=")

    def _note_update(self, update: Update, checks: Mapping[str, ValueCheck]) -> None:
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
                self._uses.setdefault(operand.name, _ParameterUse()).members = True
            elif (literal := encode_value(operand, name)) is not None:
                _check_members(name, literal)

    def _note_assigned(self, operand: Operand, check: ValueCheck | None) -> None:
        if isinstance(operand, Param):
            use = self._uses.setdefault(operand.name, _ParameterUse())
            if check is not None:
                use.checks.append(check)
        elif check is not None:
            check(operand)


def create_request(table: Table, table_name: str, item: bytes) -> TimedRequest:
    """Return the put of an item (as JSON) where there is none, or only an expired one."""
    to = Placeholders()
    head, condition = request_head(table_name), create_condition(table, to)
    expression = CompiledExpression.of(head, to, condition, _NO_ACTIONS)
    return BoundExpression(expression, expression.literals).request(b'"Item":' + item)


def _check_members(name: str, value: AttributeValue) -> None:
    if "SS" not in value:
        raise SchemaError(f"{name!r}: expected a set of text to add or take")
