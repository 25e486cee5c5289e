"""Reads: items of many readers in one round trip, and pages of queries.

Rule: a read is sent after it was asked for, so it sees all that was committed before.
"""

import asyncio
from itertools import count, islice
from typing import Any, Final

from keytables.bounds import sort_bounds
from keytables.checks import check_position, index_checks, key_check, key_checks
from keytables.completions import clone_error
from keytables.engine import Clock
from keytables.errors import KeytablesError, SchemaError, Throttled
from keytables.failures import FailureReports
from keytables.packing import unpack
from keytables.postgresql.columns import Columns
from keytables.postgresql.connections import MAX_WAITING, Pool
from keytables.postgresql.failures import ConnectionLost
from keytables.postgresql.operations import Stored
from keytables.postgresql.statements import PAGE_BYTES, TableStatements, bounds_sql
from keytables.retries import Backoff
from keytables.schema import Cursor, Index, Key, Kind, Page, Range
from keytables.values import KeyTuple, Scalar

_IN_FLIGHT: Final = 4
"""Round trips of one table at a time; what is asked for meanwhile shares the next one."""

_TOGETHER: Final = 200
"""Items of one round trip."""

_PAGE_ROWS: Final = 500

READ_TIMEOUT: Final = 5.0
"""Seconds for which a read whose connection broke is repeated: it changes nothing."""

_BACKOFF: Final = Backoff(0.02, 0.5)


class RepeatedReads:
    """Statements of any table that may be repeated. Reports their failures."""

    def __init__(self, pool: Pool, failures: FailureReports) -> None:
        self._pool, self._failures = pool, failures

    async def fetch(self, sql: str, *values: object, table: str = "") -> list[Any]:
        """Return the rows. Raises Throttled while the database is out of reach."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READ_TIMEOUT
        for attempt in count(1):
            try:
                return await self._pool.fetch(sql, *values, table=table)
            except ConnectionLost as error:
                pause = _BACKOFF.delay(attempt)
                if loop.time() + pause >= deadline or self._pool.is_closed:
                    self._failures.report(error)
                    # Nothing was changed, and the database may soon be back.
                    raise Throttled(str(error)) from error
            except KeytablesError as error:
                self._failures.report(error)
                raise
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")


class ItemReads:
    """Reads items of one table by their keys."""

    def __init__(self, statements: TableStatements, reader: RepeatedReads) -> None:
        self._statements, self._reader = statements, reader
        self._encode = statements.columns.encode_key
        self._name = statements.columns.table.name
        self._waiting: dict[KeyTuple, list[asyncio.Future[Stored | None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_beginning = False

    def read(self, key: KeyTuple) -> "asyncio.Future[Stored | None]":
        """Return the row of a (checked) key, expired or not; None: there is none."""
        future: asyncio.Future[Stored | None] = asyncio.get_running_loop().create_future()
        futures = self._waiting.get(key)
        if futures is not None:
            futures.append(future)
        elif len(self._waiting) >= MAX_WAITING:
            future.set_exception(Throttled(f"{len(self._waiting)} reads are waiting already"))
        else:
            self._waiting[key] = [future]
            self._begin()
        return future

    def _begin(self) -> None:
        if self._waiting and not self._is_beginning and len(self._tasks) < _IN_FLIGHT:
            self._is_beginning = True
            task = asyncio.create_task(self._read_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._begin()

    async def _read_waiting(self) -> None:
        """Read what is asked for when this begins: with what else that turn of the loop asks."""
        self._is_beginning = False
        taken = {key: self._waiting.pop(key) for key in list(islice(self._waiting, _TOGETHER))}
        self._begin()
        await self._read(taken)

    async def _read(self, wanted: dict[KeyTuple, list["asyncio.Future[Stored | None]"]]) -> None:
        keys = list(wanted)
        arrays = [list(values) for values in zip(*map(self._encode, keys), strict=True)]
        found: dict[int, Stored] = {}
        error: KeytablesError | None = None
        try:
            rows = await self._reader.fetch(self._statements.get, *arrays, table=self._name)
            for number, packed, expires, version in rows:
                found[number - 1] = Stored(packed, expires, version)
        except KeytablesError as failure:
            error = failure
        for number, futures in enumerate(wanted.values()):
            for future in futures:
                if future.done():
                    continue  # its reader was cancelled
                if error is None:
                    future.set_result(found.get(number))
                else:
                    future.set_exception(clone_error(error))


class Pages:
    """Queries of one table."""

    def __init__(self, statements: TableStatements, reader: RepeatedReads, clock: Clock) -> None:
        table = statements.columns.table
        self._statements, self._reader = statements, reader
        self._columns: Columns = statements.columns
        self._clock, self._table = clock, table
        self._checks = key_checks(table)
        self._index_checks = {index.name: index_checks(index) for index in table.indexes}
        self._row_check = key_check(Key("row", Kind.NUMBER), 0)
        self._expires = table.expiry is not None
        self._first = 2 if self._expires else 1
        """Number of the first parameter of a condition."""

    def check_partition(self, partition: Scalar) -> Scalar:
        return self._checks[0](partition)

    async def partition(
        self,
        partition: Scalar,
        sort: Range | None,
        limit: int | None,
        after: Cursor | None,
        *,
        descending: bool,
    ) -> Page:
        table, first = self._table, self._first
        bounds = sort_bounds(sort, table.sort, self._checks[-1])
        if after is not None:
            if table.sort is None:
                raise SchemaError(f"table {table.name!r} has one item in a partition")
            bounds = bounds.after(*check_position(after, self._checks[1:]), descending=descending)
        keys = self._statements.keys
        values: list[object] = [self._columns.keys[0].encode(partition)]
        conditions = [f"{keys[0]} = ${first}"]
        if table.sort is not None:
            conditions += bounds_sql(keys[-1], bounds, first + 1)
            values += map(self._columns.keys[-1].encode, bounds.values)
        order = keys[1:] or keys
        return await self._page(conditions, values, order, limit, descending, table.key_names[1:])

    async def index(
        self,
        index: Index,
        partition: Scalar,
        sort: Range | None,
        limit: int | None,
        after: Cursor | None,
        *,
        descending: bool,
    ) -> Page:
        first, checks = self._first, self._index_checks[index.name]
        column = self._columns.of(index.partition)
        values: list[object] = [column.encode(checks[0](partition))]
        bounds = sort_bounds(sort, index.sort, checks[-1])
        conditions = [f'"{column.name}" = ${first}', self._statements.is_in_index(index)]
        order = self._statements.order_of(index)
        names: tuple[str, ...] = ()
        if index.sort is not None:
            sort_column = self._columns.of(index.sort)
            names = (index.sort.name,)
            conditions += bounds_sql(order[0], bounds, first + 1)
            values += map(sort_column.encode, bounds.values)
        if after is not None:
            position: list[object] = list(check_position(after, (*checks[1:], self._row_check)))
            if index.sort is not None:
                position[0] = sort_column.encode(checks[1](position[0]))
            marks = ", ".join(f"${first + len(values) + n}" for n in range(len(position)))
            operator = "<" if descending else ">"
            conditions.append(f"({', '.join(order)}) {operator} ({marks})")
            values += position
        return await self._page(conditions, values, order, limit, descending, (*names, None))

    async def scan(self, limit: int | None, after: Cursor | None) -> Page:
        keys, first = self._statements.keys, self._first
        values: list[object] = []
        conditions: list[str] = []
        if after is not None:
            values += self._columns.encode_key(check_position(after, self._checks))
            marks = ", ".join(f"${first + number}" for number in range(len(values)))
            conditions.append(f"({', '.join(keys)}) > ({marks})")
        return await self._page(conditions, values, keys, limit, False, self._table.key_names)

    async def _page(
        self,
        conditions: list[str],
        values: list[object],
        order: tuple[str, ...],
        limit: int | None,
        descending: bool,
        position: tuple[str | None, ...],
    ) -> Page:
        """``position``: the attributes that tell where a page ended; None: the row's number."""
        most = _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)
        number = self._first + len(values)
        sql = self._statements.page(tuple(conditions), order, descending, number)
        now: list[object] = [self._clock()] if self._expires else []
        rows = await self._reader.fetch(sql, *now, *values, most + 1, table=self._table.name)
        items = [unpack(row[0]) for row in rows[:most]]
        if len(rows) <= most and sum([len(row[0]) for row in rows]) < PAGE_BYTES:
            return Page(items, None)
        last, number = items[-1], rows[len(items) - 1][1]
        end = tuple(number if name is None else last[name] for name in position)
        return Page(items, Cursor(end))  # type: ignore[arg-type]
