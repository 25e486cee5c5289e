"""Tables with a partition key and an optional sort key, on SQLite, DynamoDB or PostgreSQL.

Rule: code written against :class:`Engine` and :class:`TableHandle` behaves the same on every
engine. Declare tables (:mod:`keytables.schema`) and the conditions and updates of writes
(:mod:`keytables.expressions`) as data, open an engine by its URL (:mod:`keytables.stores`), and
catch the exceptions of :mod:`keytables.errors`.
"""

from keytables.engine import Clock, Engine, OnFailure, TableHandle
from keytables.errors import (
    AccessRefused,
    ConditionFailed,
    ItemTooLarge,
    KeytablesError,
    OutOfReach,
    SchemaError,
    StorageFull,
    StoreDamaged,
    TableNotFound,
    Throttled,
    Unavailable,
    Unconfirmed,
)
from keytables.expressions import Attr, Condition, Param, Returning, Update
from keytables.schema import Capacity, Cursor, Index, Key, Kind, Page, Range, Table
from keytables.stores import open_engine
from keytables.values import MAX_ITEM_SIZE, Item, KeyTuple, Scalar, Value, Values

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
    "OnFailure",
    "OutOfReach",
    "Page",
    "Param",
    "Range",
    "Returning",
    "Scalar",
    "SchemaError",
    "StorageFull",
    "StoreDamaged",
    "Table",
    "TableHandle",
    "TableNotFound",
    "Throttled",
    "Unavailable",
    "Unconfirmed",
    "Update",
    "Value",
    "Values",
    "open_engine",
]
