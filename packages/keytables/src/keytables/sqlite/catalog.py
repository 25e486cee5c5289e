"""The catalog of a file: which tables it has, and how they are declared."""

from collections.abc import Iterator
from typing import NamedTuple, cast

import apsw
import msgspec

from keytables.errors import SchemaError, StoreDamaged
from keytables.schema import Table
from keytables.sqlite.statements import Statements


class Entry(NamedTuple):
    """``number`` distinguishes a table from a dropped one of its name."""

    number: int
    table: Table

    @property
    def sql_name(self) -> str:
        # With the number also because SQLite ignores case.
        return f'"{self.table.name}~{self.number}"'

    @property
    def statements(self) -> Statements:
        return Statements(self.table, self.sql_name)


def names(connection: apsw.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM catalog ORDER BY name")
    return [cast(str, name) for (name,) in rows]


def entries(connection: apsw.Connection) -> Iterator[Entry]:
    """Raises StoreDamaged: an entry cannot be read."""
    for name in names(connection):
        if (entry := find(connection, name)) is not None:
            yield entry


def find(connection: apsw.Connection, name: str) -> Entry | None:
    """Raises StoreDamaged: the entry cannot be read."""
    row = connection.execute("SELECT id, declaration FROM catalog WHERE name = ?", (name,)).get
    if row is None:
        return None
    number, declaration = row
    try:
        return Entry(number, msgspec.json.decode(declaration, type=Table))
    except (msgspec.DecodeError, SchemaError) as error:
        raise StoreDamaged(f"the catalog entry of table {name!r} is damaged") from error


def add(cursor: apsw.Cursor, table: Table) -> Entry:
    """Enter a table; the caller creates it."""
    cursor.execute(
        "INSERT INTO catalog (name, declaration) VALUES (?, ?)",
        (table.name, msgspec.json.encode(table).decode()),
    )
    return Entry(cursor.connection.last_insert_rowid(), table)


def remove(cursor: apsw.Cursor, entry: Entry) -> None:
    cursor.execute("DELETE FROM catalog WHERE id = ?", (entry.number,))
