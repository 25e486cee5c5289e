"""A bounded queue in which keys take turns, so that one key's many entries delay no other key."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class FairQueue(Generic[Entry]):
    """Entries of one key are served in order, and keys one entry each in turn.

    `max_entries`: of all keys together; `max_of_key`: of one key, or None for no such limit.
    """

    __slots__ = ("_entries", "_length", "_max_entries", "_max_of_key")

    def __init__(self, max_entries: int, max_of_key: int | None = None) -> None:
        self._max_entries = max_entries
        self._max_of_key = max_entries if max_of_key is None else max_of_key
        self._entries: OrderedDict[str, deque[Entry]] = OrderedDict()  # the next key comes first
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, key: str, entry: Entry) -> bool:
        """False if the queue is full, or has too many entries of that key."""
        of_key = self._entries.get(key)
        if self._length >= self._max_entries or (
            of_key is not None and len(of_key) >= self._max_of_key
        ):
            return False
        if of_key is None:
            of_key = self._entries[key] = deque()
        of_key.append(entry)
        self._length += 1
        return True

    def take(self) -> Entry:
        """Remove and return the next entry.

        :raises KeyError: the queue is empty
        """
        key, of_key = self._entries.popitem(last=False)
        self._length -= 1
        entry = of_key.popleft()
        if of_key:
            self._entries[key] = of_key
        return entry
