"""Tables with a partition key and an optional sort key: one small interface, several engines.

The one rule: what is written against :class:`Engine` and :class:`TableHandle` runs the same on
every engine. Declare tables (:mod:`tablestore.schema`) and the conditions and updates of writes
(:mod:`tablestore.expressions`) as data; open an engine (:mod:`tablestore.stores`); every failure
is one of :mod:`tablestore.errors`.
"""

from tablestore.engine import Clock, Engine, TableHandle, Values
from tablestore.errors import (
    AccessRefused,
    ConditionFailed,
    ItemTooLarge,
    SchemaError,
    TableNotFound,
    TablestoreError,
    Throttled,
    Unavailable,
)
from tablestore.expressions import Attr, Condition, Param, Returning, Update
from tablestore.schema import (
    MAX_ITEM_SIZE,
    Capacity,
    Cursor,
    Index,
    Item,
    Key,
    KeyTuple,
    Kind,
    Page,
    Range,
    Scalar,
    Table,
    Value,
)

__all__ = [
    "MAX_ITEM_SIZE",
    "AccessRefused",
    "Attr",
    "Capacity",
    "Clock",
    "Condition",
    "ConditionFailed",
    "Cursor",
    "Engine",
    "Index",
    "Item",
    "ItemTooLarge",
    "Key",
    "KeyTuple",
    "Kind",
    "Page",
    "Param",
    "Range",
    "Returning",
    "Scalar",
    "SchemaError",
    "Table",
    "TableHandle",
    "TableNotFound",
    "TablestoreError",
    "Throttled",
    "Unavailable",
    "Update",
    "Value",
    "Values",
]
