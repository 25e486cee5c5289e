"""Faults of the machine inside a process that a test starts: a failing disk, a clock that was set.

Python imports it at the start of a process whose PYTHONPATH names this folder. A file, mapped into
the memory of that process and of those it forks, says what happens now; `support.machine_faults`
describes and writes it. Nothing happens without it.
"""

import os
import random
import struct
import time
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

CONTROL: Final = "INJECTED_FAULTS"
"""The variable that names the file."""
CLOCK: Final = struct.Struct("d")
FAULT: Final = struct.Struct("II")
SWEEP_INTERVAL: Final = 0.5
OPERATIONS: Final = (
    "read database",
    "read log",
    "write database",
    "write log",
    "sync database",
    "sync log",
)


def _main(path: str) -> None:
    with Path(path).open("rb") as file:
        control = mmap(file.fileno(), 0, access=ACCESS_READ)
    _set_clock(control)
    _sweep_often()
    _register_disk(control, os.open(f"{path}-injected", os.O_WRONLY | os.O_APPEND))


def _set_clock(control: mmap) -> None:
    """Have the wall clock differ; the steady clocks are those of the machine."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + CLOCK.unpack_from(control)[0]
    time.time_ns = lambda: nanoseconds() + int(CLOCK.unpack_from(control)[0] * 1e9)


def _sweep_often() -> None:
    """Have an embedded store sweep often, as a wrong clock does not last for long."""
    with suppress(ImportError):
        from keytables.sqlite import SqliteEngine

        defaults = SqliteEngine.open.__kwdefaults__
        assert defaults is not None
        assert "sweep_interval" in defaults
        defaults["sweep_interval"] = SWEEP_INTERVAL


def _register_disk(control: mmap, injected: int) -> None:
    """Have SQLite use a file system that fails as the file says."""
    try:
        import apsw
    except ImportError:
        return

    last_errno = 0

    def fail(operation: int) -> None:
        nonlocal last_errno
        number, thousandths = FAULT.unpack_from(control, CLOCK.size + operation * FAULT.size)
        if not number or random.randrange(1000) >= thousandths:
            return
        os.write(injected, bytes((operation, number)))
        last_errno = number
        # A write without space is "full"; any other failure has an errno, as with the real one.
        if operation in (2, 3) and number in (28, 122):
            raise apsw.FullError("database or disk is full")
        error = apsw.IOError("disk I/O error")
        kind = ("READ", "WRITE", "FSYNC")[operation // 2]
        # apsw hands it to SQLite; its type stub does not know it.
        vars(error)["extendedresult"] = getattr(apsw, f"SQLITE_IOERR_{kind}")
        raise error

    class FailingFile(apsw.VFSFile):
        def __init__(self, filename: "str | apsw.URIFilename | None", flags: list[int]) -> None:
            super().__init__("unix", filename, flags)
            # Of the database and of its log; those that SQLite makes for itself do not fail.
            is_log = flags[1] & apsw.SQLITE_OPEN_WAL
            self.kind = is_log and 1 if flags[0] & (apsw.SQLITE_OPEN_MAIN_DB | is_log) else -1

        def xRead(self, amount: int, offset: int) -> bytes:
            if self.kind >= 0:
                fail(self.kind)
            return super().xRead(amount, offset)

        def xWrite(self, data: bytes, offset: int) -> None:
            if self.kind >= 0:
                fail(2 + self.kind)
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:
            if self.kind >= 0:
                fail(4 + self.kind)
            super().xSync(flags)

        def xLock(self, level: int) -> None:
            try:
                super().xLock(level)
            except apsw.IOError as error:
                # At the end of a connection for reading SQLite tries a lock for writing, and takes
                # it well that there is none. An exception of Python's would reach its user.
                raise apsw.BusyError(str(error)) from error

    class FailingDisk(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("failing", "unix", makedefault=True)

        def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> FailingFile:
            return FailingFile(name, flags)

        def xGetLastError(self) -> tuple[int, str]:
            return last_errno, os.strerror(last_errno)

    # SQLite keeps no reference of Python's to it.
    apsw.failing_disk = FailingDisk()  # type: ignore[attr-defined]


if CONTROL in os.environ:
    _main(os.environ[CONTROL])
