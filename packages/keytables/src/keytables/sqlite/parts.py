"""An engine on a store of several parts, and opening a store with any number of them.

Rule: whatever becomes of one part (another process is stopped with its lock, its file is damaged)
does nothing to the operations on another.

A process opens its own parts at once, and sweeps them; the others when it first needs them, beside
the event loop. Writes to those are kept in order until then.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Final

from keytables.clock_guard import ClockReading
from keytables.engine import Clock, Engine, OnFailure, TableHandle
from keytables.errors import KeytablesError, StoreClosed, TableNotFound, Throttled, Unavailable
from keytables.failures import FailureReports
from keytables.schema import Capacity, Table
from keytables.sqlite import catalog
from keytables.sqlite.database import (
    OtherPart,
    Part,
    failure_reports,
    open_to_read,
    open_usage_lock,
    translated,
)
from keytables.sqlite.engine import OPENING_TIMEOUT, SqliteEngine, retry_locked
from keytables.sqlite.layout import DivisionMark, check_part_files, first_part, part_of, part_path
from keytables.sqlite.locks import UsageLock
from keytables.sqlite.parted_table import PartedTable, await_all
from keytables.values import Scalar

_LATE_OPENING_TIMEOUT: Final = 2.5
"""Seconds to wait for a program that has the file of another process's part locked."""


async def open_sqlite(
    path: str | os.PathLike[str],
    *,
    own_parts: Collection[int] | None = None,
    clock: Clock = time.time,
    wipe: bool = False,
    min_free_space: int = 0,
    first_reading: ClockReading | None = None,
    on_failure: OnFailure | None = None,
    opening_timeout: float = OPENING_TIMEOUT,
) -> Engine:
    """Open the store at ``path``, of however many parts; a new one has one.

    ``own_parts``: those that this process opens at once and sweeps; None for all. The other
    arguments and errors are those of :meth:`SqliteEngine.open`.
    """
    path = os.fspath(path)

    def open_file(
        file: str, part: Part | None, *, at_once: bool = True, sweeps: bool = True
    ) -> Awaitable[SqliteEngine]:
        return SqliteEngine.open(
            file,
            clock=clock,
            wipe=wipe,
            min_free_space=min_free_space if at_once else 0,
            first_reading=first_reading,
            on_failure=on_failure,
            opening_timeout=opening_timeout if at_once else _LATE_OPENING_TIMEOUT,
            part=part,
            sweeps=sweeps,
        )

    while True:
        first = await retry_locked(partial(_read_first, path), opening_timeout)
        engine: Engine
        if first is None:
            try:
                engine = await open_file(path, None)
            except OtherPart:
                if await retry_locked(partial(_read_first, path), opening_timeout) is None:
                    raise
                continue  # it was divided meanwhile
        else:
            usage = await retry_locked(partial(_share, path, first), opening_timeout)
            if usage is None:
                continue
            failures = failure_reports(on_failure)
            engine = PartedEngine(path, first, usage, open_file, failures, own_parts)
        try:
            if isinstance(engine, PartedEngine):
                await engine.start()
            with translated(f"cannot remove what a division of {path} left"):
                await asyncio.to_thread(DivisionMark(path).complete)
        except BaseException:
            await engine.close()
            raise
        return engine


def _read_first(path: str) -> Part | None:
    with translated(f"cannot open {path}"):
        first = first_part(path)
        if first is None and not (os.path.exists(path) and os.path.getsize(path)):
            check_part_files(path)
        return first


def _share(path: str, first: Part) -> UsageLock | None:
    """Return the lock that keeps the number of parts as it is; None: it has changed."""
    usage = open_usage_lock(path)
    try:
        if _read_first(path) == first:
            return usage
    except BaseException:
        usage.close()
        raise
    usage.close()
    return None


class _PartEngine:
    """The engine of one part, opened at first use. ``file``: its path."""

    def __init__(self, file: str, open_engine: Callable[[], Awaitable[SqliteEngine]]) -> None:
        self.file, self._open_engine = file, open_engine
        self.engine: SqliteEngine | None = None
        self._opening: asyncio.Future[SqliteEngine] | None = None
        self._is_closed = False

    async def open(self) -> SqliteEngine:
        if self.engine is not None:
            return self.engine
        if self._is_closed:
            raise StoreClosed("the store is closed")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        # Cancelling one waiter must not cancel the shared opening.
        return await asyncio.shield(self._opening)

    async def _open(self) -> SqliteEngine:
        try:
            self.engine = await self._open_engine()
        finally:
            self._opening = None
        return self.engine

    async def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            await asyncio.wait([self._opening])
        if self.engine is not None:
            await self.engine.close()


class PartedEngine(Engine):
    """Tables in several files. Belongs to the event loop it was made on; :meth:`start` it."""

    def __init__(
        self,
        path: str,
        first: Part,
        usage: UsageLock,
        open_file: Callable[..., Awaitable[SqliteEngine]],
        failures: FailureReports,
        own_parts: Collection[int] | None,
    ) -> None:
        self._usage, self._failures = usage, failures
        numbers = range(first.count)
        own = [number for number in numbers if own_parts is None or number in own_parts]
        self._home = own or [0]
        """The parts that are opened at once."""
        self._parts: list[_PartEngine] = []
        for number in numbers:
            file = part_path(path, number, first.count)
            part = Part(first.store, number, first.count)
            kind = {"at_once": number in self._home, "sweeps": number in own}
            self._parts.append(_PartEngine(file, partial(open_file, file, part, **kind)))
        self._tables: dict[str, PartedTable] = {}
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the parts of this process. Raises Unavailable."""
        await await_all(self._parts[number].open() for number in self._home)

    @property
    def parts(self) -> int:
        return len(self._parts)

    def part_of(self, partition: Scalar) -> int:
        return part_of(partition, len(self._parts))

    @property
    def is_nearly_full(self) -> bool:
        return any(engine.is_nearly_full for engine in self._home_engines())

    async def check_space(self) -> None:
        for engine in self._home_engines():
            await engine.check_space()

    @property
    def clock_jump(self) -> float:
        return max((engine.clock_jump for engine in self._home_engines()), key=abs, default=0.0)

    @property
    def expired(self) -> Mapping[str, int]:
        return sum((Counter(engine.expired) for engine in self._home_engines()), Counter[str]())

    async def ensure_table(
        self,
        table: Table,
        *,
        capacity: Capacity | None = None,  # noqa: ARG002 - files have none
    ) -> TableHandle:
        """Create it in the parts of this process; in another one the first operation there does."""
        engines = [await self._parts[number].open() for number in self._home]
        creating = (engine.ensure_table(table) for engine in engines)
        results = await asyncio.gather(*creating, return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        for error in failed:
            if not isinstance(error, Throttled) or len(failed) == len(results):
                raise error
        parted = self._tables.get(table.name)
        if parted is None:
            open_table = partial(self._open_table, table)
            parted = self._tables[table.name] = PartedTable(table, self.parts, open_table)
        for number, part in enumerate(self._parts):
            # What cannot be read now is said by the operations there.
            with suppress(Unavailable):
                if part.engine is not None:
                    parted.set_handle(number, part.engine.find_table(table))
        return parted

    async def _open_table(self, table: Table, number: int) -> TableHandle:
        engine = await self._parts[number].open()
        if engine.find_table(table) is None:
            # Created here as in the others, or dropped by another process.
            others = [home for home in self._home_engines() if home is not engine]
            if others and not any(home.find_table(table) for home in others):
                raise TableNotFound(table.name)
        return await engine.ensure_table(table)

    async def drop_table(self, name: str) -> None:
        async def drop(part: _PartEngine) -> None:
            await (await part.open()).drop_table(name)

        await await_all(drop(part) for part in self._parts)
        self._tables.pop(name, None)

    async def table_names(self) -> list[str]:
        names: set[str] = set()
        for number, part in enumerate(self._parts):
            try:
                if part.engine is not None:
                    names.update(await part.engine.table_names())
                else:
                    names.update(await asyncio.to_thread(_names_in, part.file))
            except KeytablesError as error:
                if number in self._home:
                    raise
                self._failures.report(error)
        return sorted(names)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            for table in self._tables.values():
                await table.finish()
            await asyncio.gather(*(part.close() for part in self._parts))
        finally:
            self._usage.close()

    def _home_engines(self) -> list[SqliteEngine]:
        engines = (self._parts[number].engine for number in self._home)
        return [engine for engine in engines if engine is not None]


def _names_in(file: str) -> list[str]:
    with translated(f"cannot read {file}"), closing(open_to_read(file)) as connection:
        return catalog.names(connection)
