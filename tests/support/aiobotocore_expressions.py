"""Values, conditions and updates in DynamoDB's form, for the reference engine.

Independent of the engine that it is a reference for: boto3 encodes the values, and everything else
is written out for each request.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal, DecimalException
from typing import Any, cast

from boto3.dynamodb.types import Binary, TypeDeserializer, TypeSerializer

from keytables import Condition, Item, Param, SchemaError, Update, Value, Values
from keytables.checks import snapshot
from keytables.expressions import And, Compare, Exists, Not, Operand, Or

AttributeValue = dict[str, Any]
"""A value in DynamoDB's form: `{"S": "text"}`."""

INT64 = 2**63


class _Deserializer(TypeDeserializer):
    def _deserialize_n(self, value: str) -> Decimal:
        return Decimal(value)  # boto3's own refuses large numbers that are written out


_serializer = TypeSerializer()
_deserializer = _Deserializer()


def encode_value(value: Value) -> AttributeValue:
    try:
        return dict(_serializer.serialize(_boto(value)))
    except (DecimalException, UnicodeEncodeError) as error:
        raise SchemaError(f"cannot be stored: {type(error).__name__}") from None


def encode_item(item: Mapping[str, Value]) -> dict[str, AttributeValue]:
    return {name: encode_value(value) for name, value in item.items()}


def decode_value(encoded: Any) -> Value:
    return _ours(_deserializer.deserialize(encoded))


def decode_item(encoded: Mapping[str, Any]) -> Item:
    return {name: decode_value(value) for name, value in encoded.items()}


def _boto(value: Value) -> Any:
    """The value as boto3 takes it."""
    if isinstance(value, str):
        value.encode()
        return value
    if isinstance(value, bool | bytes | None):
        return value
    if isinstance(value, int):
        if not -INT64 <= value < INT64:
            raise SchemaError("an integer has 64 bits")
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < INT64 else Decimal(repr(value))
    if isinstance(value, Mapping):
        return {_boto(name): _boto(inner) for name, inner in value.items()}
    if isinstance(value, AbstractSet):
        return {_boto(member) for member in value}
    return [_boto(inner) for inner in value]


def _ours(value: Any) -> Value:
    """A value of boto3 in the types of keytables."""
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and -INT64 <= value < INT64
        return int(value) if whole else float(value)
    if isinstance(value, Binary):
        return cast(bytes, value.value)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {name: _ours(inner) for name, inner in value.items()}
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, list):
        return [_ours(inner) for inner in value]
    return value  # type: ignore[no-any-return]


def holds_for_missing_item(condition: Condition) -> bool:
    """Whether the condition holds where there is no item."""
    match condition:
        case And(left, right):
            return holds_for_missing_item(left) and holds_for_missing_item(right)
        case Or(left, right):
            return holds_for_missing_item(left) or holds_for_missing_item(right)
        case Not(inner):
            return not holds_for_missing_item(inner)
        case Compare():
            return condition.operator == "!="
    return False


class Expressions:
    """The expressions of one request, with the names and values they use."""

    def __init__(self, values: Values | None) -> None:
        self._given = values or {}
        self._names: dict[str, str] = {}
        self._values: dict[str, AttributeValue] = {}

    def arguments(self, **expressions: str) -> dict[str, Any]:
        """Arguments of the call; empty expressions are left out."""
        found: dict[str, Any] = {name: text for name, text in expressions.items() if text}
        if self._names:
            found["ExpressionAttributeNames"] = {short: name for name, short in self._names.items()}
        if self._values:
            found["ExpressionAttributeValues"] = self._values
        return found

    def name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def value(self, value: Value) -> str:
        short = f":v{len(self._values)}"
        self._values[short] = encode_value(value)
        return short

    def resolved(self, operand: Operand) -> Value:
        if not isinstance(operand, Param):
            return snapshot(operand, "a literal")
        try:
            return self._given[operand.name]
        except KeyError:
            raise SchemaError(f"no value for the parameter {operand.name!r}") from None

    def condition(self, condition: Condition) -> str:
        match condition:
            case And(left, right):
                return f"({self.condition(left)} AND {self.condition(right)})"
            case Or(left, right):
                return f"({self.condition(left)} OR {self.condition(right)})"
            case Not(inner):
                return f"(NOT {self.condition(inner)})"
            case Exists(attribute):
                return f"attribute_exists({self.name(attribute)})"
            case Compare():
                return self._comparison(condition)
        raise SchemaError(f"not a condition: {condition!r}")

    def _comparison(self, compare: Compare) -> str:
        name, value = self.name(compare.attribute), self.resolved(compare.operand)
        if compare.operator in ("==", "!="):
            if value == frozenset():  # is never stored
                same = f"(attribute_exists({name}) AND attribute_not_exists({name}))"
            else:
                same = f"({name} = {self.value(value)})"
            return same if compare.operator == "==" else f"(NOT {same})"
        if isinstance(value, bool) or not isinstance(value, str | int | float | bytes):
            raise SchemaError("only numbers, text and bytes have an order")
        return f"({name} {compare.operator} {self.value(value)})"

    def expired(self, attribute: str, now: float) -> str:
        name = self.name(attribute)
        return f"({name} > {self.value(0)} AND {name} <= {self.value(now)})"


class Change:
    """An update with its values."""

    def __init__(self, update: Update, values: Values) -> None:
        self.creates = update.creates
        self.values = values
        resolved = Expressions(values).resolved
        self.assigned = {name: resolved(operand) for name, operand in update.assigned.items()}
        self.added = {name: resolved(operand) for name, operand in update.added.items()}
        self._taken = {name: resolved(operand) for name, operand in update.taken.items()}
        emptied = [name for name, value in self.assigned.items() if value == frozenset()]
        self._removed = [*update.remove, *emptied]
        self.names = {*self.assigned, *update.remove, *self.added, *self._taken}
        for members in (*self.added.values(), *self._taken.values()):
            if not isinstance(members, frozenset):
                raise SchemaError("a set operation takes a set")

    @property
    def new_attributes(self) -> Item:
        """The attributes of an item that the update creates."""
        new = self.assigned | self.added
        return {name: value for name, value in new.items() if value != frozenset()}

    def expression(self, expressions: Expressions) -> str:
        def terms(of: Mapping[str, Value], between: str) -> list[str]:
            return [
                f"{expressions.name(name)}{between}{expressions.value(value)}"
                for name, value in of.items()
                if value != frozenset()
            ]

        clauses = {
            "SET": terms(self.assigned, " = "),
            "REMOVE": [expressions.name(name) for name in self._removed],
            "ADD": terms(self.added, " "),
            "DELETE": terms(self._taken, " "),
        }
        return " ".join(f"{word} {', '.join(found)}" for word, found in clauses.items() if found)
