"""The files of a store: one, or several parts, each with the rows of some partitions.

Rule: the file at the store's path is part 0, and alone says how many parts there are. The other
files are beside it: ``PATH-1of4`` is part 1 of 4. All rows of one partition are in one part.
"""

import os
import re
import struct
from contextlib import closing, suppress
from glob import escape
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import apsw

from keytables.errors import StoreDamaged, Unavailable
from keytables.sqlite.database import (
    APPLICATION_ID,
    FILE_VERSION,
    OtherPart,
    Part,
    StoreLocked,
    open_to_read,
    part_in,
)
from keytables.sqlite.locks import open_lock_file

MAX_PARTS: Final = 1024

_HEAD: Final = struct.Struct(">60xI4xI")
"""Format version and application id (https://sqlite.org/fileformat2.html#the_database_header). A
division writes them into the file itself, not only into a log, and nothing else changes them."""


def part_of(partition: object, parts: int) -> int:
    """Return the part with the rows of a partition; the same in every process and version."""
    if isinstance(partition, str):
        content = partition.encode(errors="surrogatepass")
    elif isinstance(partition, bytes):
        content = partition
    else:
        if isinstance(partition, float) and partition.is_integer():
            partition = int(partition)  # 1 and 1.0 are the same key
        content = repr(partition).encode()
    return crc32(content) % parts


def part_path(path: str, number: int, parts: int) -> str:
    return f"{path}-{number}of{parts}" if number else path


def read_part(path: str) -> Part | None:
    """Return which part the file at ``path`` is; None: a whole store, or none at all. Blocks.

    Raises StoreDamaged, StoreLocked, and errors of SQLite and of the system.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD.size)
    except FileNotFoundError:
        return None
    if len(head) < _HEAD.size or _HEAD.unpack(head) != (FILE_VERSION, APPLICATION_ID):
        return None  # opening the file says what it is
    try:
        with closing(open_to_read(path)) as connection:
            part = part_in(connection)
    except apsw.BusyError as error:
        raise StoreLocked(f"cannot open {path}: another process keeps it locked") from error
    if part is None or not 0 <= part.number < part.count <= MAX_PARTS:
        raise StoreDamaged(f"{path} does not say how many parts the store has")
    return part


def first_part(path: str) -> Part | None:
    """As :func:`read_part`, for the path of a store. Raises OtherPart for that of another part."""
    part = read_part(path)
    if part is not None and part.number:
        raise OtherPart(f"{path} is part {part.number} of {part.count} of a store")
    return part


def count_parts(path: str) -> int:
    """Return the number of parts of the store at ``path``. Raises as :func:`first_part`."""
    part = first_part(path)
    return 1 if part is None else part.count


def store_files(path: str) -> list[str]:
    """Return the file of each part. Raises as :func:`first_part`."""
    count = count_parts(path)
    return [part_path(path, number, count) for number in range(count)]


class PartFile(NamedTuple):
    """A file of part ``number`` of ``parts``: its rows, or what is beside them, as a log."""

    path: Path
    number: int
    parts: int
    has_rows: bool

    def is_of(self, parts: int) -> bool:
        """Whether a store of that many parts has it."""
        return self.parts == parts and self.number < parts


def part_files(path: str) -> list[PartFile]:
    """Return the existing files of other parts than 0, also those of none that the store has."""
    store = Path(path)
    pattern = re.compile(rf"{re.escape(store.name)}-(\d+)of(\d+)(-[a-z]+)?")
    files = sorted(store.parent.glob(f"{escape(store.name)}-*"))
    matches = [(file, pattern.fullmatch(file.name)) for file in files]
    return [
        PartFile(file, int(match[1]), int(match[2]), match[3] is None)
        for file, match in matches
        if match
    ]


def check_part_files(path: str) -> None:
    """Raise Unavailable if there are parts that the store does not have, and no division left them:
    they may hold rows, of a store whose first file was moved away.
    """
    # The mark is set before a division makes a file, and another process may divide right now: so
    # the files are listed first. Those of a division that has ended since are looked at once more.
    files = [file for file in part_files(path) if file.has_rows]
    if DivisionMark(path).exists():
        return
    count = count_parts(path)
    for file in files:
        if not file.is_of(count) and file.path.exists():
            raise Unavailable(
                f"{file.path} is part of a store, but not of that in {path}: put back the file "
                "that was there, or move the part elsewhere"
            )


class DivisionMark:
    """A file beside the store from before the first change of a division until after its last.

    Without it no file is taken for one that an interrupted division left.
    """

    def __init__(self, path: str) -> None:
        self._path, self._mark = path, Path(f"{path}-division")

    def exists(self) -> bool:
        return self._mark.exists()

    def set(self) -> None:
        os.close(open_lock_file(str(self._mark)))
        sync_folder(self._mark.parent)

    def complete(self) -> None:
        """Remove the files of parts that the store does not have, and the mark. Blocks.

        Called while no division can begin, or by the one that does.
        """
        if not self.exists():
            return
        count = count_parts(self._path)
        for file in part_files(self._path):
            if not file.is_of(count):
                file.path.unlink(missing_ok=True)
        sync_folder(self._mark.parent)
        self._mark.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- who has it open ------------------------------------------------------------------------------

_LOCKS: Final = Path("/proc/locks")
_LOCK_FILES: Final = ("", "-shm", "-open", "-turn", "-queue")
"""Endings of the files beside a store on which processes have locks."""


def lock_holders(path: str) -> list[str]:
    """Return names and ids of other processes that lock the store; none if not on Linux."""
    return [f"{_name_of(pid)} (pid {pid})" for pid in lock_holding_pids(path)]


def lock_holding_pids(path: str) -> list[int]:
    inodes: set[int] = set()
    parts = [str(file.path) for file in part_files(path)]
    for file in (*(f"{path}{ending}" for ending in _LOCK_FILES), *parts):
        with suppress(OSError):
            inodes.add(os.stat(file).st_ino)
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    pids: dict[int, None] = {}
    for line in lines:
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:10010671 0 EOF; with "->" of one that waits
        fields = line.split()
        if "->" in fields or len(fields) < 6:
            continue
        pid, inode = fields[4], fields[5].rpartition(":")[2]
        if pid.isdigit() and inode.isdigit() and int(inode) in inodes and int(pid) != os.getpid():
            pids[int(pid)] = None
    return list(pids)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"
