"""The queries of one table: the statement of each, and the values to bind.

Rule: at most one lower and one upper bound reach SQLite, so it always starts reading at the first
row of the result.

A query does not filter expired rows: it selects NULL in place of their blob (which is then not read
from the file), so that the reader counts every row that is examined, and can stop.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from keytables.checks import KeyCheck, index_checks, key_checks
from keytables.errors import SchemaError
from keytables.schema import Cursor, Index, Key, Kind, Range
from keytables.sqlite.statements import Statements
from keytables.values import KeyTuple, Scalar

__all__ = ["Queries", "Query", "SortBounds", "after_prefix", "sort_bounds"]

_Operator: TypeAlias = Literal["", ">", ">=", "<", "<="]
"""How a key compares to a bound; empty: there is no bound."""

_LAST_CHARACTER = 0x10FFFF


@dataclass(frozen=True, slots=True)
class SortBounds:
    """A lower and an upper bound, each optional, and their values."""

    lower: _Operator = ""
    low: Scalar = 0
    upper: _Operator = ""
    high: Scalar = 0

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The values to bind, lower first."""
        return (self.low,) * bool(self.lower) + (self.high,) * bool(self.upper)

    def after(self, position: Scalar, *, descending: bool) -> "SortBounds":
        """Return the rest of the range after ``position``, which lies in it."""
        if descending:
            return SortBounds(self.lower, self.low, "<", position)
        return SortBounds(">", position, self.upper, self.high)

    def without_start(self, *, descending: bool) -> "SortBounds":
        """Return the range without the bound at which reading starts."""
        if descending:
            return SortBounds(self.lower, self.low)
        return SortBounds(upper=self.upper, high=self.high)


class Query(NamedTuple):
    """A statement and its values. It selects the blob and the columns of the order.

    If the table has an expiry, the current time is to be bound before the values.
    """

    sql: str
    values: KeyTuple


class Queries:
    """The queries of the table of ``statements``. Every method may raise SchemaError."""

    __slots__ = ("_blob", "_index_checks", "_key_checks", "_key_names", "_partition_sql", "_sql")

    def __init__(self, statements: Statements) -> None:
        table = statements.table
        self._sql = statements
        self._blob = "b" if table.expiry is None else "iif(x IS NULL OR x > ?, b, NULL)"
        self._key_names, self._key_checks = table.key_names, key_checks(table)
        self._index_checks = {index.name: index_checks(index) for index in table.indexes}
        self._partition_sql: dict[tuple[_Operator, _Operator, bool], str] = {}

    def partition(
        self, partition: Scalar, sort: Range | None, after: Cursor | None, *, descending: bool
    ) -> Query:
        """Return the query of one partition. Its first value is the checked partition."""
        table, checks = self._sql.table, self._key_checks
        checked = checks[0](partition)
        bounds = _NO_BOUNDS if sort is None else _bounds(sort, table.sort, checks)
        if after is not None:
            if table.sort is None:
                raise SchemaError(f"table {table.name!r} has one item in a partition")
            bounds = bounds.after(*_position(after, checks[1:]), descending=descending)
        shape = (bounds.lower, bounds.upper, descending)
        sql = self._partition_sql.get(shape)
        if sql is None:
            sql = self._partition_sql[shape] = self._select_partition(*shape)
        return Query(sql, (checked, *bounds.values))

    def index(
        self,
        index: Index,
        partition: Scalar,
        sort: Range | None,
        after: Cursor | None,
        *,
        descending: bool,
        use_index: bool = True,
    ) -> Query:
        """Return the query of one partition of an index.

        It fails where that index is missing, unless ``use_index`` is false: then it reads every
        row, and sorts.
        """
        sql, checks = self._sql, self._index_checks[index.name]
        checked = checks[0](partition)
        bounds = _NO_BOUNDS if sort is None else _bounds(sort, index.sort, checks)
        order, names = sql.index_order(index), self.index_names(index)
        position: KeyTuple = ()
        if after is not None:
            check_of = dict(zip(self._key_names, self._key_checks, strict=True))
            if index.sort is not None:
                check_of[index.sort.name] = checks[1]
            position = _position(after, tuple(check_of[name] for name in names))
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
        return Query(text, (checked, *bounds.values, *position))

    def index_names(self, index: Index) -> tuple[str, ...]:
        """Return the attributes by which an index sorts the items of a partition."""
        first = () if index.sort is None else (index.sort.name,)
        return tuple(dict.fromkeys((*first, *self._key_names)))

    def scan(self, after: Cursor | None) -> Query:
        """Return the query of the whole table."""
        columns, marks = ", ".join(self._sql.keys), ", ".join("?" * len(self._sql.keys))
        position = () if after is None else _position(after, self._key_checks)
        further = f"({columns}) > ({marks})" if position else "p IS NOT NULL"
        sql = (
            f"SELECT {self._blob}, {columns} FROM {self._sql.name} "  # noqa: S608
            f"WHERE {further} ORDER BY {columns}"
        )
        return Query(sql, position)

    def _select_partition(self, lower: _Operator, upper: _Operator, descending: bool) -> str:
        if self._sql.table.sort is None:
            return f"SELECT {self._blob} FROM {self._sql.name} WHERE p = ?"  # noqa: S608
        return (
            f"SELECT {self._blob}, s FROM {self._sql.name} WHERE p = ?"  # noqa: S608
            f"{_compared('s', lower)}{_compared('s', upper)}"
            f" ORDER BY s{' DESC' if descending else ''}"
        )


_NO_BOUNDS = SortBounds()


def sort_bounds(sort: Range, check: KeyCheck) -> SortBounds:
    """Return the bounds of a range of keys that ``check`` accepts. Raises SchemaError."""
    if sort.prefix is not None:
        if not sort.prefix:
            return _NO_BOUNDS
        start, end = check(sort.prefix), after_prefix(sort.prefix)
        return SortBounds(">=", start) if end is None else SortBounds(">=", start, "<", end)
    lower: _Operator = ""
    upper: _Operator = ""
    low: Scalar = 0
    high: Scalar = 0
    if sort.gt is not None:
        lower, low = ">", _bound_value(sort.gt, check)
    elif sort.ge is not None:
        lower, low = ">=", _bound_value(sort.ge, check)
    if sort.lt is not None:
        upper, high = "<", _bound_value(sort.lt, check)
    elif sort.le is not None:
        upper, high = "<=", _bound_value(sort.le, check)
    return SortBounds(lower, low, upper, high)


def after_prefix(prefix: str | bytes) -> str | bytes | None:
    """Return the least text (or bytes) after all that start with ``prefix``; None: there is none.

    Text sorts by its UTF-8 bytes, which is the order of code points.
    """
    if isinstance(prefix, bytes):
        stripped = prefix.rstrip(b"\xff")
        return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
    text = prefix.rstrip(chr(_LAST_CHARACTER))
    if not text:
        return None
    following = ord(text[-1]) + 1
    if following == 0xD800:  # surrogates cannot be encoded
        following = 0xE000
    return text[:-1] + chr(following)


def _bounds(sort: Range, key: Key | None, checks: tuple[KeyCheck, ...]) -> SortBounds:
    if key is None:
        raise SchemaError("a range needs a sort key")
    if sort.prefix is not None and key.kind is Kind.NUMBER:
        raise SchemaError(f"key {key.name!r}: a number has no prefix")
    return sort_bounds(sort, checks[1])


def _bound_value(value: Scalar, check: KeyCheck) -> Scalar:
    # No key is empty, but an empty bound is valid if it has the key's type: every key is above it.
    if value == "":
        check("-")
        return value
    if value == b"":
        check(b"-")
        return value
    return check(value)


def _position(after: Cursor, checks: tuple[KeyCheck, ...]) -> KeyTuple:
    if len(after.position) != len(checks):
        raise SchemaError("the cursor belongs to another query")
    return tuple(check(value) for check, value in zip(checks, after.position, strict=True))


def _compared(column: str, operator: _Operator) -> str:
    return f" AND {column} {operator} ?" if operator else ""
