"""Dividing a store into parts, and merging them: all rows are copied to new files.

Rule: whatever ends a division, the store is the old one or the new one. The new files are complete
and on the disk before the first of them, renamed, replaces the first of the old ones; only then
is any other file of the old store removed.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Self

import apsw

from keytables.errors import StorageFull, Unavailable
from keytables.schema import Table
from keytables.sqlite import catalog
from keytables.sqlite.database import (
    Part,
    StoreLocked,
    check_folder,
    check_owner,
    check_sqlite,
    create_catalog,
    translated,
)
from keytables.sqlite.layout import (
    MAX_PARTS,
    DivisionMark,
    check_part_files,
    count_parts,
    part_of,
    part_path,
    store_files,
    sync_folder,
)
from keytables.sqlite.locks import UsageLock, open_lock_file
from keytables.sqlite.space import RESERVE, free_space
from keytables.sqlite.statements import Row

OnProgress = Callable[[int, int], None]
"""Called with the pages read and all pages; what it raises ends the work."""

_STEP_ROWS: Final = 1000
_STEP_PAGES: Final = 1024
"""Rows of one transaction, and pages (of 4 KiB) between two syncs of a new file."""


@dataclass(frozen=True, slots=True)
class Division:
    before: int
    parts: int
    rows: int


def divide_store(
    path: str | os.PathLike[str],
    parts: int,
    *,
    on_begin: Callable[[int], None] = lambda _: None,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Division | None:
    """Make the store at ``path`` one of ``parts`` files; with 1, a single file as of old. Blocks.

    Returns None if it has that many, or does not exist and is to have one. A store that does not
    exist is created. ``on_begin`` is called with the number of parts before, when there are rows to
    copy. Raises StoreLocked: a process has it open; StorageFull: there is no space for a copy;
    Unavailable: it cannot be read or written. Nothing is changed then.
    """
    path = os.fspath(path)
    if not 1 <= parts <= MAX_PARTS:
        raise ValueError(f"a store has 1 to {MAX_PARTS} parts")
    check_sqlite()
    with translated(f"cannot divide {path}"):
        if count_parts(path) == parts:
            return None
        check_folder(Path(path))
        with closing(UsageLock(path)) as usage:
            if not usage.try_exclude():
                raise StoreLocked(f"{path} is in use")
            if usage.is_marked():
                raise Unavailable(f"a restore of {path} was interrupted: repeat it")
            DivisionMark(path).complete()
            return _divide(path, parts, on_begin, on_progress)


def _divide(
    path: str, parts: int, on_begin: Callable[[int], None], on_progress: OnProgress
) -> Division | None:
    sources = store_files(path) if os.path.exists(path) and os.path.getsize(path) else []
    before = max(1, len(sources))
    if before == parts:  # since another process has divided it
        return None
    check_part_files(path)
    if sources:
        on_begin(before)
        _check_space(sources, parts)
    mark = DivisionMark(path)
    mark.set()
    try:
        first, others = f"{path}-0of{parts}", range(1, parts)
        targets = [first, *(part_path(path, number, parts) for number in others)]
        store = secrets.token_hex(16)
        for number, target in enumerate(targets):
            os.close(open_lock_file(target))  # private, and of the owner of its folder
            create_store(target, Part(store, number, parts) if parts > 1 else None)
        with ExitStack() as opened:
            reading = [opened.enter_context(_exclusive(source)) for source in sources]
            rows = copy_rows(reading, targets, on_progress)
        sync_folder(Path(path).parent)
        os.rename(first, path)
        sync_folder(Path(path).parent)
    finally:
        mark.complete()
    return Division(before, parts, rows)


def copy_rows(
    sources: Sequence[apsw.Connection], targets: Sequence[str], on_progress: OnProgress
) -> int:
    """Copy all tables of ``sources`` to ``targets``, new stores or parts of one, which are then on
    the disk; return how many rows. A partition's rows go to the target that `part_of` says.
    """
    total = sum(source.execute("PRAGMA page_count").get for source in sources)
    with ExitStack() as opened:
        copies = [opened.enter_context(_Copy(target)) for target in targets]
        tables: dict[str, Table] = {}
        for source in sources:
            for _, table in catalog.entries(source):
                if not tables.setdefault(table.name, table).is_same(table):
                    raise Unavailable(f"table {table.name!r} is not declared alike in all parts")
        for table in tables.values():
            for copy in copies:
                copy.add_table(table)
        rows = 0
        for number, source in enumerate(sources):
            for entry in catalog.entries(source):
                cursor = source.execute(entry.statements.all_rows)
                while some := list(islice(cursor, _STEP_ROWS)):
                    rows += len(some)
                    _distribute(some, entry.table.name, copies)
                    on_progress(min(total, sum(copy.pages for copy in copies)), total)
            if number == len(sources) - 1:
                on_progress(total, total)
        for copy in copies:
            copy.complete()
    return rows


def _distribute(rows: list[Row], table: str, copies: "Sequence[_Copy]") -> None:
    if len(copies) == 1:
        copies[0].insert(table, rows)
        return
    shares: list[list[Row]] = [[] for _ in copies]
    for row in rows:
        shares[part_of(row[0], len(copies))].append(row)
    for copy, share in zip(copies, shares, strict=True):
        if share:
            copy.insert(table, share)


class _Copy:
    """A new file. If it is not completed it is removed, so it needs no journal."""

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._tables: dict[str, catalog.Entry] = {}
        self._inserts: dict[str, str] = {}
        self._synced = 0
        self.pages = 0

    def __enter__(self) -> Self:
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close(True)
        os.close(self._descriptor)

    def add_table(self, table: Table) -> None:
        with self._connection:
            entry = catalog.add(self._connection.cursor(), table)
            self._connection.execute(entry.statements.create[0])
        self._tables[table.name], self._inserts[table.name] = entry, entry.statements.insert

    def insert(self, table: str, rows: list[Row]) -> None:
        with self._connection:
            self._connection.executemany(self._inserts[table], rows)
        self.pages = self._connection.execute("PRAGMA page_count").get
        if self.pages - self._synced >= _STEP_PAGES:
            # One fsync at the end would hold up those of the writers.
            os.fdatasync(self._descriptor)
            self._synced = self.pages

    def complete(self) -> None:
        """Create the indexes, and have all of it on the disk."""
        for entry in self._tables.values():
            for statement in entry.statements.create[1:]:
                self._connection.execute(statement)
        os.fsync(self._descriptor)


def create_store(path: str, part: Part | None) -> None:
    """Make an empty file a store without tables, or a part of one."""
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)) as connection, connection:
        create_catalog(connection, part)


@contextmanager
def _exclusive(path: str) -> Iterator[apsw.Connection]:
    """A connection to a file that no other process has open, and that then has no log: it could
    be taken for one of the file that replaces it.
    """
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        check_owner(connection, path)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        yield connection
    finally:
        connection.close(True)
    if any(os.path.exists(path + ending) for ending in ("-wal", "-shm")):
        raise StoreLocked(f"another program has {path} open")


def _check_space(sources: Sequence[str], parts: int) -> None:
    needed = sum(os.path.getsize(source) for source in sources) + parts * RESERVE
    free = free_space(sources[0])
    if free < needed:
        raise StorageFull(
            f"{needed / 1e6:,.0f} MB have to be free for the new files, there are {free / 1e6:,.0f}"
        )
