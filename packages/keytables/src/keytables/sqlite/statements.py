"""One table in SQL: its schema, its items as rows, the statements for single rows, and queries.

Rule: SQL text is built from declarations only; every value of a request is bound.

Columns: ``id`` (the rowid), ``p`` and ``s`` (the key, ``s`` only with a sort key), ``x`` (the
expiry, NULL for never), ``a0``, ``a1`` … (indexed attributes that are not keys of the table), ``b``
(the whole item). A rowid table with a unique index on the key costs half of one clustered by its
key: 4 KB items would lie in its inner pages. Key columns have no declared type, so SQLite keeps
text, numbers and bytes as they are; it compares text by UTF-8 bytes, numbers by value.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from keytables.bounds import Operator, sort_bounds
from keytables.checks import check_position, key_checks, position_checks
from keytables.engine import Query
from keytables.errors import SchemaError
from keytables.schema import Cursor, Index, Table
from keytables.values import KeyTuple

Row: TypeAlias = Sequence[str | int | float | bytes | None]
"""The values of a row, in the order of ``Statements.put``: that of `RowEncoder`."""

BLOB: Final = -1
"""Position of the item's blob in a row."""


class Statements:
    """The statements of ``table``, stored in the SQL table ``name`` (already quoted)."""

    def __init__(self, table: Table, name: str) -> None:
        self.table, self.name = table, name
        columns = {key: "ps"[number] for number, key in enumerate(table.key_names)}
        self.keys = tuple(columns.values())
        others = {key.name: key for key in table.key_attributes if key.name not in columns}
        columns.update({attribute: f"a{number}" for number, attribute in enumerate(others)})
        self.columns = columns
        """Attribute names to the columns that hold them, table keys first."""
        expires = table.expiry is not None

        rest = [*(columns[key] for key in others), *["x"] * expires, "b"]
        row = ", ".join([*self.keys, *rest])
        self.all_rows = f"SELECT {row} FROM {name}"  # noqa: S608
        self.insert = (
            f"INSERT INTO {name} ({row}) "  # noqa: S608
            f"VALUES ({', '.join('?' * len([*self.keys, *rest]))})"
        )
        self.put = (
            f"{self.insert} ON CONFLICT ({', '.join(self.keys)}) "
            f"DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in rest)}"
        )
        is_key = " AND ".join(f"{column} = ?" for column in self.keys)
        self.put_blob = f"UPDATE {name} SET b = ? WHERE {is_key}"  # noqa: S608
        """Of an item that is there; SQLite rewrites no index then. The values: b, key."""
        self.delete = f"DELETE FROM {name} WHERE {is_key}"  # noqa: S608
        is_live = " AND (x IS NULL OR x > ?)" if expires else ""
        self.get = f"SELECT b FROM {name} WHERE {is_key}{is_live}"  # noqa: S608

        # The first value is a time, the second one is how many, or an id.
        self.any_expired = f"SELECT 1 FROM {name} WHERE x <= ? LIMIT 1"  # noqa: S608
        self.expired_ids = f"SELECT id FROM {name} WHERE x <= ? ORDER BY x LIMIT ?"  # noqa: S608
        self.delete_expired = f"DELETE FROM {name} WHERE id IN ({self.expired_ids})"  # noqa: S608
        self.delete_expired_id = f"DELETE FROM {name} WHERE x <= ? AND id = ?"  # noqa: S608

        own = name.strip('"')
        self.indexes: dict[str, str] = {}
        """Names of the declared indexes to the statements that create them."""
        for index in table.indexes:
            index_name, order = self.index_name(index), self.index_order(index)
            index_columns = dict.fromkeys((columns[index.partition.name], *order))
            self.indexes[index_name] = (
                f'CREATE INDEX IF NOT EXISTS "{index_name}" ON {name} '
                f"({', '.join(index_columns)}) WHERE {self.is_in_index(index)}"
            )
        self.drop_indexes = [f'DROP INDEX IF EXISTS "{each}"' for each in self.indexes]
        not_null = [f"{column} NOT NULL" for column in self.keys]
        declared = [*not_null, *["x"] * expires, *(columns[key] for key in others), "b NOT NULL"]
        self.create = [
            f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {', '.join(declared)})",
            f'CREATE UNIQUE INDEX "{own}~key" ON {name} ({", ".join(self.keys)})',
            *[f'CREATE INDEX "{own}~expiry" ON {name} (x) WHERE x IS NOT NULL'] * expires,
            *self.indexes.values(),
        ]
        self.any_row = f"SELECT 1 FROM {name} LIMIT 1"  # noqa: S608
        self.delete_some = f"DELETE FROM {name} WHERE id IN (SELECT id FROM {name} LIMIT ?)"  # noqa: S608
        self.drop = f"DROP TABLE IF EXISTS {name}"

    def index_name(self, index: Index) -> str:
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


class Selection(NamedTuple):
    """A statement and its values. It selects the blob and the columns of the order.

    If the table has an expiry, the current time is to be bound before the values.
    """

    sql: str
    values: KeyTuple


class Queries:
    """The queries of the table of ``statements``. Every method may raise SchemaError.

    At most one lower and one upper bound reach SQLite, so it starts reading at the first row of the
    result. Expired rows are not filtered: NULL is selected in place of their blob (which is then
    not read), so that the reader counts every row examined, and can stop.
    """

    def __init__(self, statements: Statements) -> None:
        table = statements.table
        self._sql = statements
        self._blob = "b" if table.expiry is None else "iif(x IS NULL OR x > ?, b, NULL)"
        self._key_checks = key_checks(table)
        self._index_checks = {index.name: key_checks(index) for index in table.indexes}
        self._positions = {index.name: position_checks(table, index) for index in table.indexes}
        self._partition_sql: dict[tuple[Operator, Operator, bool], str] = {}

    def query(self, query: Query, *, use_index: bool = True) -> Selection:
        """Return what selects one partition of the table, or of an index.

        It fails where that index is missing, unless ``use_index`` is false: it then sorts all rows.
        """
        if query.index is not None:
            return self._index(query, query.index, use_index)
        table, checks, after = self._sql.table, self._key_checks, query.after
        checked = checks[0](query.partition)
        bounds = sort_bounds(query.sort, table.sort, checks[-1])
        if after is not None:
            if table.sort is None:
                raise SchemaError(f"table {table.name!r} has one item in a partition")
            bounds = bounds.after(*check_position(after, checks[1:]), descending=query.descending)
        shape = (bounds.lower, bounds.upper, query.descending)
        sql = self._partition_sql.get(shape)
        if sql is None:
            sql = self._partition_sql[shape] = self._select_partition(*shape)
        return Selection(sql, (checked, *bounds.values))

    def _index(self, query: Query, index: Index, use_index: bool) -> Selection:
        sql, checks = self._sql, self._index_checks[index.name]
        checked, descending = checks[0](query.partition), query.descending
        bounds = sort_bounds(query.sort, index.sort, checks[-1])
        order = sql.index_order(index)
        position: KeyTuple = ()
        if query.after is not None:
            position = check_position(query.after, tuple(self._positions[index.name].values()))
            bounds = bounds.without_start(descending=descending)
        columns, marks = ", ".join(order), ", ".join("?" * len(order))
        direction = " DESC" if descending else ""
        indexed = f' INDEXED BY "{sql.index_name(index)}"' if use_index else ""
        further = f" AND ({columns}) {'<' if descending else '>'} ({marks})" if position else ""
        text = (
            f"SELECT {self._blob}, {columns} FROM {sql.name}{indexed} "  # noqa: S608
            f"WHERE {sql.columns[index.partition.name]} = ? AND {sql.is_in_index(index)}"
            f"{_compared(order[0], bounds.lower)}{_compared(order[0], bounds.upper)}{further} "
            f"ORDER BY {', '.join(column + direction for column in order)}"
        )
        return Selection(text, (checked, *bounds.values, *position))

    def index_names(self, index: Index) -> tuple[str, ...]:
        """Return the attributes by which an index sorts the items of a partition."""
        return tuple(self._positions[index.name])

    def scan(self, after: Cursor | None) -> Selection:
        columns, marks = ", ".join(self._sql.keys), ", ".join("?" * len(self._sql.keys))
        position = () if after is None else check_position(after, self._key_checks)
        further = f"({columns}) > ({marks})" if position else "p IS NOT NULL"
        sql = (
            f"SELECT {self._blob}, {columns} FROM {self._sql.name} "  # noqa: S608
            f"WHERE {further} ORDER BY {columns}"
        )
        return Selection(sql, position)

    def _select_partition(self, lower: Operator, upper: Operator, descending: bool) -> str:
        if self._sql.table.sort is None:
            return f"SELECT {self._blob} FROM {self._sql.name} WHERE p = ?"  # noqa: S608
        return (
            f"SELECT {self._blob}, s FROM {self._sql.name} WHERE p = ?"  # noqa: S608
            f"{_compared('s', lower)}{_compared('s', upper)}"
            f" ORDER BY s{' DESC' if descending else ''}"
        )


def _compared(column: str, operator: Operator) -> str:
    return f" AND {column} {operator} ?" if operator else ""
