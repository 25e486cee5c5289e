"""A bounded map of recently used keys that forgets whole generations, without a search."""

from collections.abc import Callable, Hashable, ItemsView
from typing import Generic, TypeVar

Value = TypeVar("Value")


class RecentlyUsed(Generic[Value]):
    """Values of at most `max_keys` keys. Those used longest ago are forgotten; at least the last
    `max_keys // 2` stay cached.

    Hot paths read `newest` themselves and call `recall` only for a key that is not there.
    """

    __slots__ = ("_generation", "_older", "newest")

    def __init__(self, max_keys: int) -> None:
        self._generation = max(1, max_keys // 2)
        self._older: dict[Hashable, Value] = {}
        self.newest: dict[Hashable, Value] = {}

    def __len__(self) -> int:
        return len(self.newest) + len(self._older)

    def recall(self, key: Hashable, default: Value) -> Value:
        """Move a key that is not in `newest` there, with its value or else the default."""
        if len(self.newest) >= self._generation:
            self._older, self.newest = self.newest, {}
        value = self.newest[key] = self._older.pop(key, default)
        return value

    def keep(self, key: Hashable, value: Value) -> None:
        """Set a value, and mark the key as used."""
        self.recall(key, value)
        self.newest[key] = value

    def find(self, key: Hashable) -> Value | None:
        """The value of a key, which is marked as used; None if it is not cached."""
        value = self.newest.get(key)
        if value is None and (value := self._older.get(key)) is not None:
            self.recall(key, value)
        return value

    def items(self) -> ItemsView[Hashable, Value]:
        return {**self._older, **self.newest}.items()

    def replace_each(self, change: Callable[[Value], Value]) -> None:
        for values in (self._older, self.newest):
            values.update({key: change(value) for key, value in values.items()})

    def forget(self, key: Hashable) -> None:
        self.newest.pop(key, None)
        self._older.pop(key, None)
