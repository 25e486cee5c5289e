"""The rows of acked messages that are not known to be deleted yet.

Rule: what was acked on this node is not sent by it again, nor taken along to another table, however
long the store takes to delete it.
"""

import asyncio
from collections.abc import Iterable

from autopush.protocol.actions import Batch, Row


class Acked:
    """By user. There are as many as the jobs that delete them have."""

    def __init__(self) -> None:
        self._rows: dict[str, set[Row]] = {}
        self._waiters: dict[str, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def add(self, uaid: str, rows: Iterable[Row]) -> None:
        """These are about to be deleted."""
        self._rows.setdefault(uaid, set()).update(rows)

    def over(self, uaid: str, rows: Iterable[Row]) -> None:
        """These are deleted, or never will be."""
        left = self._rows.get(uaid)
        if left is not None:
            left.difference_update(rows)
            if not left:
                del self._rows[uaid]
                if uaid in self._waiters:
                    self._waiters.pop(uaid).set_result(None)

    async def none_left(self, uaid: str, seconds: float) -> None:
        """Wait until that user has none any more, but not longer than that."""
        if uaid in self._rows:
            if uaid not in self._waiters:
                self._waiters[uaid] = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._waiters[uaid]], timeout=seconds)

    def of(self, uaid: str) -> frozenset[Row]:
        """Those of that user as of now: ask before reading, as a delete may come between."""
        return frozenset(self._rows.get(uaid, ()))


def without(batch: Batch, acked: frozenset[Row]) -> Batch:
    """The page as it is without those rows."""
    if not acked:
        return batch
    messages = [stored for stored in batch.messages if stored.row not in acked]
    return Batch(messages, batch.last, batch.channels, batch.read_to)
