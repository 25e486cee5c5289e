"""The declared indexes of a table: dropped while it is filled, and made when they are missing.

The one rule: an index is a matter of speed, never of meaning. Whoever opens a table whose indexes
are missing makes them, unless the one who dropped them is still alive and will.

To follow every row of a table that grows costs several times what making an index of the whole
does: its rows come in an order of their own, and each of them changes another page.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import apsw

from keytables.errors import Unavailable
from keytables.sqlite.database import Database, translate
from keytables.sqlite.locks import Claim
from keytables.sqlite.operations import Call
from keytables.sqlite.statements import Statements
from keytables.sqlite.writer import Writer

__all__ = ["Indexes"]


class Indexes:
    """Those of all tables of one file. One table is loaded at a time."""

    __slots__ = ("_claim", "_reader", "_writer")

    def __init__(self, database: Database, writer: Writer) -> None:
        self._reader, self._writer = database.reader, writer
        self._claim = Claim(f"{database.path}-indexes")

    async def complete(self, of: Statements) -> None:
        """Make those that are missing, unless somebody loads a table or is making them."""
        if self._missing(of) and self._claimed():
            try:
                await self._make(of)
            finally:
                self._claim.give()

    @asynccontextmanager
    async def loading(self, of: Statements) -> AsyncIterator[None]:
        """See `TableHandle.loading`. If it ends with an error, making them is left to the next who
        opens the table.
        """
        if not self._claimed():
            yield
            return
        try:
            if not await self._submit(of, partial(_drop_if_empty, of)):
                await self._make(of)
            yield
            await self._make(of)
        finally:
            self._claim.give()

    def _claimed(self) -> bool:
        try:
            return self._claim.try_take()
        except OSError as error:
            raise Unavailable(f"cannot open a lock file: {error.strerror}") from error

    def _missing(self, of: Statements) -> list[str]:
        """What makes those that are not there."""
        if not of.indexes:
            return []
        try:
            rows = self._reader.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")
            there = {name for (name,) in rows}
        except apsw.Error as error:
            raise translate(error, of.table.name) from error
        return [sql for name, sql in of.indexes.items() if name not in there]

    async def _make(self, of: Statements) -> None:
        """One by one, so that others have their turns between them."""
        for sql in self._missing(of):
            await self._submit(of, partial(_execute, sql))

    async def _submit(self, of: Statements, function: Callable[[apsw.Cursor], bool]) -> bool:
        done: bool = await self._writer.submit(Call(function, table=of.table.name, heavy=True))
        return done


def _execute(sql: str, cursor: apsw.Cursor) -> bool:
    cursor.execute(sql)
    return True


def _drop_if_empty(of: Statements, cursor: apsw.Cursor) -> bool:
    if cursor.execute(of.any).get:
        return False
    for sql in of.drop_indexes:
        cursor.execute(sql)
    return True
