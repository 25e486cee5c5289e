"""Conditions as DynamoDB's condition expressions.

The one rule: an expired item is judged as if there were none, by the clock of the caller.

DynamoDB's own judgement of a comparison is the one that :mod:`keytables.expressions` asks for: it
is false for an absent attribute and for one of another kind. ``!=`` is written as ``NOT … = …``.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from keytables.dynamodb.codec import Wire, wire
from keytables.errors import SchemaError
from keytables.expressions import And, Compare, Condition, Exists, Not, Operand, Or, Param
from keytables.schema import Table

__all__ = [
    "Alias",
    "has_order",
    "holds_on_nothing",
    "of_beginning",
    "of_update",
    "of_write",
    "text_of",
]

NOW: Final = ":now"
"""The placeholder of the time at which a request is sent."""

_ZERO: Final = ":zero"

# How tightly a text binds; one is put into parentheses where it stands in a tighter place. (Two
# pairs around one thing are an error in DynamoDB.)
_OR, _AND, _NOT = 0, 1, 2


class Alias:
    """The placeholders of one request: a name can be any text, so none is written out.

    ``empty``: the parameters that stand for the empty set in this request. It cannot be sent, and
    nothing stored equals it.
    """

    def __init__(self, empty: AbstractSet[str] = frozenset()) -> None:
        self.empty = empty
        self.names: dict[str, str] = {}
        self.params: dict[str, str] = {}
        self.literals: dict[str, Wire] = {}
        self.now = False

    def name(self, attribute: str) -> str:
        """Return the placeholder of an attribute."""
        return self.names.setdefault(attribute, f"#{len(self.names)}")

    def operand(self, operand: Operand) -> str | None:
        """Return the placeholder of a parameter or a literal, ``None`` for the empty set."""
        if isinstance(operand, Param):
            if operand.name in self.empty:
                return None
            return self.params.setdefault(operand.name, f":{len(self.params)}")
        sent = wire(operand, "a literal")
        return None if sent is None else self.literal(f":l{len(self.literals)}", sent)

    def literal(self, placeholder: str, sent: Wire) -> str:
        """Have a value of our own in the request."""
        self.literals[placeholder] = sent
        return placeholder


def text_of(condition: Condition, alias: Alias, place: int = _OR) -> str:
    """Return the text of a condition, as if nothing ever expired."""
    match condition:
        case Exists(attribute):
            return f"attribute_exists({alias.name(attribute)})"
        case Not(Exists(attribute)):
            return f"attribute_not_exists({alias.name(attribute)})"
        case Not(Not(inner)):
            return text_of(inner, alias, place)
        case Compare(attribute, "!=", operand):
            return text_of(Not(Compare(attribute, "==", operand)), alias, place)
        case Not(Compare(attribute, "!=", operand)):
            return text_of(Compare(attribute, "==", operand), alias, place)
        case Not(inner):
            return f"NOT {text_of(inner, alias, _NOT)}"
        case And(left, right):
            joined = f"{text_of(left, alias, _AND)} AND {text_of(right, alias, _AND)}"
            return _within(joined, _AND, place)
        case Or(left, right):
            joined = f"{text_of(left, alias, _OR)} OR {text_of(right, alias, _OR)}"
            return _within(joined, _OR, place)
        case Compare():
            return _comparison(condition, alias, place)
    raise SchemaError(f"not a condition: {condition!r}")


def _comparison(compare: Compare, alias: Alias, place: int) -> str:
    name, operator = alias.name(compare.attribute), compare.operator
    operand = alias.operand(compare.operand)
    if operator == "==":
        if operand is not None:
            return f"{name} = {operand}"
        return _within(f"attribute_exists({name}) AND attribute_not_exists({name})", _AND, place)
    known = None if operand is None else alias.literals.get(operand)
    if operand is None or (known is not None and not has_order(known)):
        raise SchemaError(f"{compare.attribute!r}: only numbers, text and bytes have an order")
    return f"{name} {operator} {operand}"


def has_order(sent: Wire) -> bool:
    """Whether a value may be the operand of an ordering."""
    return not sent.keys().isdisjoint(("S", "N", "B"))


def holds_on_nothing(condition: Condition | None) -> bool:
    """Whether a condition holds where there is no item; none always does."""
    match condition:
        case Not(inner):
            return not holds_on_nothing(inner)
        case And(left, right):
            return holds_on_nothing(left) and holds_on_nothing(right)
        case Or(left, right):
            return holds_on_nothing(left) or holds_on_nothing(right)
        case Compare():
            return condition.operator == "!="
    return condition is None


def of_write(table: Table, condition: Condition, alias: Alias) -> str:
    """Return the condition of a put or delete."""
    if table.expiry is None:
        return text_of(condition, alias)
    if holds_on_nothing(condition):
        return f"{_dead(table, alias)} OR {text_of(condition, alias)}"
    return f"{_alive(table, alias)} AND {text_of(condition, alias, _AND)}"


def of_update(
    table: Table, condition: Condition | None, alias: Alias, *, creates: bool
) -> str | None:
    """Return the condition of an update, if it needs one: it changes nothing that has expired, and
    makes no item by only taking away.
    """
    found: list[str] = []
    if table.expiry is not None:
        found.append(_alive(table, alias))
    if not creates:
        found.append(f"attribute_exists({alias.name(table.partition.name)})")
    if condition is not None:
        found.append(text_of(condition, alias, _AND if found else _OR))
    return " AND ".join(found) or None


def of_beginning(table: Table, alias: Alias) -> str:
    """Return the condition that there is no item, or only an expired one."""
    return f"attribute_not_exists({alias.name(table.partition.name)}) OR {_dead(table, alias)}"


def _alive(table: Table, alias: Alias) -> str:
    return f"NOT ({_dead(table, alias)})"


def _dead(table: Table, alias: Alias) -> str:
    # False where the attribute is absent or no number, as it should be.
    assert table.expiry is not None
    name = alias.name(table.expiry)
    alias.now = True
    return f"{name} > {alias.literal(_ZERO, {'N': '0'})} AND {name} <= {NOW}"


def _within(text: str, own: int, place: int) -> str:
    return f"({text})" if own < place else text
