"""What an item may hold: types and limits.

An item is a dict of attribute names to values, its key attributes among them. Values are those of
DynamoDB: text, numbers (integers within 64 bits; floats that are 0 or of a magnitude from 1e-130
to below 1e126), bytes, booleans, ``None``, lists, maps with text keys, and sets of text. Attribute
names and map keys are not empty. A whole float may be read back as an integer of equal value. A set
is read as a ``frozenset``; a ``set`` is accepted when written. DynamoDB has no empty set: writing
one removes the attribute.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias, Union

Scalar: TypeAlias = str | int | float | bytes
"""The value of a key attribute."""

# Recursive, so named in quotes; `|` does not take a quoted name at run time.
Value: TypeAlias = Union[  # noqa: UP007
    Scalar, bool, list["Value"], Mapping[str, "Value"], AbstractSet[str], None
]
"""The value of an attribute. At run time lists, dicts, sets and frozensets of the exact types."""

Item: TypeAlias = dict[str, Value]
"""Attribute names to values, the key attributes among them."""

KeyTuple: TypeAlias = tuple[Scalar, ...]
"""``(partition,)``, or ``(partition, sort)`` for a table with a sort key."""

Values: TypeAlias = Mapping[str, Value]
"""Values of the parameters of an expression, by name."""

MAX_ITEM_SIZE: Final = 400 * 1024
"""Bytes of names and values together, counted as DynamoDB does."""

MAX_DEPTH: Final = 32
"""Nesting levels of a value. The attribute's own value is level 1, its members are level 2."""

MAX_PARTITION_KEY: Final = 2048
"""Bytes of a partition key of text or bytes."""

MAX_SORT_KEY: Final = 1024
"""Bytes of a sort key of text or bytes."""
