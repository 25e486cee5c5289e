"""The exceptions of tables and engines.

Rule: an engine raises nothing else; errors of its database are translated into these.

    KeytablesError
    ├── ConditionFailed     the condition of the write did not hold; nothing was changed
    ├── ItemTooLarge        the item is above 400 KB; nothing was changed
    ├── Throttled           too many writes are waiting, or a lock was not obtained in time; retry
    │   └── OutOfReach      the database cannot be reached, or does not answer; retry
    ├── Unavailable         the engine cannot serve: I/O error, no connection, not a database
    │   ├── Unconfirmed     the write may have been applied, or may be yet: no answer came in time
    │   ├── AccessRefused   a permission is missing
    │   ├── StoreClosed     the engine was closed
    │   ├── StorageFull     there is no space for the write; nothing was changed
    │   └── StoreDamaged    what is stored cannot be read
    └── SchemaError         a mistake in the call: key type, empty key, unknown index or parameter
        └── TableNotFound   the table was never created, or was dropped
"""

from keytables.values import Item


class KeytablesError(Exception):
    """Base class of all of them."""


class ConditionFailed(KeytablesError):  # noqa: N818 - as DynamoDB's ConditionalCheckFailed
    """``item``: the stored item that the condition was evaluated on; None: absent or expired."""

    def __init__(self, item: Item | None = None) -> None:
        super().__init__("the condition of the write does not hold")
        self.item = item


class ItemTooLarge(KeytablesError):  # noqa: N818
    """``size`` is None where only the database knows it."""

    def __init__(self, size: int | None, limit: int) -> None:
        actual = "more" if size is None else str(size)
        super().__init__(f"the item has {actual} bytes, the limit is {limit}")
        self.size = size
        self.limit = limit


class Throttled(KeytablesError):  # noqa: N818
    """The engine cannot take it now; the write was not applied and can be retried later."""


class OutOfReach(Throttled):
    """No connection, or no answer in time: it is not the load of this caller."""


class Unavailable(KeytablesError):  # noqa: N818
    """The engine cannot serve. Whether a write was applied is not known."""


class Unconfirmed(Unavailable):
    """The write was sent, and may have been applied, or may be yet: a later read may not see it."""


class AccessRefused(Unavailable):
    """``operation``: the database's name of it; ``table``: the table concerned, if any;
    ``right``: the one that is missing, as the database names it.
    """

    def __init__(self, operation: str, table: str | None = None, right: str = "") -> None:
        place = f" on table {table!r}" if table else ""
        self.right = right or f"dynamodb:{operation}"
        super().__init__(f"{operation}{place} is refused: the right {self.right} is needed")
        self.operation = operation
        self.table = table


class StoreClosed(Unavailable):
    """The engine was closed."""


class StorageFull(Unavailable):
    """There is no space for the write; nothing was changed. It can be retried when there is."""


class StoreDamaged(Unavailable):
    """Some or all of the stored data can be neither read nor overwritten."""


class SchemaError(KeytablesError):
    """A key, value, index, parameter or declaration is not valid: a mistake in the call."""


class TableNotFound(SchemaError):  # noqa: N818
    def __init__(self, table: str) -> None:
        super().__init__(f"table {table!r} does not exist")
        self.table = table
