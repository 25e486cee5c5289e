"""Conditions and updates as DynamoDB's expressions, and whether an update was applied.

DynamoDB evaluates comparisons as :mod:`keytables.expressions` requires: false for an absent
attribute and for one of another type. ``!=`` is written as ``NOT … = …``.

Rule: an expired item is treated as absent, by the clock of the caller. Whether an update was
applied can be read from the item, so one whose response was lost is recognised.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from keytables.dynamodb.codec import AttributeMap, AttributeValue, encode_value, equal_values
from keytables.errors import SchemaError
from keytables.expressions import And, Compare, Condition, Exists, Not, Operand, Or, Param, Update
from keytables.schema import Table

NOW: Final = ":now"
"""The placeholder of the time at which a request is sent."""

_ZERO: Final = ":zero"

# Precedence of operators: a text is put into parentheses where it is an operand of a higher one.
# (Two pairs around one operand are an error in DynamoDB.)
_OR, _AND, _NOT = 0, 1, 2


class Placeholders:
    """The placeholders of one request: a name can be any text, so none is written out.

    ``empty``: parameters whose value is the empty set, which cannot be sent, nor equals any value.
    """

    def __init__(self, empty: AbstractSet[str] = frozenset()) -> None:
        self.empty = empty
        self.names: dict[str, str] = {}
        """Attributes to placeholders."""
        self.params: dict[str, str] = {}
        """Parameters to placeholders."""
        self.literals: dict[str, AttributeValue] = {}
        """Placeholders to values."""
        self.needs_now = False
        """Whether the request needs :data:`NOW`."""

    def name(self, attribute: str) -> str:
        return self.names.setdefault(attribute, f"#{len(self.names)}")

    def operand(self, operand: Operand) -> str | None:
        """Return the placeholder of a parameter or a literal, ``None`` for the empty set."""
        if isinstance(operand, Param):
            if operand.name in self.empty:
                return None
            return self.params.setdefault(operand.name, f":{len(self.params)}")
        value = encode_value(operand, "a literal")
        return None if value is None else self.literal(f":l{len(self.literals)}", value)

    def literal(self, placeholder: str, value: AttributeValue) -> str:
        self.literals[placeholder] = value
        return placeholder


# --- conditions -----------------------------------------------------------------------------------


def condition_text(condition: Condition, to: Placeholders, outer: int = _OR) -> str:
    """Return a condition as an operand of ``outer``, without regard to expiry."""
    match condition:
        case Exists(attribute):
            return f"attribute_exists({to.name(attribute)})"
        case Not(Exists(attribute)):
            return f"attribute_not_exists({to.name(attribute)})"
        case Not(Not(inner)):
            return condition_text(inner, to, outer)
        case Compare(attribute, "!=", operand):
            return condition_text(Not(Compare(attribute, "==", operand)), to, outer)
        case Not(Compare(attribute, "!=", operand)):
            return condition_text(Compare(attribute, "==", operand), to, outer)
        case Not(inner):
            return f"NOT {condition_text(inner, to, _NOT)}"
        case And(left, right):
            text = f"{condition_text(left, to, _AND)} AND {condition_text(right, to, _AND)}"
            return _parenthesized(text, _AND, outer)
        case Or(left, right):
            text = f"{condition_text(left, to, _OR)} OR {condition_text(right, to, _OR)}"
            return _parenthesized(text, _OR, outer)
        case Compare():
            return _comparison_text(condition, to, outer)
    raise SchemaError(f"not a condition: {condition!r}")


def _comparison_text(compare: Compare, to: Placeholders, outer: int) -> str:
    name, operator = to.name(compare.attribute), compare.operator
    operand = to.operand(compare.operand)
    if operator == "==":
        if operand is not None:
            return f"{name} = {operand}"
        never = f"attribute_exists({name}) AND attribute_not_exists({name})"
        return _parenthesized(never, _AND, outer)
    literal = None if operand is None else to.literals.get(operand)
    if operand is None or (literal is not None and not is_ordered(literal)):
        raise SchemaError(f"{compare.attribute!r}: only numbers, text and bytes have an order")
    return f"{name} {operator} {operand}"


def _parenthesized(text: str, operator: int, outer: int) -> str:
    return f"({text})" if operator < outer else text


def is_ordered(value: AttributeValue) -> bool:
    return not value.keys().isdisjoint(("S", "N", "B"))


def holds_for_missing_item(condition: Condition | None) -> bool:
    """Return whether a condition holds for a missing item; None always does."""
    match condition:
        case Not(inner):
            return not holds_for_missing_item(inner)
        case And(left, right):
            return holds_for_missing_item(left) and holds_for_missing_item(right)
        case Or(left, right):
            return holds_for_missing_item(left) or holds_for_missing_item(right)
        case Compare():
            return condition.operator == "!="
    return condition is None


def write_condition(table: Table, condition: Condition, to: Placeholders) -> str:
    if table.expiry is None:
        return condition_text(condition, to)
    if holds_for_missing_item(condition):
        return f"{_expired(table, to)} OR {condition_text(condition, to)}"
    return f"{_not_expired(table, to)} AND {condition_text(condition, to, _AND)}"


def update_condition(
    table: Table, condition: Condition | None, to: Placeholders, *, creates: bool
) -> str | None:
    # An update changes no expired item, and creates none by only removing attributes.
    terms: list[str] = []
    if table.expiry is not None:
        terms.append(_not_expired(table, to))
    if not creates:
        terms.append(f"attribute_exists({to.name(table.partition.name)})")
    if condition is not None:
        terms.append(condition_text(condition, to, _AND if terms else _OR))
    return " AND ".join(terms) or None


def create_condition(table: Table, to: Placeholders) -> str:
    """Return the condition that there is no item, or only an expired one."""
    return f"attribute_not_exists({to.name(table.partition.name)}) OR {_expired(table, to)}"


def _not_expired(table: Table, to: Placeholders) -> str:
    return f"NOT ({_expired(table, to)})"


def _expired(table: Table, to: Placeholders) -> str:
    # False where the attribute is absent or not a number, as it should be.
    assert table.expiry is not None
    name = to.name(table.expiry)
    to.needs_now = True
    return f"{name} > {to.literal(_ZERO, {'N': '0'})} AND {name} <= {NOW}"


# --- updates --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateActions:
    """An update: attributes to placeholders of values, none of which is the empty set."""

    sets: Mapping[str, str]
    removes: tuple[str, ...]
    adds: Mapping[str, str]
    deletes: Mapping[str, str]

    def text(self, to: Placeholders) -> str:
        """Return the update expression, empty for an update that changes nothing."""
        name = to.name
        clauses = {
            "SET": [f"{name(attribute)} = {value}" for attribute, value in self.sets.items()],
            "REMOVE": [name(attribute) for attribute in self.removes],
            "ADD": [f"{name(attribute)} {value}" for attribute, value in self.adds.items()],
            "DELETE": [f"{name(attribute)} {value}" for attribute, value in self.deletes.items()],
        }
        return " ".join(f"{word} {', '.join(terms)}" for word, terms in clauses.items() if terms)

    def new_item(
        self, key: AttributeMap, values: Mapping[str, AttributeValue]
    ) -> dict[str, AttributeValue]:
        given = {**self.sets, **self.adds}
        return {**key, **{name: values[placeholder] for name, placeholder in given.items()}}

    def is_applied(self, item: AttributeMap, values: Mapping[str, AttributeValue]) -> bool:
        return (
            all(
                name in item and equal_values(item[name], values[placeholder])
                for name, placeholder in self.sets.items()
            )
            and not any(name in item for name in self.removes)
            and all(
                _members(item, name) >= set(values[placeholder]["SS"])
                for name, placeholder in self.adds.items()
            )
            and all(
                _members(item, name).isdisjoint(values[placeholder]["SS"])
                for name, placeholder in self.deletes.items()
            )
        )


def update_actions(update: Update, to: Placeholders) -> UpdateActions:
    sets = _operands(update.assigned, to)
    emptied = tuple(name for name in update.assigned if name not in sets)
    return UpdateActions(
        sets, (*update.remove, *emptied), _operands(update.added, to), _operands(update.taken, to)
    )


def _operands(operands: Mapping[str, Operand], to: Placeholders) -> dict[str, str]:
    placeholders = {name: to.operand(operand) for name, operand in operands.items()}
    return {
        name: placeholder for name, placeholder in placeholders.items() if placeholder is not None
    }


def _members(item: AttributeMap, name: str) -> set[str]:
    return set(item.get(name, {}).get("SS", ()))
