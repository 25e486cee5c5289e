"""The SQL of one table: its schema, and the statements for single rows.

Rule: SQL text is built from declarations only; every value of a request is bound.

Columns of a table: ``id`` (the rowid), ``p`` and ``s`` (its key, ``s`` only with a sort key), ``x``
(the expiry, NULL for never), ``a0``, ``a1`` … (indexed attributes that are not keys of the table),
``b`` (the whole item). A rowid table with a unique index on the key costs half of one clustered by
its key: 4 KB items would lie in its inner pages. Key columns have no declared type, so SQLite keeps
text, numbers and bytes as they are; it compares text by its UTF-8 bytes, and integers and floats by
value.
"""

from dataclasses import dataclass
from functools import cached_property

from keytables.schema import Index, Key, Table

__all__ = ["Statements"]


@dataclass(frozen=True, eq=False)
class Statements:
    """The statements of ``table``, stored in the SQL table ``name`` (already quoted)."""

    table: Table
    name: str

    @cached_property
    def columns(self) -> dict[str, str]:
        """Attribute names to the columns that hold them, table keys first."""
        table = self.table
        columns = {table.partition.name: "p"}
        if table.sort is not None:
            columns[table.sort.name] = "s"
        indexed = (key for key in table.key_attributes if key.name not in columns)
        for number, name in enumerate(dict.fromkeys(key.name for key in indexed)):
            columns[name] = f"a{number}"
        return columns

    @cached_property
    def indexed(self) -> tuple[Key, ...]:
        """Indexed attributes that have a column besides the table's key, in order."""
        keys = {key.name: key for key in self.table.key_attributes}
        return tuple(keys[name] for name, column in self.columns.items() if column[0] == "a")

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns of the table's key."""
        return ("p",) if self.table.sort is None else ("p", "s")

    @cached_property
    def create(self) -> tuple[str, ...]:
        """Create the table and all indexes."""
        name = self.name.strip('"')
        optional = [self.columns[key.name] for key in self.indexed]
        expires = self.table.expiry is not None
        columns = [f"{column} NOT NULL" for column in self.keys] + ["x"] * expires + optional
        created = [
            f"CREATE TABLE {self.name} (id INTEGER PRIMARY KEY, {', '.join(columns)}, b NOT NULL)",
            f'CREATE UNIQUE INDEX "{name}~key" ON {self.name} ({", ".join(self.keys)})',
        ]
        if expires:
            created.append(
                f'CREATE INDEX "{name}~expiry" ON {self.name} (x) WHERE x IS NOT NULL',
            )
        return (*created, *self.indexes.values())

    @cached_property
    def indexes(self) -> dict[str, str]:
        """Names of the declared indexes to the statements that create them."""
        statements = {}
        for index in self.table.indexes:
            name, order = self.index_name(index), self.index_order(index)
            columns = dict.fromkeys((self.columns[index.partition.name], *order))
            statements[name] = (
                f'CREATE INDEX IF NOT EXISTS "{name}" ON {self.name} ({", ".join(columns)}) '
                f"WHERE {self.is_in_index(index)}"
            )
        return statements

    @cached_property
    def drop_indexes(self) -> tuple[str, ...]:
        """Drop the declared indexes."""
        return tuple(f'DROP INDEX IF EXISTS "{name}"' for name in self.indexes)

    @cached_property
    def any_row(self) -> str:
        """Select a row if there is one."""
        return f"SELECT 1 FROM {self.name} LIMIT 1"  # noqa: S608

    @cached_property
    def drop(self) -> str:
        """Drop the table and all indexes."""
        return f"DROP TABLE IF EXISTS {self.name}"

    @cached_property
    def put(self) -> str:
        """Store a row: key, ``x`` if the table has an expiry, ``b``, columns of indexes."""
        rest = ["x"] * (self.table.expiry is not None) + ["b"]
        rest += [self.columns[key.name] for key in self.indexed]
        columns = [*self.keys, *rest]
        return (
            f"INSERT INTO {self.name} ({', '.join(columns)}) "  # noqa: S608
            f"VALUES ({', '.join('?' * len(columns))}) ON CONFLICT ({', '.join(self.keys)}) "
            f"DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in rest)}"
        )

    @cached_property
    def delete(self) -> str:
        """Delete the row of a key."""
        return f"DELETE FROM {self.name} WHERE {self._is_key}"  # noqa: S608

    @cached_property
    def get(self) -> str:
        """Select the blob of a key (and, if the table has an expiry, a time)."""
        return f"SELECT b FROM {self.name} WHERE {self._is_key}{self._is_live}"  # noqa: S608

    @cached_property
    def delete_expired(self) -> str:
        """Delete rows that have expired at a time (first value), at most so many (second)."""
        return (
            f"DELETE FROM {self.name} WHERE id IN "  # noqa: S608
            f"(SELECT id FROM {self.name} WHERE x <= ? ORDER BY x LIMIT ?)"
        )

    @cached_property
    def expired_ids(self) -> str:
        """Select the ids of rows that have expired at a time (first value), so many (second)."""
        return f"SELECT id FROM {self.name} WHERE x <= ? ORDER BY x LIMIT ?"  # noqa: S608

    @cached_property
    def delete_expired_id(self) -> str:
        """Delete a row by its id (first value), if it has expired at a time (second)."""
        return f"DELETE FROM {self.name} WHERE id = ? AND x <= ?"  # noqa: S608

    @cached_property
    def any_expired(self) -> str:
        """Select a row if one has expired at a time."""
        return f"SELECT 1 FROM {self.name} WHERE x <= ? LIMIT 1"  # noqa: S608

    @cached_property
    def delete_some(self) -> str:
        """Delete rows, at most so many."""
        return f"DELETE FROM {self.name} WHERE id IN (SELECT id FROM {self.name} LIMIT ?)"  # noqa: S608

    def index_name(self, index: Index) -> str:
        """Return the SQL name of an index."""
        name, number = self.name.strip('"'), self.table.indexes.index(index)
        return f"{name}~index{number}"

    def index_order(self, index: Index) -> tuple[str, ...]:
        """Return the columns by which an index sorts the items of a partition."""
        first = () if index.sort is None else (self.columns[index.sort.name],)
        return tuple(dict.fromkeys((*first, *self.keys)))

    def is_in_index(self, index: Index) -> str:
        """Return the expression that is true for the rows of an index."""
        keys = (index.partition,) if index.sort is None else (index.partition, index.sort)
        return " AND ".join(f"{self.columns[key.name]} IS NOT NULL" for key in keys)

    @property
    def _is_key(self) -> str:
        return " AND ".join(f"{column} = ?" for column in self.keys)

    @property
    def _is_live(self) -> str:
        return "" if self.table.expiry is None else " AND (x IS NULL OR x > ?)"
