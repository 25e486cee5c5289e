"""A bounded cache for the hot path.

Rule: a hit in the young generation is one dictionary look-up; the bound always holds.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class GenerationCache(Generic[K, V]):
    """Keeps at most ``size`` entries, and of those at least the ``size // 2`` used last.

    Two dictionaries take the place of an order: when the young one holds half the size it becomes
    the old one, and the old one, with what nobody asked for meanwhile, is dropped. Threads may
    share it: a race loses an entry to be made again, never more.
    """

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, size: int) -> None:
        if size < 2:
            raise ValueError(f"cache size must be at least 2, not {size}")
        self._half = size // 2
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        value = self._young.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._half:
            self._old = self._young
            self._young = {}
        self._young[key] = value

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())
