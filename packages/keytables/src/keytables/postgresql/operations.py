"""The kinds of writes, and what several to one item leave together.

Rule: a write that needs the stored item is guarded by the version that it was evaluated on; if
another process changed the row meanwhile, it is evaluated again. Nothing here waits or does I/O.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from keytables.commit.conditional import Action, evaluated
from keytables.commit.writes import DELETE_SIZE, Operation
from keytables.engine import WriteOptions
from keytables.errors import KeytablesError
from keytables.packing import unpack
from keytables.postgresql.columns import ITEM, NUMBER, Row
from keytables.postgresql.statements import Change
from keytables.values import Item, KeyTuple


@dataclass(slots=True)
class Stored:
    """A row as it was read. ``version``: the transaction that wrote it (``xmin``)."""

    packed: bytes
    expires: float | None
    version: int

    def is_live(self, now: float) -> bool:
        return self.expires is None or self.expires > now


class ItemState:
    """An item while operations are applied to it, one after the other: a
    :class:`keytables.commit.conditional.StoredItem`.
    """

    __slots__ = ("_item", "is_changed", "key", "packed", "row")

    def __init__(self, key: KeyTuple, packed: bytes | None) -> None:
        self.key, self.packed = key, packed
        self._item: Item | None = None
        self.row: Row | None = None
        self.is_changed = False

    @property
    def item(self) -> Item | None:
        if self._item is None and self.packed is not None:
            self._item = unpack(self.packed)
        return self._item

    def put(self, row: Row) -> None:
        self.row, self.packed, self._item = row, cast(bytes, row[ITEM]), None
        self.is_changed = True

    def replace(self, row: Row) -> bytes:
        if row[ITEM] != self.packed:
            self.put(row)
        return cast(bytes, row[ITEM])

    def delete(self) -> None:
        self.row = self.packed = self._item = None
        self.is_changed = True


class ItemOperation(Operation):
    """A write to one item."""

    __slots__ = ()

    needs_stored = False
    """Whether the stored item decides what it does, or is its result."""

    @abstractmethod
    def apply(self, state: ItemState) -> object:
        """Change the state and return the result, or raise and change nothing."""


class UnconditionalPut(ItemOperation):
    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.size, self.waiters = len(cast(bytes, row[ITEM])), None
        self.row = row

    def apply(self, state: ItemState) -> object:
        state.put(self.row)
        return None


class UnconditionalDelete(ItemOperation):
    __slots__ = ()

    def __init__(self) -> None:
        self.size, self.waiters = DELETE_SIZE, None

    def apply(self, state: ItemState) -> object:
        state.delete()
        return None


class ReadingOperation(ItemOperation):
    """A conditional write."""

    __slots__ = ("_action", "argument", "condition", "returning", "values")

    needs_stored = True

    def __init__(
        self, size: int, options: WriteOptions, action: Action, argument: object = None
    ) -> None:
        self.size, self.waiters = size, None
        self.condition, self.values, self.returning = evaluated(options)
        self._action, self.argument = action, argument

    def apply(self, state: ItemState) -> object:
        return self._action(self, state)


UNREAD: Final = object()
"""In place of what is stored: no operation needs it."""


RowChange: TypeAlias = tuple[Change, tuple[object, ...], int]
"""What the operations on an item do to its row: the values that the statement takes, and the number
by which it says that the guard held; 0 without a guard."""


def fold(
    operations: Sequence[ItemOperation],
    key: KeyTuple,
    encode_key: Callable[[KeyTuple], tuple[object, ...]],
    stored: object,
    now: float,
    new_number: Callable[[], int],
) -> RowChange | None:
    """Apply operations in order, setting the result or error of each; return the change of the row.

    ``stored``: the row as it was read, or UNREAD if the first operation does not need it.
    """
    if stored is UNREAD and len(operations) == 1:  # most writes: the item does not matter
        [operation] = operations
        operation.result = operation.error = None
        if type(operation) is UnconditionalPut:
            return Change.PUT, operation.row, 0
        return Change.DELETE, encode_key(key), 0
    old = stored if isinstance(stored, Stored) else None
    state = ItemState(key, old.packed if old is not None and old.is_live(now) else None)
    for operation in operations:
        operation.result = operation.error = None
        try:
            operation.result = operation.apply(state)
        except KeytablesError as error:
            operation.error = error
    if not state.is_changed:
        return None
    row = state.row
    if stored is UNREAD:
        return (Change.DELETE, encode_key(key), 0) if row is None else (Change.PUT, row, 0)
    if row is None:
        if old is None:
            return None
        number = new_number()
        return Change.REMOVE, (*encode_key(key), old.version, number), number
    number = cast(int, row[NUMBER])
    if old is None:
        return Change.INSERT, row, number
    return Change.REPLACE, (*row, old.version), number
