"""Connections to the file, the checks before it is used, and SQLite's errors as ours.

The one rule: a file that is not ours, or newer than we are, is refused and left as it is.
"""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import apsw

from keytables.errors import KeytablesError, TableNotFound, Throttled, Unavailable
from keytables.sqlite.locks import Turns

__all__ = ["Database", "IndexMissing", "translate"]

APPLICATION_ID: Final = 0x7AB1E501
"""Marks a file as ours (``PRAGMA application_id``)."""

FILE_VERSION: Final = 1
"""The layout of the file (``PRAGMA user_version``)."""

OLDEST_SQLITE: Final = (3, 51, 3)
"""Versions before this can corrupt a write-ahead log that several processes share (the "WAL reset
bug" of sqlite.org/wal.html)."""

_CATALOG: Final = (
    "CREATE TABLE catalog (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, "
    "declaration TEXT NOT NULL)"
)
_IN_MEMORY: Final = 16_384
"""Pages (of 4 KiB) that a transaction may have changed before it begins to write them out: far
more than one of the usual size changes."""

_OPENING_TIMEOUT: Final = 5.0
"""Seconds to wait for other programs while the file is opened."""


class IndexMissing(Unavailable):
    """A statement names an index that is not there; it never leaves the engine."""


def translate(error: apsw.Error, table: str = "") -> KeytablesError:
    """Return our error for one of SQLite's."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Throttled(f"the store is locked: {error}")
    if isinstance(error, apsw.ConnectionClosedError):
        return Unavailable("the store is closed")
    if isinstance(error, apsw.SQLError) and "no such table" in str(error):
        return TableNotFound(table)
    if isinstance(error, apsw.SQLError) and "no such index" in str(error):
        return IndexMissing(str(error))
    return Unavailable(f"the store failed: {type(error).__name__}: {error}")


class Database:
    """The connections of one process to one file.

    ``writer`` changes it, ``reader`` answers reads, ``checkpointer`` moves the log into the file.
    With ``wipe`` what is deleted is overwritten. Opening blocks; do it in a thread. Raises
    Unavailable.
    """

    __slots__ = ("_wipe", "checkpointer", "path", "reader", "turns", "writer")

    def __init__(self, path: str | os.PathLike[str], wipe: bool = False) -> None:
        self.path, self._wipe = os.fspath(path), wipe
        _check_sqlite()
        _check_folder(Path(self.path))
        try:
            self.turns = Turns(self.path)
        except OSError as error:
            raise Unavailable(f"cannot make lock files beside {self.path}: {error}") from error
        opened: list[apsw.Connection] = []
        try:
            _make_private(self.path)
            for _ in range(3):  # one by one: those opened are closed when a later one fails
                opened += [apsw.Connection(self.path, statementcachesize=256)]
            self.writer, self.reader, self.checkpointer = opened
            self._prepare()
            if wipe:
                self.writer.execute("PRAGMA secure_delete = ON")
        except BaseException as error:
            for connection in opened:
                connection.close(True)
            self.turns.close()
            if isinstance(error, apsw.Error):
                raise Unavailable(f"cannot open {self.path}: {_reason(error)}") from error
            raise

    def close(self) -> None:
        """Close everything; the last process to do so moves the whole log into the file."""
        if self._wipe:
            self._empty_log()
        self.close_readers()
        self.close_writer()

    def _empty_log(self) -> None:
        """Move the log into the file, unless somebody is at it: it holds what was deleted, too."""
        if self.turns.try_take():
            try:
                with suppress(apsw.Error):
                    self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                self.turns.give()

    def close_readers(self) -> None:
        """Close what the thread of the writer does not use."""
        self.reader.close()
        self.checkpointer.close()

    def close_writer(self) -> None:
        """Close the rest."""
        self.writer.close()
        self.turns.close()

    def _prepare(self) -> None:
        writer, reader, checkpointer = self.writer, self.reader, self.checkpointer
        writer.set_busy_timeout(int(_OPENING_TIMEOUT * 1000))
        deadline = monotonic() + _OPENING_TIMEOUT
        while not self._is_made():
            if self.turns.try_take():
                try:
                    self._make()
                finally:
                    self.turns.give()
            elif monotonic() > deadline:
                raise Unavailable(f"cannot open {self.path}: another process keeps it locked")
            else:
                sleep(0.005)
        for connection in (writer, reader, checkpointer):
            connection.set_busy_timeout(0)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA cache_size = -8192")
        # A transaction stays in memory until its commit, so statements never wait for the disk. Not
        # the one that makes an index of a large table: it needs no more memory than that, and runs
        # in a thread.
        writer.execute(f"PRAGMA cache_spill = {_IN_MEMORY}")
        reader.execute("PRAGMA query_only = ON")

    def _is_made(self) -> bool:
        """Whether there is nothing to change: then opening needs no turn, whoever holds it."""
        execute = self.writer.execute
        with self.writer:  # one snapshot: another process may be making it right now
            owner = execute("PRAGMA application_id").get
            version = execute("PRAGMA user_version").get
            tables = execute("SELECT count(*) FROM sqlite_schema").get
        if owner != APPLICATION_ID and (owner or version or tables):
            raise Unavailable(f"{self.path} is a database of another program")
        if version > FILE_VERSION:
            raise Unavailable(
                f"{self.path} was written by a newer version (layout {version}, "
                f"this program knows {FILE_VERSION})"
            )
        return bool(version) and execute("PRAGMA journal_mode").get == "wal"

    def _make(self) -> None:
        writer = self.writer
        if writer.execute("PRAGMA journal_mode = WAL").get != "wal":
            raise Unavailable(f"{self.path}: the file system does not allow a shared log")
        with writer:
            if not writer.execute("PRAGMA user_version").get:
                writer.execute(_CATALOG)
                writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                writer.execute(f"PRAGMA user_version = {FILE_VERSION}")


def _check_sqlite() -> None:
    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split("."))) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise Unavailable(
            f"SQLite {version} can corrupt a store shared by several processes; "
            f"{needed} or newer is needed (pip install --upgrade apsw)"
        )


def _make_private(path: str) -> None:
    """Make a new file for its owner alone; its log and index get the same mode."""
    with suppress(OSError):  # what is wrong with one that is there, SQLite will say
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _check_folder(path: Path) -> None:
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot make the data folder {folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Unavailable(f"the data folder {folder} is not writable")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise Unavailable(f"{path} is not readable and writable")


def _reason(error: apsw.Error) -> str:
    if isinstance(error, apsw.NotADBError):
        return "it is not a database"
    return f"{type(error).__name__}: {error}"
