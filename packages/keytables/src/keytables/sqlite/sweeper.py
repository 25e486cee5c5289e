"""Removal of expired items.

Rule: it delays no other write. Expired items are hidden from reads already, so they are deleted a
few at a time, between other writes, and at different times by processes that share a file
(:mod:`keytables.sweeper`). The loop still runs between two of its writes.
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Final, cast

import apsw

from keytables.engine import Clock
from keytables.errors import StorageFull, StoreClosed, Unavailable
from keytables.sqlite.reader import Reader
from keytables.sqlite.statements import Statements
from keytables.sqlite.write_queue import RunFunction, WriteQueue

SWEEP_ROWS: Final = 50
"""Rows of one write: about 0.3 ms."""

SWEEP_WRITES: Final = 4
"""Writes submitted together: about 1.5 ms of a transaction."""

_MAX_KEPT: Final = 1000
"""Rows that cannot be deleted, after which a sweep of their table ends."""


class ExpiredItems:
    """The expired items of all open tables (``tables``, by name).

    Once a write failed in a table, its rows are deleted one by one: those in a damaged page stay,
    and do not keep the others from being deleted.
    """

    def __init__(self, queue: WriteQueue, reader: Reader, clock: Clock) -> None:
        self._queue, self._reader, self._clock = queue, reader, clock
        self.tables: dict[str, Statements] = {}
        self.removed = Counter[str]()
        """Items, by table."""
        self._failing: dict[Statements, set[int]] = {}
        """Tables in which a write failed, to the ids of rows that cannot be deleted."""

    async def remove_all(self) -> int:
        total = 0
        while count := await self.remove_some():
            total += count
        return total

    async def remove_some(self) -> int:
        """Remove at most ``SWEEP_ROWS * SWEEP_WRITES`` of one table; return how many."""
        for statements in list(self.tables.values()):
            if statements.table.expiry is not None and (count := await self._remove(statements)):
                self.removed[statements.table.name] += count
                return count
        return 0

    async def _remove(self, statements: Statements) -> int:
        if statements in self._failing:
            return await self._remove_singly(statements)
        name, now, connection = statements.table.name, self._clock(), self._reader.connection
        sql = statements.any_expired
        if not await self._reader.retry(lambda: connection.execute(sql, (now,)).get, name):
            return 0

        def delete(cursor: apsw.Cursor) -> int:
            cursor.execute(statements.delete_expired, (now, SWEEP_ROWS))
            return cursor.connection.changes()

        operations = [RunFunction(delete, table=name) for _ in range(SWEEP_WRITES)]
        try:
            return sum(await asyncio.gather(*map(self._queue.submit, operations)))
        except (StorageFull, StoreClosed):
            raise
        except Unavailable:  # reported by the writer
            self._failing[statements] = set()
            return await self._remove_singly(statements)

    async def _remove_singly(self, statements: Statements) -> int:
        """Remove each row by its own write, until some are removed or none are left."""
        name, now, connection = statements.table.name, self._clock(), self._reader.connection
        kept = self._failing[statements]
        while len(kept) < _MAX_KEPT:
            values = (now, len(kept) + SWEEP_ROWS)
            sql = statements.expired_ids
            select = partial(_column, connection, sql, values)
            ids = [
                number for number in await self._reader.retry(select, name) if number not in kept
            ]
            deletes = [partial(_delete_id, statements, number, now) for number in ids]
            writes = [self._queue.submit(RunFunction(delete, table=name)) for delete in deletes]
            results = await asyncio.gather(*writes, return_exceptions=True)
            kept.update(
                number
                for number, result in zip(ids, results, strict=True)
                if isinstance(result, BaseException)
            )
            if removed := sum(count for count in results if isinstance(count, int)):
                return removed
            if not ids:
                break
        del self._failing[statements]  # the next sweep tries them again
        return 0


def _column(connection: apsw.Connection, sql: str, values: tuple[float, int]) -> list[int]:
    return [cast(int, number) for (number,) in connection.execute(sql, values)]


def _delete_id(statements: Statements, number: int, now: float, cursor: apsw.Cursor) -> int:
    cursor.execute(statements.delete_expired_id, (now, number))
    return cursor.connection.changes()
