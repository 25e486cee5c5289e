"""What can go wrong at a table, as one small tree.

The one rule: nothing engine-specific leaves an engine; every failure of a primitive is one of
these.

    KeytablesError
    ├── ConditionFailed     the write was refused by its own condition; nothing changed
    ├── ItemTooLarge        the item is above 400 KB; nothing was queued
    ├── Throttled           too much is waiting, or a lock was not obtained in time; try later
    ├── Unavailable         the engine cannot serve: disk full, I/O error, not a database, closed
    │   └── AccessRefused   the caller lacks a right
    └── SchemaError         the caller is at fault: key type, empty key, unknown index or parameter
        └── TableNotFound   the table was never made, or was dropped
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keytables.schema import Item

__all__ = [
    "AccessRefused",
    "ConditionFailed",
    "ItemTooLarge",
    "KeytablesError",
    "SchemaError",
    "TableNotFound",
    "Throttled",
    "Unavailable",
]


class KeytablesError(Exception):
    """Any failure of a table or engine."""


class ConditionFailed(KeytablesError):  # noqa: N818 - named for what happened
    """The condition of a write did not hold; nothing was changed.

    ``item`` is the item as it was stored when the condition was judged, ``None`` when there was
    none (or only an expired one).
    """

    def __init__(self, item: "Item | None" = None) -> None:
        super().__init__("the condition of the write does not hold")
        self.item = item


class ItemTooLarge(KeytablesError):  # noqa: N818
    """An item's names and values together are above the limit of 400 KB.

    ``size`` is ``None`` where only the database knows it.
    """

    def __init__(self, size: int | None, limit: int) -> None:
        held = "more" if size is None else str(size)
        super().__init__(f"the item has {held} bytes, the limit is {limit}")
        self.size = size
        self.limit = limit


class Throttled(KeytablesError):  # noqa: N818
    """The engine is over its limits now; the write was not applied and may be tried again later."""


class Unavailable(KeytablesError):  # noqa: N818
    """The engine cannot serve. For a write, it is not known to have been applied."""


class AccessRefused(Unavailable):
    """The database knows the caller and refuses the operation.

    ``operation`` is the database's name of it, ``table`` the one concerned, if it is one.
    """

    def __init__(self, operation: str, table: str | None = None) -> None:
        place = f" on table {table!r}" if table else ""
        super().__init__(f"{operation}{place} is refused: the right dynamodb:{operation} is needed")
        self.operation = operation
        self.table = table


class SchemaError(KeytablesError):
    """A key, value, index, parameter or declaration does not fit: a mistake in the call."""


class TableNotFound(SchemaError):  # noqa: N818
    """The table does not exist in the store."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table!r} does not exist")
        self.table = table
