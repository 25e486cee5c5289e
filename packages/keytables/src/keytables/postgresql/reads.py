"""Reads: items of many readers in one round trip, and pages of queries.

Rule: a read is sent after it was asked for, so it sees all that was committed before.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from keytables.bounds import Operator, sort_bounds
from keytables.checks import (
    KeyCheck,
    check_limit,
    check_position,
    key_check,
    key_checks,
)
from keytables.commit.completions import clone_error
from keytables.engine import Clock, Query
from keytables.errors import KeytablesError, SchemaError, Throttled
from keytables.packing import unpack_all
from keytables.postgresql.columns import Column
from keytables.postgresql.connections import MAX_WAITING, Pool
from keytables.postgresql.operations import Stored
from keytables.postgresql.statements import PAGE_BYTES, TableStatements
from keytables.schema import Cursor, Key, Kind, Page
from keytables.values import KeyTuple

_IN_FLIGHT: Final = 4
"""Round trips of one table at a time; what is asked for meanwhile shares the next one."""

_TOGETHER: Final = 200
"""Items of one round trip."""

_PAGE_ROWS: Final = 500
_BLOB: Final = itemgetter(0)

Waiting: TypeAlias = dict[KeyTuple, list["asyncio.Future[Stored | None]"]]
"""Keys of items, to those who wait for them."""


class ItemReads:
    """Reads items of one table by their keys."""

    def __init__(self, statements: TableStatements, pool: Pool) -> None:
        self._sql, self._pool = statements.get, pool
        self._loop = asyncio.get_running_loop()
        self._encode = statements.columns.encode_key
        self._name = statements.columns.table.name
        self._waiting: Waiting = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight = 0
        self._is_beginning = False

    def read(self, key: KeyTuple) -> "asyncio.Future[Stored | None]":
        """Return the row of a (checked) key, expired or not; None: there is none."""
        future: asyncio.Future[Stored | None] = self._loop.create_future()
        futures = self._waiting.get(key)
        if futures is not None:
            futures.append(future)
        elif len(self._waiting) >= MAX_WAITING:
            future.set_exception(Throttled(f"{len(self._waiting)} reads are waiting already"))
        else:
            self._waiting[key] = [future]
            if not self._is_beginning and self._in_flight < _IN_FLIGHT:
                self._begin()
        return future

    def _begin(self) -> None:
        self._is_beginning = True
        self._in_flight += 1
        task = self._loop.create_task(self._read_waiting())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read_waiting(self) -> None:
        """Read what is asked for when this begins: with what else that turn of the loop asks."""
        self._is_beginning = False
        wanted, self._waiting = self._waiting, {}
        if len(wanted) > _TOGETHER:
            self._waiting = dict(islice(wanted.items(), _TOGETHER, None))
            wanted = dict(islice(wanted.items(), _TOGETHER))
            if self._in_flight < _IN_FLIGHT:
                self._begin()
        # Number of the key, from 1, to what is stored.
        stored_by_number: dict[int, Stored] = {}
        error: KeytablesError | None = None
        try:
            arrays = map(list, zip(*map(self._encode, wanted), strict=True))
            rows = await self._pool.fetch(self._sql, *arrays, table=self._name)
            for number, packed, expires, version in rows:
                stored_by_number[number] = Stored(packed, expires, version)
        except KeytablesError as failure:
            error = failure
        finally:
            self._in_flight -= 1
        for number, futures in enumerate(wanted.values(), 1):
            for future in futures:
                if future.done():
                    continue  # its reader was cancelled
                if error is None:
                    future.set_result(stored_by_number.get(number))
                else:
                    future.set_exception(clone_error(error))
        if self._waiting and not self._is_beginning:
            self._begin()


@dataclass(frozen=True, slots=True)
class _Order:
    """How the items of a table or of an index are read. ``conditions``: of all of them;
    ``columns``: by which they are sorted; ``names``: the attributes that tell where a page ended,
    None: the row's number; ``checks``: of the keys; ``position``: of what ``names`` say.
    """

    partition: Column
    sort: Column | None
    sort_key: Key | None
    conditions: tuple[str, ...]
    columns: tuple[str, ...]
    names: tuple[str | None, ...]
    checks: tuple[KeyCheck, ...]
    position: tuple[KeyCheck, ...]


class PageQuery(NamedTuple):
    """A query ready to be sent. ``values``: the time of reading may come before them; ``most``:
    items of the page; ``names``: see `_Order`.
    """

    sql: str
    values: list[object]
    most: int
    names: tuple[str | None, ...]


_ROW_CHECK: Final = key_check(Key("row", Kind.NUMBER), 0)


class Pages:
    """Queries and scans of one table. ``query`` and ``scan`` may raise SchemaError."""

    def __init__(self, statements: TableStatements, pool: Pool, clock: Clock) -> None:
        self._statements, self._pool, self._clock = statements, pool, clock
        self._columns = columns = statements.columns
        self._table = table = columns.table
        self._checks = checks = key_checks(table)
        keys = statements.keys
        self._orders = {
            "": _Order(
                columns.of(table.partition),
                None if table.sort is None else columns.of(table.sort),
                table.sort,
                (),
                keys[1:] or keys,
                table.key_names[1:],
                checks,
                checks[1:],
            )
        }
        for index in table.indexes:
            sort, checks = index.sort, key_checks(index)
            self._orders[index.name] = _Order(
                columns.of(index.partition),
                None if sort is None else columns.of(sort),
                sort,
                (statements.is_in_index(index),),
                statements.order_of(index),
                (None,) if sort is None else (sort.name, None),
                checks,
                (*checks[1:], _ROW_CHECK),
            )
        self._first = 2 if columns.expires else 1
        """Number of the first parameter of a condition."""
        # There are few shapes of queries; the text of each is made once.
        self._sql = lru_cache(maxsize=200)(self._query_sql)

    def query(self, query: Query) -> PageQuery:
        name = "" if query.index is None else query.index.name
        order = self._orders[name]
        values: list[object] = [order.partition.encode(order.checks[0](query.partition))]
        bounds = sort_bounds(query.sort, order.sort_key, order.checks[-1])
        if order.sort is not None:
            values += map(order.sort.encode, bounds.values)
        if query.after is not None:
            if not order.names:
                raise SchemaError(f"table {self._table.name!r} has one item in a partition")
            position = check_position(query.after, order.position)
            if order.sort is None:
                values += position
            else:
                values += (order.sort.encode(position[0]), *position[1:])
        sql = self._sql(name, bounds.lower, bounds.upper, query.after is not None, query.descending)
        return self._selection(sql, values, query.limit, order.names)

    def _query_sql(
        self, name: str, lower: Operator, upper: Operator, continues: bool, descending: bool
    ) -> str:
        order, number = self._orders[name], self._first
        conditions = [f'"{order.partition.name}" = ${number}', *order.conditions]
        for operator in (lower, upper):
            if operator:
                number += 1
                conditions.append(f"{order.columns[0]} {operator} ${number}")
        if continues:
            conditions.append(_beyond(order.columns, "<" if descending else ">", number + 1))
            number += len(order.columns)
        return self._statements.page(conditions, order.columns, descending, number + 1)

    def scan(self, limit: int | None, after: Cursor | None) -> PageQuery:
        keys, first = self._statements.keys, self._first
        values: list[object] = []
        conditions: list[str] = []
        if after is not None:
            values += self._columns.encode_key(check_position(after, self._checks))
            conditions.append(_beyond(keys, ">", first))
        sql = self._statements.page(conditions, keys, False, first + len(values))
        return self._selection(sql, values, limit, self._table.key_names)

    def _selection(
        self, sql: str, values: list[object], limit: int | None, names: tuple[str | None, ...]
    ) -> PageQuery:
        check_limit(limit)
        most = _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)
        values.append(most + 1)
        return PageQuery(sql, values, most, names)

    async def page(self, selection: PageQuery) -> Page:
        sql, values, most, names = selection
        if self._columns.expires:
            values.insert(0, self._clock())
        rows = await self._pool.fetch(sql, *values, table=self._table.name)
        blobs = list(map(_BLOB, rows))
        items = unpack_all(blobs[:most])
        if len(rows) <= most and sum(map(len, blobs)) < PAGE_BYTES:
            return Page(items, None)
        last, number = items[-1], rows[len(items) - 1][1]
        end = tuple(number if name is None else last[name] for name in names)
        return Page(items, Cursor(end))  # type: ignore[arg-type]


def _beyond(columns: Sequence[str], operator: str, first: int) -> str:
    """Return the condition of what comes after a position, bound from number ``first`` on."""
    marks = ", ".join(f"${first + number}" for number in range(len(columns)))
    return f"({', '.join(columns)}) {operator} ({marks})"
