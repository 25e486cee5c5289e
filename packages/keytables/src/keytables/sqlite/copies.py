"""Copies of a store: made while it is in use, checked, and put in its place.

Rule: a copy is one state of the store, with everything that was committed before it began, and no
writer waits for it. A file of a store is replaced as a whole, and never while a process has the
store open; if that is interrupted, the store cannot be opened until it was repeated.

A copy is a single file: it has no log, and nothing is written beside it when it is read.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from keytables.errors import Unavailable
from keytables.sqlite.database import (
    check_owner,
    check_sqlite,
    create_private,
    open_to_read,
    open_usage_lock,
    reason_of,
)
from keytables.sqlite.locks import UsageLock
from keytables.sqlite.store_check import find_damage

STEP_PAGES: Final = 1024
"""Pages (of 4 KiB) after which the copy is put on the disk: an fsync of all of it at the end would
hold up those of the writers (measured on 350 MB: one write took 220 ms, in place of 15)."""

_BESIDE: Final = ("-wal", "-shm")
"""What belongs to a file while it is in use."""


def copy_store(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Copy the store at ``path``, which processes may be using, to the new file ``target``.

    ``on_progress`` is called with the pages copied so far, and all pages; what it raises ends the
    copying. Blocks. ``target`` does not exist after an error. Raises Unavailable: there is no such
    store, or it cannot be read, or the copy cannot be written.
    """
    path, target = os.fspath(path), os.fspath(target)
    check_sqlite()
    if not os.path.exists(path):
        raise Unavailable(f"there is no store at {path}")
    with closing(open_usage_lock(path)):
        try:
            create_private(target)
        except OSError as error:
            raise Unavailable(f"cannot write {target}: {error.strerror}") from error
        try:
            _copy(path, target, on_progress)
        except BaseException:
            os.unlink(target)
            raise


def check_copy(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Read the whole copy, and return the names of its tables. Blocks.

    Raises Unavailable: it is damaged, or no store.
    """
    path = os.fspath(path)
    check_sqlite()
    with _translated(f"cannot read {path}"), closing(open_to_read(path)) as copy:
        if not check_owner(copy, path):
            raise Unavailable(f"{path} is empty")
        damage: list[str] = []
        find_damage(copy, damage.append)
        if damage:
            raise Unavailable(f"{path} is damaged: {damage[0]}")
        return tuple(str(name) for (name,) in copy.execute("SELECT name FROM catalog"))


def replace_store(
    path: str | os.PathLike[str],
    copy: str | os.PathLike[str],
    *,
    keep_in: str | os.PathLike[str],
    on_locked: Callable[[], None] = lambda: None,
) -> None:
    """Put a copy of a copy in the place of the store at ``path``. Blocks.

    The folder ``keep_in``, which must not exist, is created if there is a store now; its files are
    moved there. ``on_locked`` is called when the new file is on the disk and no process can open
    the store; until then, and if it raises, nothing is changed. Raises Unavailable: a process has
    the store open, or something cannot be written.
    """
    store, kept = Path(path), Path(keep_in)
    draft = store.with_name(f".{store.name}.{secrets.token_hex(8)}")
    with _translated(f"cannot replace {store}"), closing(UsageLock(str(store))) as usage:
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


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(path: str, target: str, on_progress: Callable[[int, int], None]) -> None:
    with _translated(f"cannot copy {path} to {target}"):
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


def _copy_file(source: Path, target: Path) -> None:
    """Copy to a new file on the disk, which belongs to the owner of its folder."""
    create_private(str(target))
    with source.open("rb") as reader, target.open("r+b") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        folder = target.parent.stat()
        if os.geteuid() == 0:
            os.fchown(writer.fileno(), folder.st_uid, folder.st_gid)
        os.fsync(writer.fileno())


@contextmanager
def _kept_files(store: Path, folder: Path) -> Iterator[None]:
    """Give the files of the store a second name in a new folder, unless the rest fails."""
    if not store.exists():
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
    return [store.with_name(store.name + ending) for ending in _BESIDE]


@contextmanager
def _translated(action: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise Unavailable(f"{action}: {reason_of(error)}") from error
    except OSError as error:
        raise Unavailable(f"{action}: {error.strerror}") from error
