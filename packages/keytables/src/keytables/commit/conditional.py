"""The writes that the stored item decides about: what they do to it, and their results.

Rule: the condition is evaluated on the item as it is when the write is applied, after all writes
submitted before. A write whose condition fails changes nothing.

They are functions of the write and the item, not classes: each engine has one class of such writes,
and an object beside it costs a tenth of a write.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from keytables.checks import snapshot_all
from keytables.engine import WriteOptions
from keytables.errors import ConditionFailed
from keytables.expressions import Change, Predicate, Returning, compile_condition
from keytables.packing import unpack
from keytables.values import Item, KeyTuple, Values


class StoredItem(Protocol):
    """The item with ``key`` while a write is applied to it; ``item`` is not to be changed, and None
    if it is absent or expired. Rows are those of the engine.
    """

    @property
    def key(self) -> KeyTuple: ...

    @property
    def item(self) -> Item | None: ...

    def put(self, row: Any, /) -> object: ...

    def replace(self, row: Any, /) -> bytes:
        """Put the row unless that leaves the same item; return the item as it is stored."""

    def delete(self) -> object: ...


class ConditionalWrite(Protocol):
    """``condition``, ``values`` and ``returning`` are :func:`evaluated`. ``argument``: the row of a
    put, or an `ItemChange`.
    """

    condition: Predicate | None
    values: Values
    returning: Returning
    argument: Any


class ItemChange(NamedTuple):
    """An update of one table, compiled once. ``change`` and ``creates``: of
    :func:`keytables.expressions.compile_update`; ``encode``: returns key and row of an item.
    """

    change: Change
    creates: bool
    key_names: tuple[str, ...]
    encode: Callable[[Item], tuple[KeyTuple, Any]]


Action: TypeAlias = Callable[[ConditionalWrite, StoredItem], Item | None]
"""Changes the item and returns the result of the write, or raises and changes nothing."""


def evaluated(options: WriteOptions) -> tuple[Predicate | None, Values, Returning]:
    """Return what decides about a write, as it is at the time of submission."""
    condition = options.condition
    predicate = None if condition is None else compile_condition(condition)
    return predicate, snapshot_all(options.values), options.returning


def conditional_put(write: ConditionalWrite, stored: StoredItem) -> Item | None:
    item, condition = stored.item, write.condition
    if condition is not None and not condition(item or {}, write.values):
        raise _failed(item)
    stored.put(write.argument)
    return None


def conditional_delete(write: ConditionalWrite, stored: StoredItem) -> Item | None:
    item, condition = stored.item, write.condition
    if condition is not None and not condition(item or {}, write.values):
        raise _failed(item)
    stored.delete()
    return item if write.returning is Returning.OLD else None


def conditional_update(write: ConditionalWrite, stored: StoredItem) -> Item | None:
    old, condition = stored.item, write.condition
    if condition is not None and not condition(old or {}, write.values):
        raise _failed(old)
    change, creates, key_names, encode = write.argument
    if old is not None:
        item = old.copy()
    elif creates:
        item = dict(zip(key_names, stored.key, strict=True))
    else:
        return None
    change(item, write.values)
    packed = stored.replace(encode(item)[1])
    if write.returning is Returning.NEW:
        return unpack(packed)
    return old if write.returning is Returning.OLD else None


def _failed(item: Item | None) -> ConditionFailed:
    return ConditionFailed(None if item is None else item.copy())
