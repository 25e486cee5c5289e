"""Secondary indexes: dropped during a bulk load, and created where they are missing.

Rule: results never depend on whether an index exists. A process that opens a table whose indexes
are missing creates them, unless the one that dropped them is alive: then that one will.

Updating an index for every row of a bulk load costs several times what creating the index
afterwards does: the rows arrive in another order, and each of them changes another page.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import apsw

from keytables.errors import Unavailable
from keytables.sqlite.database import Database, translate
from keytables.sqlite.locks import FileLock
from keytables.sqlite.statements import Statements
from keytables.sqlite.write_queue import RunFunction, WriteQueue

__all__ = ["Indexes"]


class Indexes:
    """The indexes of all tables of one file. One table is loaded at a time."""

    __slots__ = ("_lock", "_queue", "_reader")

    def __init__(self, database: Database, queue: WriteQueue) -> None:
        self._reader, self._queue = database.reader, queue
        self._lock = FileLock(f"{database.path}-indexes")

    async def create_missing(self, statements: Statements) -> None:
        """Create the missing indexes, unless a table is being loaded or they are being created."""
        if self._missing(statements) and self._try_acquire():
            try:
                await self._create(statements)
            finally:
                self._lock.release()

    @asynccontextmanager
    async def loading(self, statements: Statements) -> AsyncIterator[None]:
        """See ``TableHandle.loading``. After an error inside, the next process that opens the table
        creates the indexes.
        """
        if not self._try_acquire():
            yield
            return
        try:
            if not await self._run(statements, partial(_drop_if_empty, statements)):
                await self._create(statements)
            yield
            await self._create(statements)
        finally:
            self._lock.release()

    def _try_acquire(self) -> bool:
        try:
            return self._lock.try_acquire()
        except OSError as error:
            raise Unavailable(f"cannot open a lock file: {error.strerror}") from error

    def _missing(self, statements: Statements) -> list[str]:
        """Return the statements that create the missing ones."""
        if not statements.indexes:
            return []
        try:
            rows = self._reader.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")
            existing = {name for (name,) in rows}
        except apsw.Error as error:
            raise translate(error, statements.table.name) from error
        return [sql for name, sql in statements.indexes.items() if name not in existing]

    async def _create(self, statements: Statements) -> None:
        """Create them one by one, so that other processes can write in between."""
        for sql in self._missing(statements):
            await self._run(statements, partial(_execute, sql))

    async def _run(self, statements: Statements, function: Callable[[apsw.Cursor], bool]) -> bool:
        operation = RunFunction(function, table=statements.table.name, is_slow=True)
        result: bool = await self._queue.submit(operation)
        return result


def _execute(sql: str, cursor: apsw.Cursor) -> bool:
    cursor.execute(sql)
    return True


def _drop_if_empty(statements: Statements, cursor: apsw.Cursor) -> bool:
    if cursor.execute(statements.any_row).get:
        return False
    for sql in statements.drop_indexes:
        cursor.execute(sql)
    return True
