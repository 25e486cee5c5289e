"""The connections to a file, its checks before use, and the translation of SQLite's errors.

Rule: a file of another program, or of a newer version, is refused and not changed.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import apsw

from keytables.engine import OnFailure
from keytables.errors import (
    KeytablesError,
    StorageFull,
    StoreClosed,
    StoreDamaged,
    TableNotFound,
    Throttled,
    Unavailable,
)
from keytables.failures import FailureReports
from keytables.sqlite.locks import FairLock, UsageLock, give_to_owner_of_folder
from keytables.sqlite.space import NO_SPACE, FileSpace

APPLICATION_ID: Final = 0x7AB1E501
"""Identifies the files of this engine (``PRAGMA application_id``)."""

FILE_VERSION: Final = 2
"""Newest version of the file format (``PRAGMA user_version``): a part of a store of several."""

_UNDIVIDED: Final = 1
"""Version of a file that is a whole store."""

OLDEST_SQLITE: Final = (3, 51, 3)
"""Older versions can corrupt a write-ahead log that several processes share (the "WAL reset bug" of
sqlite.org/wal.html)."""

_CATALOG: Final = (
    "CREATE TABLE catalog (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, "
    "declaration TEXT NOT NULL)"
)
_PART: Final = "CREATE TABLE part (store TEXT NOT NULL, number INT NOT NULL, count INT NOT NULL)"
_READING_TIMEOUT: Final = 5000
"""Milliseconds that a reader of the whole file waits while another process opens the store or
repairs its log."""

_STATEMENTS: Final = 64
"""Prepared statements that a connection keeps: more than are used in turn. apsw searches through
all of them for each one that it executes."""

_CACHE: Final = 8192
"""KiB of pages that each connection keeps; those to a part have their share of it, at least
``_LEAST_CACHE``: many parts are open in as many processes, and each has a share of the rows. A page
that is not kept is read again from the system's cache."""
_LEAST_CACHE: Final = 1024

_DAMAGED: Final = (apsw.CorruptError, apsw.NotADBError)
_LOCKED: Final = "cannot open {}: another process keeps it locked"

_SPILL_PAGES: Final = 16_384
"""Changed pages (of 4 KiB) that a transaction keeps in memory before it writes some to the disk:
far more than one of the usual size changes."""


class MissingIndex(Unavailable):
    """A statement names a missing index. Never leaves the engine."""


class StoreLocked(Unavailable):
    """The file cannot be opened now: another program has it locked, or it is being restored."""


class OtherPart(Unavailable):
    """The file is not the part that was expected."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a store of ``count`` files. ``store``: a random name that all of them have."""

    store: str
    number: int
    count: int


def translate(error: apsw.Error, table: str = "", errno: int = 0) -> KeytablesError:
    """Return the KeytablesError for an error of SQLite; ``errno``: the system's, if it has one."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Throttled(f"the store is locked: {error}")
    if isinstance(error, apsw.ConnectionClosedError):
        return StoreClosed("the store is closed")
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and errno in NO_SPACE):
        return StorageFull("there is no space left on the disk")
    if isinstance(error, apsw.SQLError) and "no such table" in str(error):
        return TableNotFound(table)
    if isinstance(error, apsw.SQLError) and "no such index" in str(error):
        return MissingIndex(str(error))
    return _failure(error)


def described(error: Exception) -> KeytablesError:
    if isinstance(error, KeytablesError):
        return error
    failure = _failure(error)
    failure.__cause__ = error
    return failure


def _failure(error: Exception) -> Unavailable:
    return _kind(error)(f"the store failed: {type(error).__name__}: {error}")


def _kind(error: Exception) -> type[Unavailable]:
    if isinstance(error, apsw.FullError):
        return StorageFull
    return StoreDamaged if isinstance(error, _DAMAGED) else Unavailable


class Database:
    """The connections of one process to one file.

    ``writer`` changes it, ``reader`` reads it, ``checkpointer`` copies the log into the file;
    ``lock`` is held during a write transaction, ``space`` is made before its commit. ``wipe``:
    deleted data is overwritten. ``part``: the part of a store that the file must be; None: a whole
    store, which is created when missing. Opening blocks, up to ``opening_timeout`` seconds while
    other processes create the file. Raises Unavailable, StoreLocked when the file is locked for
    longer, and OtherPart.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wipe: bool = False,
        part: Part | None = None,
        opening_timeout: float = 0.5,
    ) -> None:
        self.path, self._wipe, self._part = os.fspath(path), wipe, part
        self.version = _UNDIVIDED if part is None else FILE_VERSION
        """Of the file's format."""
        check_sqlite()
        check_folder(Path(self.path))
        if part is not None and not os.path.exists(self.path):
            raise Unavailable(f"{self.path} is missing, part {part.number} of {part.count}")
        self._usage = open_usage_lock(self.path)
        try:
            self.lock = FairLock(self.path)
        except OSError as error:
            self._usage.close()
            raise Unavailable(f"cannot create lock files beside {self.path}: {error}") from error
        self.space = FileSpace(self.path)
        try:
            try:
                self._connect(opening_timeout)
            except (apsw.FullError, apsw.IOError):  # the index of the log needs some space
                if not self.space.release_reserve():
                    raise
                self._connect(opening_timeout)
                self.space.extend_log()
        except BaseException as error:
            self.lock.close()
            self._usage.close()
            if isinstance(error, apsw.BusyError):
                raise StoreLocked(_LOCKED.format(self.path)) from error
            if isinstance(error, apsw.Error):
                raise _kind(error)(f"cannot open {self.path}: {reason_of(error)}") from error
            raise
        self.space.make_reserve()

    def close(self) -> None:
        """SQLite copies the log into the file if this is the last process."""
        if self._wipe:
            self._truncate_log()
        self.close_readers()
        self.close_writer()

    def _truncate_log(self) -> None:
        """Empty the log, which holds deleted data too, unless another process is writing."""
        if self.lock.try_acquire():
            try:
                with suppress(apsw.Error):
                    self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                self.lock.release()

    def close_readers(self) -> None:
        self.reader.close()
        self.checkpointer.close()

    def close_writer(self) -> None:
        """Close what the writer's thread uses."""
        self.writer.close()
        self.lock.close()
        with suppress(OSError):  # the log, which is gone now, left space for it
            self.space.make_reserve()
        self._usage.close()

    def _connect(self, timeout: float) -> None:
        connections: list[apsw.Connection] = []
        try:
            with suppress(OSError):  # SQLite reports what is wrong with an existing one
                create_private(self.path)
            for _ in range(3):  # one by one, so that all are closed when one fails
                connections += [apsw.Connection(self.path, statementcachesize=_STATEMENTS)]
                # Otherwise a statement that could use a partial index, as most could that of the
                # expiry, is prepared again for each new value: that took longer than the read.
                connections[-1].config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            self.writer, self.reader, self.checkpointer = connections
            self._prepare(timeout)
            if self._wipe:
                self.writer.execute("PRAGMA secure_delete = ON")
        except BaseException:
            for connection in connections:
                connection.close(True)
            raise

    def _prepare(self, timeout: float) -> None:
        writer, reader, checkpointer = self.writer, self.reader, self.checkpointer
        writer.set_busy_timeout(int(timeout * 1000))
        deadline = monotonic() + timeout
        while not self._is_created():
            if self.lock.try_acquire():
                try:
                    self._create()
                finally:
                    self.lock.release()
            elif monotonic() > deadline:
                raise StoreLocked(_LOCKED.format(self.path))
            else:
                sleep(0.005)
        parts = 1 if self._part is None else self._part.count
        cache = max(_LEAST_CACHE, _CACHE // parts)
        for connection in (writer, reader, checkpointer):
            connection.set_busy_timeout(0)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute(f"PRAGMA cache_size = -{cache}")
            self.space.add(connection)
        # A transaction stays in memory until its commit, so statements never wait for the disk. The
        # exception, creating an index of a large table, runs in a thread.
        writer.execute(f"PRAGMA cache_spill = {_SPILL_PAGES}")
        reader.execute("PRAGMA query_only = ON")

    def _is_created(self) -> bool:
        """Whether the file is complete; opening then needs no lock."""
        writer = self.writer
        writer.execute("BEGIN")  # one snapshot: another process may be creating the file
        try:
            version = check_owner(writer, self.path)
            if version or self._part is not None:
                self._check_part(part_in(writer))
        finally:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        return bool(version) and writer.execute("PRAGMA journal_mode").get == "wal"

    def _check_part(self, part: Part | None) -> None:
        if part == self._part:
            return
        if self._part is not None:
            number, count = self._part.number, self._part.count
            raise OtherPart(f"{self.path} is not part {number} of {count} of its store")
        assert part is not None
        if part.number:
            raise OtherPart(f"{self.path} is part {part.number} of {part.count} of a store")
        raise OtherPart(f"{self.path} has {part.count} parts: it is opened by open_engine")

    def _create(self) -> None:
        writer = self.writer
        if writer.execute("PRAGMA journal_mode = WAL").get != "wal":
            raise Unavailable(f"{self.path}: the file system does not allow a shared log")
        with writer:
            if not writer.execute("PRAGMA user_version").get:
                create_catalog(writer, None)


def create_catalog(connection: apsw.Connection, part: Part | None) -> None:
    """Make an empty file a store without tables, or a part of one."""
    connection.execute(_CATALOG)
    if part is not None:
        connection.execute(_PART)
        values = (part.store, part.number, part.count)
        connection.execute("INSERT INTO part VALUES (?, ?, ?)", values)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    version = _UNDIVIDED if part is None else FILE_VERSION
    connection.execute(f"PRAGMA user_version = {version}")


def part_in(connection: apsw.Connection) -> Part | None:
    """Return which part of a store the file is; None: a whole one, or empty."""
    if connection.execute("PRAGMA user_version").get <= _UNDIVIDED:
        return None
    rows = connection.execute("SELECT store, number, count FROM part").fetchall()
    return Part(*rows[0]) if rows else None  # type: ignore[arg-type]  # as declared


def check_owner(connection: apsw.Connection, path: str) -> int:
    """Return the format's version (0: empty). Raises Unavailable: another program's, or newer."""
    execute = connection.execute
    owner = execute("PRAGMA application_id").get
    version: int = execute("PRAGMA user_version").get
    tables = execute("SELECT count(*) FROM sqlite_schema").get
    if owner != APPLICATION_ID and (owner or version or tables):
        raise Unavailable(f"{path} is a database of another program")
    if version > FILE_VERSION:
        raise Unavailable(
            f"{path} was written by a newer version (format {version}, "
            f"this program knows {FILE_VERSION})"
        )
    return version


def open_usage_lock(path: str) -> UsageLock:
    """Declare that this process has the store open, until the lock is closed.

    Raises StoreLocked: it is being replaced or checked; Unavailable: a replacement was interrupted.
    """
    try:
        usage = UsageLock(path)
    except OSError as error:
        raise Unavailable(f"cannot create lock files beside {path}: {error}") from error
    is_shared = usage.try_share()
    if is_shared and not usage.is_marked():
        return usage
    usage.close()
    if is_shared:
        raise Unavailable(f"{path} is being restored, or a restore was interrupted: repeat it")
    raise StoreLocked(f"{path} is being restored, divided or checked")


def open_to_read(path: str) -> apsw.Connection:
    """Return a connection that changes neither the file nor, on closing last, its log."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(_READING_TIMEOUT)
    return connection


def check_sqlite() -> str:
    """Return the version of SQLite. Raises Unavailable: it is too old."""
    version: str = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise Unavailable(
            f"SQLite {version} can corrupt a store shared by several processes; "
            f"{needed} or newer is needed (pip install --upgrade apsw)"
        )
    return version


def create_private(path: str) -> None:
    """Create a file for its owner only, as SQLite then does with its log. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        give_to_owner_of_folder(descriptor, path)
    finally:
        os.close(descriptor)


def check_folder(path: Path) -> None:
    """Create the folder of a store. Raises Unavailable: it, or the store, cannot be written."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot create the data folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Unavailable(f"the data folder {folder} is not writable")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise Unavailable(f"{path} is not readable and writable")


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Raise Unavailable for an error of SQLite or of the system: what failed, and why."""
    try:
        yield
    except apsw.Error as error:
        raise Unavailable(f"{action}: {reason_of(error)}") from error
    except OSError as error:
        raise Unavailable(f"{action}: {error.strerror}") from error


def reason_of(error: apsw.Error) -> str:
    if isinstance(error, apsw.NotADBError):
        return "it is not a database"
    return f"{type(error).__name__}: {error}"


def failure_reports(on_failure: OnFailure | None = None) -> FailureReports:
    loop = asyncio.get_running_loop()
    return FailureReports(on_failure, described, unreported=(MissingIndex,), loop=loop)
