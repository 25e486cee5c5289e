"""Tables with a partition key and an optional sort key: one small interface, several engines.

The one rule: what is written against :class:`Engine` and :class:`TableHandle` runs the same on
every engine. Declare tables (:mod:`keytables.schema`) and the conditions and updates of writes
(:mod:`keytables.expressions`) as data; open an engine (:mod:`keytables.stores`); every failure
is one of :mod:`keytables.errors`.
"""

from keytables.engine import Clock, Engine, TableHandle, Values
from keytables.errors import (
    AccessRefused,
    ConditionFailed,
    ItemTooLarge,
    KeytablesError,
    SchemaError,
    TableNotFound,
    Throttled,
    Unavailable,
)
from keytables.expressions import Attr, Condition, Param, Returning, Update
from keytables.schema import (
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
    "KeytablesError",
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
    "Throttled",
    "Unavailable",
    "Update",
    "Value",
    "Values",
]
