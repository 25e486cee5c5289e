"""The SQL text of one table.

The one rule: SQL is made from declarations only; every value of a request is bound.

A query does not skip expired rows, it shows them with NULL in place of the blob (which is then not
read from the file): so whoever steps through it sees each row that is examined, and can stop.

Layout of a table: ``id`` (the rowid), ``p`` and ``s`` (its key, ``s`` only with a sort key), ``x``
(the expiry, NULL for never), ``a0``, ``a1`` … (attributes of indexes that are not keys of the
table), ``b`` (the whole item). A rowid table with a unique index on the key costs half of one
clustered by its key: 4 KB items would lie in its inner pages. Key columns have no declared type, so
SQLite keeps text, numbers and bytes as they are; it compares text by its UTF-8 bytes and numbers,
whole or not, by value.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from keytables.schema import Index, Key, Table

__all__ = ["Bound", "Statements"]

Bound: TypeAlias = Literal["", ">", ">=", "<", "<="]
"""A bound of a range, and that there is none."""


@dataclass(frozen=True, eq=False)
class Statements:
    """The statements of ``table``, kept in the SQL table ``name`` (quoted already)."""

    table: Table
    name: str

    @cached_property
    def _queries(self) -> dict[tuple[Bound, Bound, bool], str]:
        return {}

    @cached_property
    def columns(self) -> dict[str, str]:
        """Attribute names to the columns that hold them, table keys first."""
        table = self.table
        found = {table.partition.name: "p"}
        if table.sort is not None:
            found[table.sort.name] = "s"
        extra = (key for key in table.key_attributes if key.name not in found)
        for number, name in enumerate(dict.fromkeys(key.name for key in extra)):
            found[name] = f"a{number}"
        return found

    @cached_property
    def extra(self) -> tuple[Key, ...]:
        """Indexed attributes that have a column besides the table's keys, in order."""
        keys = {key.name: key for key in self.table.key_attributes}
        return tuple(keys[name] for name, column in self.columns.items() if column[0] == "a")

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns of the table's key."""
        return ("p",) if self.table.sort is None else ("p", "s")

    @cached_property
    def create(self) -> tuple[str, ...]:
        """Makes table and all indexes."""
        name = self.name.strip('"')
        optional = [self.columns[key.name] for key in self.extra]
        expires = self.table.expiry is not None
        columns = [f"{column} NOT NULL" for column in self.keys] + ["x"] * expires + optional
        made = [
            f"CREATE TABLE {self.name} (id INTEGER PRIMARY KEY, {', '.join(columns)}, b NOT NULL)",
            f'CREATE UNIQUE INDEX "{name}~key" ON {self.name} ({", ".join(self.keys)})',
        ]
        if expires:
            made.append(
                f'CREATE INDEX "{name}~expiry" ON {self.name} (x) WHERE x IS NOT NULL',
            )
        return (*made, *self.indexes.values())

    @cached_property
    def indexes(self) -> dict[str, str]:
        """Names of the declared indexes to what makes each, if it is not there."""
        made = {}
        for index in self.table.indexes:
            name = self._index_name(index)
            order = self.index_order(index)
            present = " AND ".join(f"{self.columns[k.name]} IS NOT NULL" for k in _keys(index))
            made[name] = (
                f'CREATE INDEX IF NOT EXISTS "{name}" ON {self.name} '
                f"({', '.join(dict.fromkeys((self.columns[index.partition.name], *order)))}) "
                f"WHERE {present}"
            )
        return made

    @cached_property
    def drop_indexes(self) -> tuple[str, ...]:
        """Drops the declared indexes."""
        return tuple(f'DROP INDEX IF EXISTS "{name}"' for name in self.indexes)

    @cached_property
    def any(self) -> str:
        """Returns a row when there is one."""
        return f"SELECT 1 FROM {self.name} LIMIT 1"  # noqa: S608

    @cached_property
    def drop(self) -> str:
        """Drops table and indexes."""
        return f"DROP TABLE IF EXISTS {self.name}"

    @cached_property
    def put(self) -> str:
        """Stores a row: key, ``x`` if there is one, ``b``, further columns."""
        rest = ["x"] * (self.table.expiry is not None) + ["b"]
        rest += [self.columns[key.name] for key in self.extra]
        columns = [*self.keys, *rest]
        return (
            f"INSERT INTO {self.name} ({', '.join(columns)}) "  # noqa: S608
            f"VALUES ({', '.join('?' * len(columns))}) ON CONFLICT ({', '.join(self.keys)}) "
            f"DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in rest)}"
        )

    @cached_property
    def delete(self) -> str:
        """Deletes the row of a key."""
        return f"DELETE FROM {self.name} WHERE {self._is_key}"  # noqa: S608

    @cached_property
    def get(self) -> str:
        """Returns the blob of a key (and, with an expiry, a time)."""
        return f"SELECT b FROM {self.name} WHERE {self._is_key}{self._live}"  # noqa: S608

    @cached_property
    def sweep(self) -> str:
        """Deletes at most so many (second value) rows expired by a time (first value)."""
        return (
            f"DELETE FROM {self.name} WHERE id IN "  # noqa: S608
            f"(SELECT id FROM {self.name} WHERE x <= ? ORDER BY x LIMIT ?)"
        )

    @cached_property
    def any_expired(self) -> str:
        """Returns a row when one has expired by a time."""
        return f"SELECT 1 FROM {self.name} WHERE x <= ? LIMIT 1"  # noqa: S608

    @cached_property
    def empty(self) -> str:
        """Deletes at most so many rows."""
        return f"DELETE FROM {self.name} WHERE id IN (SELECT id FROM {self.name} LIMIT ?)"  # noqa: S608

    def index_order(self, index: Index) -> tuple[str, ...]:
        """Return the columns an index is sorted by within a partition."""
        first = () if index.sort is None else (self.columns[index.sort.name],)
        return tuple(dict.fromkeys((*first, *self.keys)))

    def query(self, lower: Bound, upper: Bound, *, descending: bool) -> str:
        """Show a partition: time, partition, lower and upper bound.

        This and the following show the blob (NULL: expired), then the columns of the order. They
        are given a time only if the table has an expiry.
        """
        shape = (lower, upper, descending)
        found = self._queries.get(shape)
        if found is None:
            found = self._queries[shape] = self._query(lower, upper, descending=descending)
        return found

    def _query(self, lower: Bound, upper: Bound, *, descending: bool) -> str:
        if self.table.sort is None:
            return f"SELECT {self._shown} FROM {self.name} WHERE p = ?"  # noqa: S608
        return (
            f"SELECT {self._shown}, s FROM {self.name} WHERE p = ?"  # noqa: S608
            f"{_bound('s', lower)}{_bound('s', upper)} ORDER BY s{' DESC' if descending else ''}"
        )

    def query_index(
        self,
        index: Index,
        lower: Bound,
        upper: Bound,
        *,
        descending: bool,
        after: bool,
        indexed: bool = True,
    ) -> str:
        """Show a partition of an index: time, partition, bounds, position.

        It is refused where that index is missing, unless it is not to be ``indexed``: then it looks
        at every row, and sorts.
        """
        order = self.index_order(index)
        sort = order[0]
        row, marks = ", ".join(order), ", ".join("?" * len(order))
        direction = " DESC" if descending else ""
        by = f' INDEXED BY "{self._index_name(index)}"' if indexed else ""
        further = f" AND ({row}) {'<' if descending else '>'} ({marks})" if after else ""
        present = "".join(f" AND {self.columns[k.name]} IS NOT NULL" for k in _keys(index))
        return (
            f"SELECT {self._shown}, {row} FROM {self.name}{by} "  # noqa: S608
            f"WHERE {self.columns[index.partition.name]} = ?"
            f"{present}{_bound(sort, lower)}{_bound(sort, upper)}{further} "
            f"ORDER BY {', '.join(column + direction for column in order)}"
        )

    def scan(self, *, after: bool) -> str:
        """Show the whole table: time, position."""
        row, marks = ", ".join(self.keys), ", ".join("?" * len(self.keys))
        further = f"({row}) > ({marks})" if after else "p IS NOT NULL"
        return f"SELECT {self._shown}, {row} FROM {self.name} WHERE {further} ORDER BY {row}"  # noqa: S608

    def _index_name(self, index: Index) -> str:
        name, number = self.name.strip('"'), self.table.indexes.index(index)
        return f"{name}~index{number}"

    @property
    def _is_key(self) -> str:
        return " AND ".join(f"{column} = ?" for column in self.keys)

    @property
    def _live(self) -> str:
        return "" if self.table.expiry is None else " AND (x IS NULL OR x > ?)"

    @property
    def _shown(self) -> str:
        return "b" if self.table.expiry is None else "iif(x IS NULL OR x > ?, b, NULL)"


def _keys(index: Index) -> list[Key]:
    return [key for key in (index.partition, index.sort) if key is not None]


def _bound(column: str, bound: Bound) -> str:
    return f" AND {column} {bound} ?" if bound else ""
