"""Copies of a store, made while it is in use, and put in its place; what of a store is damaged.

Rule: a copy is one state of the store (of each part, if it has several), with everything committed
before it began, and no writer waits for it. A store is replaced as a whole, and never while a
process has it open; if that is interrupted, the store cannot be opened until it is repeated. A copy
is a single file without a log, and reading it writes nothing beside it.
"""

import os
import re
import secrets
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, cast

import apsw

from keytables.errors import StoreDamaged, Unavailable
from keytables.sqlite import catalog
from keytables.sqlite.database import (
    StoreLocked,
    check_owner,
    check_sqlite,
    create_private,
    open_to_read,
    open_usage_lock,
    part_in,
    translated,
)
from keytables.sqlite.division import OnProgress, copy_rows, create_store
from keytables.sqlite.layout import part_files, store_files, sync_folder
from keytables.sqlite.locks import UsageLock

STEP_PAGES: Final = 1024
"""Pages (of 4 KiB) between two syncs of the copy: one fsync at the end would hold up those of the
writers (measured on 350 MB: one write took 220 ms instead of 15)."""

_BESIDE: Final = ("-wal", "-shm")


def copy_store(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    on_progress: OnProgress = lambda _done, _total: None,
) -> None:
    """Copy the store at ``path``, which may be in use, to the new file ``target``. Blocks.

    The copy is one file, whatever the number of parts of the store.
    ``on_progress`` is called with the pages copied and all pages; what it raises ends the copying.
    ``target`` does not exist after an error. Raises Unavailable: no store, or it cannot be read, or
    the copy cannot be written.
    """
    path, target = os.fspath(path), os.fspath(target)
    check_sqlite()
    if not os.path.exists(path):
        raise Unavailable(f"there is no store at {path}")
    with closing(open_usage_lock(path)):
        with translated(f"cannot read {path}"):
            files = store_files(path)
        try:
            create_private(target)
        except OSError as error:
            raise Unavailable(f"cannot write {target}: {error.strerror}") from error
        try:
            if len(files) == 1:
                _copy(path, target, on_progress)
            else:
                _merge(files, target, on_progress)
        except BaseException:
            os.unlink(target)
            raise


def check_copy(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Read a whole copy; return its tables. Blocks. Raises Unavailable: damaged or no store."""
    path = os.fspath(path)
    check_sqlite()
    with translated(f"cannot read {path}"), closing(open_to_read(path)) as copy:
        if not check_owner(copy, path):
            raise Unavailable(f"{path} is empty")
        if part_in(copy) is not None:
            raise Unavailable(f"{path} is one part of a store")
        damage: list[str] = []
        find_damage(copy, damage.append)
        if damage:
            raise Unavailable(f"{path} is damaged: {damage[0]}")
        return tuple(catalog.names(copy))


def replace_store(
    path: str | os.PathLike[str],
    copy: str | os.PathLike[str],
    *,
    keep_in: str | os.PathLike[str],
    on_locked: Callable[[], None] = lambda: None,
) -> None:
    """Put a copy of ``copy`` in the place of the store at ``path``. Blocks.

    The files of an old store are moved to the folder ``keep_in``, which must not exist.
    ``on_locked`` is called when the new file is on the disk and no process can open the store;
    until then, and if it raises, nothing is changed. Raises Unavailable: the store is in use, or
    something cannot be written.
    """
    store, kept = Path(path), Path(keep_in)
    draft = store.with_name(f".{store.name}.{secrets.token_hex(8)}")
    with translated(f"cannot replace {store}"), closing(UsageLock(str(store))) as usage:
        if not usage.try_exclude():
            raise Unavailable(f"{store} is in use: stop the service first")
        try:
            _copy_file(Path(copy), draft)
            on_locked()
            with _kept_files(store, kept):
                # From here on the log of the old file could be taken for one of the new file.
                usage.mark()
            for name in (store, *_beside(store)):
                name.unlink(missing_ok=True)
            draft.rename(store)
            sync_folder(store.parent)
            usage.clear_mark()
        finally:
            draft.unlink(missing_ok=True)


def _copy(path: str, target: str, on_progress: OnProgress) -> None:
    with translated(f"cannot copy {path} to {target}"):
        descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with closing(open_to_read(path)) as source, closing(apsw.Connection(target)) as copy:
                # If it fails the file is removed, so it needs no journal.
                copy.execute("PRAGMA journal_mode = OFF")
                copy.execute("PRAGMA synchronous = OFF")
                # The transaction is one state of the store, which all steps copy.
                source.execute("BEGIN")
                if not check_owner(source, path):
                    raise Unavailable(f"there is no store at {path}")
                with copy.backup("main", source, "main") as backup:
                    while not backup.done:
                        backup.step(STEP_PAGES)
                        os.fdatasync(descriptor)
                        on_progress(backup.page_count - backup.remaining, backup.page_count)
            with closing(apsw.Connection(target, flags=apsw.SQLITE_OPEN_READWRITE)) as copy:
                copy.execute("PRAGMA journal_mode = DELETE")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _merge(files: Sequence[str], target: str, on_progress: OnProgress) -> None:
    """Copy all parts of a store into one file."""
    with translated(f"cannot copy {files[0]} to {target}"), ExitStack() as opened:
        sources = [opened.enter_context(closing(open_to_read(file))) for file in files]
        for source, file in zip(sources, files, strict=True):
            source.execute("BEGIN")
            check_owner(source, file)  # reads: from now on it is one state of the part
        create_store(target, None)
        copy_rows(sources, [target], on_progress)


def _copy_file(source: Path, target: Path) -> None:
    """Copy to a new file on the disk, which belongs to the owner of its folder."""
    create_private(str(target))
    with source.open("rb") as reader, target.open("r+b") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())


@contextmanager
def _kept_files(store: Path, folder: Path) -> Iterator[None]:
    """Give the files of the store a second name in a new folder, unless the rest fails."""
    if not store.exists() and not part_files(str(store)):
        yield
        return
    folder.mkdir(mode=0o700)
    try:
        if os.geteuid() == 0:
            owner = store.parent.stat()
            os.chown(folder, owner.st_uid, owner.st_gid)
        for name in (store, *_beside(store)):
            with suppress(FileNotFoundError):
                os.link(name, folder / name.name)
        sync_folder(folder)
        sync_folder(folder.parent)
        yield
    except BaseException:
        shutil.rmtree(folder)
        raise


def _beside(store: Path) -> list[Path]:
    """The files of the store besides its first one, as far as they hold rows."""
    parts = [file.path for file in part_files(str(store))]
    return [*(store.with_name(store.name + ending) for ending in _BESIDE), *parts]


# --- what is damaged ------------------------------------------------------------------------------
#
# Nothing is changed, and no process writes meanwhile unless one had the store open before: for
# SQLite the first damaged frame of the log is its end, and the next write overwrites what follows.

_MAX_FAULTS: Final = 100
"""Faults of one table that SQLite is asked for."""

_INTERRUPT_INTERVAL: Final = 100_000
"""Instructions of SQLite between two checks of the time, when Python can also handle signals."""

_UNREADABLE: Final = "it cannot be read"

_EMPTY: Final = "the file is empty: it has no tables"

_MISSING: Final = "the file is missing: its rows are lost"

_LOG_HEADER: Final = 32
_FRAME_HEADER: Final = 24

_PAGE: Final = re.compile(r"\bpage (\d+)\b")
_INDEX_FAULT: Final = re.compile(r"missing from index|entries in index|non-unique entry in index")


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """``damage``: what is damaged, a sentence each. ``log_damage``: those about a log, whose
    unreadable part is dropped when the store is opened next. ``is_complete``: all was read in time.
    ``is_unclean``: the last process did not close the store. ``is_in_use``: a process has it open,
    so its log was not checked.
    """

    damage: tuple[str, ...] = ()
    log_damage: tuple[str, ...] = ()
    is_complete: bool = True
    is_unclean: bool = False
    is_in_use: bool = False


def check_store(path: str | os.PathLike[str], *, timeout: float) -> StoreCheck:
    """Check the store at ``path``, for about ``timeout`` seconds at most. Blocks.

    Processes that open it meanwhile wait. A store that does not exist is not damaged. Raises
    StoreLocked: it is being replaced or checked; Unavailable: it is of another program or a newer
    version, or cannot be read for another reason than damage.
    """
    path = os.fspath(path)
    check_sqlite()
    if not os.path.exists(path):
        return StoreCheck()
    deadline = monotonic() + timeout
    try:
        with translated(f"cannot check {path}"), closing(UsageLock(path)) as usage:
            is_in_use = not usage.try_exclude()
            if is_in_use and not usage.try_share():
                raise StoreLocked(f"{path} is being restored, divided or checked")
            return _check_files(path, deadline, is_in_use=is_in_use)
    except Unavailable as error:
        if isinstance(error.__cause__, apsw.BusyError):
            locked = f"cannot check {path}: another process keeps it locked"
            raise StoreLocked(locked) from error.__cause__
        raise


def _check_files(path: str, deadline: float, *, is_in_use: bool) -> StoreCheck:
    damage: list[str] = []
    files = [path]
    try:
        files = store_files(path)
    except (apsw.NotADBError, apsw.CorruptError):
        pass  # found again in the file
    except StoreDamaged as error:
        damage.append(str(error))
    checks = [_check_file(file, deadline, is_in_use=is_in_use) for file in files]

    def sentences(texts: tuple[str, ...], file: str) -> Iterator[str]:
        where = f"{os.path.basename(file)}: " if len(files) > 1 else ""
        return (f"{where}{text}" for text in texts)

    pairs = list(zip(checks, files, strict=True))
    return StoreCheck(
        (*damage, *(text for check, file in pairs for text in sentences(check.damage, file))),
        tuple(text for check, file in pairs for text in sentences(check.log_damage, file)),
        is_complete=all(check.is_complete for check in checks),
        is_unclean=any(check.is_unclean for check in checks),
        is_in_use=is_in_use,
    )


def _check_file(path: str, deadline: float, *, is_in_use: bool) -> StoreCheck:
    if not os.path.exists(path):
        return StoreCheck((_MISSING,), is_in_use=is_in_use)
    log, damage = Path(f"{path}-wal"), list[str]()
    log_damage = ""
    is_unclean = not is_in_use and log.exists() and log.stat().st_size > 0
    if not is_in_use and not os.path.getsize(path):
        # SQLite would delete the log of an empty file, even to read it.
        return StoreCheck((_EMPTY,), is_unclean=is_unclean)
    with closing(open_to_read(path)) as connection:
        with suppress(apsw.NotADBError, apsw.CorruptError):  # found again below
            check_owner(connection, path)
            if is_unclean:
                log_damage = _log_damage(connection, log)
        if log_damage:
            damage.append(log_damage)
        is_complete = find_damage(connection, damage.append, deadline=deadline)
    return StoreCheck(
        tuple(damage),
        log_damage=(log_damage,) if log_damage else (),
        is_complete=is_complete,
        is_unclean=is_unclean,
    )


def _log_damage(connection: apsw.Connection, log: Path) -> str:
    """Return how many transactions of the log are unreadable behind a damaged frame, as a sentence;
    empty if none. One may be what was being written when the power was cut.

    Format (https://sqlite.org/fileformat2.html#walformat): a header of 32 bytes with two salts,
    then frames of 24 bytes and a page. Other salts: left over from before the log started over.
    """
    page_size: int = connection.execute("PRAGMA page_size").get
    frames_read, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    commits: list[int] = []
    with log.open("rb") as file:
        header = file.read(_LOG_HEADER)
        salts = header[16:24] if _is_sound(header) else file.read(16)[8:]
        for number in range((log.stat().st_size - _LOG_HEADER) // (_FRAME_HEADER + page_size)):
            file.seek(_LOG_HEADER + number * (_FRAME_HEADER + page_size))
            frame = file.read(_FRAME_HEADER)
            # Of the last frame of a transaction, bytes 4 to 8 are the size of the file.
            if frame[8:16] == salts != bytes(8) and any(frame[4:8]):
                commits.append(number)
    lost = sum(number >= frames_read for number in commits)
    if lost < 2:
        return ""
    return f"the log is damaged: of its {len(commits)} transactions the last {lost} cannot be read"


def _is_sound(header: bytes) -> bool:
    """Whether the header of a log has the checksum that is written in it."""
    if len(header) < _LOG_HEADER:
        return False
    order = ">" if header[3] & 1 else "<"
    words = struct.unpack(f"{order}6I", header[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return header[24:] == struct.pack(">2I", first, second)


def find_damage(
    connection: apsw.Connection, report: Callable[[str], None], *, deadline: float = float("inf")
) -> bool:
    """Call ``report`` with what is damaged in the file, a sentence each.

    Returns whether all was read before ``deadline``, a monotonic time. Raises SQLite's other
    errors.
    """
    connection.set_progress_handler(lambda: monotonic() > deadline, _INTERRUPT_INTERVAL)
    try:
        trees = _trees(connection)
        known = len(trees)
        # Table by table, so that there is a result of some when there is no time for all.
        for table in dict.fromkeys(trees.values()):
            if monotonic() > deadline:
                return False
            faults = _faults(connection, f"integrity_check({_quoted(table)})")
            if faults:
                known = 0
                report(_table_damage(table, faults))
        # The list of free pages belongs to none of them.
        for fault in _faults(connection, f"quick_check({_MAX_FAULTS})") if known else ():
            report(f"the list of free pages is damaged: {fault}")
            break
    except apsw.NotADBError:
        report("the head of the file is damaged: nothing of it can be read")
    except apsw.CorruptError as error:
        report(f"the list of tables is damaged: nothing can be read ({error})")
    except apsw.InterruptError:
        return False
    finally:
        connection.set_progress_handler(None)
    return True


def _trees(connection: apsw.Connection) -> dict[int, str]:
    """Root pages of tables and indexes to the table, as it is named in the file."""
    rows = connection.execute("SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0")
    return {cast(int, page): cast(str, table) for page, table in rows}


def _faults(connection: apsw.Connection, pragma: str) -> list[str]:
    """Return the lines of a check of SQLite; none if all is well."""
    lines: list[str] = []
    try:
        for (text,) in connection.execute(f"PRAGMA {pragma}"):
            lines += str(text).splitlines()
    except apsw.CorruptError:
        lines.append(_UNREADABLE)
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def _table_damage(table: str, faults: list[str]) -> str:
    name = table.rpartition("~")[0] or table
    pages = sorted({int(page) for fault in faults for page in _PAGE.findall(fault)})
    if not pages and all(_INDEX_FAULT.search(fault) for fault in faults):
        return f"table {name!r}: an index does not fit the rows ({faults[0]})"
    place = f" (damaged page {', '.join(map(str, pages[:10]))})" if pages else ""
    return f"table {name!r}: some of its rows cannot be read{place}"


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
