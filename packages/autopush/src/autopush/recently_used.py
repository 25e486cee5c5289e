"""A bounded memory of what was used last, by key. No use of it takes longer than any other: old
keys are forgotten in whole generations, and nothing is searched for.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class RecentlyUsed(Generic[Value]):
    """Values of at most `max_keys` keys; those used longest ago are forgotten, in whole
    generations. The last `max_keys // 2` keys are always known.

    Callers that cannot spare a call look into `newest` themselves and call `recall` only for a key
    that is not there.
    """

    __slots__ = ("_generation", "_older", "newest")

    def __init__(self, max_keys: int) -> None:
        self._generation = max(1, max_keys // 2)
        self._older: dict[Hashable, Value] = {}
        self.newest: dict[Hashable, Value] = {}

    def __len__(self) -> int:
        return len(self.newest) + len(self._older)

    def recall(self, key: Hashable, default: Value) -> Value:
        """Note that a key which is not in `newest` is used: its value, or the default, is from now
        on.
        """
        if len(self.newest) >= self._generation:
            self._older, self.newest = self.newest, {}
        value = self.newest[key] = self._older.pop(key, default)
        return value

    def keep(self, key: Hashable, value: Value) -> None:
        """Set the value of a key, which is used by that."""
        self.recall(key, value)
        self.newest[key] = value

    def find(self, key: Hashable) -> Value | None:
        """The value of a key, which is used by that; None of one that is not known."""
        value = self.newest.get(key)
        if value is None and (value := self._older.get(key)) is not None:
            self.recall(key, value)
        return value

    def forget(self, key: Hashable) -> None:
        """Remove a key, if it is known."""
        self.newest.pop(key, None)
        self._older.pop(key, None)
