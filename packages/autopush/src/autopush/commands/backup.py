"""`autopush backup FOLDER`: a copy of the embedded store and the keys, while the service runs.

A backup is a folder in FOLDER, named by date and time, with the files of a data folder and a list
of them:

    autopush-20261122T164512Z/
        autopush.sqlite     the store, one file without a log
        keys/crypto_key     the keys that are kept in the data folder
        keys/auth_key
        backup.json         when and by which version it was made; size and SHA-256 of each file

Rule: a folder of that name is a whole backup that was read again and checked; what is being written
has another name. Nothing that `autopush backup` has not made is ever removed.
"""

import argparse
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from autopush.clock import Clock
from autopush.commands.running import INCOMPLETE, print_error, progress_bar
from autopush.keys import PURPOSES, key_file
from autopush.settings import Settings, StartupError
from autopush.settings.options import STORE_FILE
from autopush.version import VERSION
from keytables import KeytablesError
from keytables.sqlite.copies import check_copy, copy_store, sync_folder
from keytables.stores import SqliteUrl, parse_store

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
"""Version of the layout above."""

_NAME: Final = re.compile(r"autopush-\d{8}T\d{6}Z(?:-\d+)?")
_UNFINISHED: Final = re.compile(r"\.autopush-[0-9a-f]{16}")
_TERMINATED: Final = 128 + signal.SIGTERM


class SavedFile(msgspec.Struct, frozen=True):
    """What the list says of a file."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The list of a backup. The names of its files are relative to its folder."""

    format: int
    made: str
    """Date and time, in UTC."""
    version: str
    files: dict[str, SavedFile]


def back_up(settings: Settings, arguments: argparse.Namespace, clock: Clock = time.time) -> int:
    """Write a backup, check it, and remove old ones if that is asked for.

    Exit code 1: there is a new backup, and an old one could not be removed.

    Raises:
        StartupError: there is no embedded store, or it cannot be copied; nothing was left.
    """
    store = embedded_store(settings, "back up")
    folder = Path(arguments.folder)
    started = time.monotonic()
    with _ended_by_sigterm(), _locked(folder):
        draft = folder / f".autopush-{secrets.token_hex(8)}"
        try:
            _remove_unfinished(folder)
            manifest = _write(settings, store, draft, clock(), quiet=arguments.quiet)
            backup = _finish(draft, folder, manifest)
        except (OSError, KeytablesError) as error:
            raise StartupError(f"cannot back up to {folder}: {_reason(error)}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        seconds = time.monotonic() - started
        if not arguments.quiet:
            print(f"wrote {backup}: {_describe(manifest)}; checked; {seconds:.1f} s", flush=True)
        for key in sorted(PURPOSES):
            if f"keys/{key}" not in manifest.files and (key == "crypto_key" or settings.auth_key):
                print_error(f"the backup has no {key}: {_place_of(settings, key)}")
        if arguments.keep is not None:
            try:
                _remove_old(folder, backup, arguments.keep, quiet=arguments.quiet)
            except OSError as error:
                print_error(f"cannot remove an old backup: {_reason(error)}")
                return INCOMPLETE
    return 0


def embedded_store(settings: Settings, action: str) -> Path:
    """The file of the embedded store.

    Raises:
        StartupError: the store is another one; `action` is what was to be done with it.
    """
    place = parse_store(settings.store_url)
    if isinstance(place, SqliteUrl):
        return Path(place.path)
    raise StartupError(
        f"cannot {action} {settings.store_place}: use the backups of the database (for DynamoDB, "
        f"point-in-time recovery), and copy the keys in {settings.data / 'keys'} yourself"
    )


def backups_in(folder: Path) -> list[Path]:
    """The backups in a folder, oldest first."""
    found = (name for name in folder.iterdir() if _NAME.fullmatch(name.name))
    return sorted(name for name in found if (name / MANIFEST).is_file())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_date(now: float) -> str:
    """A time as part of a name."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


def _write(settings: Settings, store: Path, draft: Path, now: float, *, quiet: bool) -> Manifest:
    draft.mkdir(mode=0o700)
    (draft / "keys").mkdir(mode=0o700)
    with progress_bar(None, " pages", quiet=quiet) as bar:

        def on_progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        copy_store(store, draft / STORE_FILE, on_progress=on_progress)
    # After the store, so that a key that is added meanwhile is not missing.
    for name in PURPOSES:
        source = key_file(settings.data, name)
        if not getattr(settings, name) and source.exists():
            _copy_private(source, draft / "keys" / name)
    files = sorted(name for name in draft.rglob("*") if name.is_file())
    entries = {
        name.relative_to(draft).as_posix(): SavedFile(name.stat().st_size, digest(name))
        for name in files
    }
    check_copy(draft / STORE_FILE)
    made = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    return Manifest(FORMAT, made, VERSION, entries)


def _finish(draft: Path, folder: Path, manifest: Manifest) -> Path:
    """Write the list, put everything on the disk, and give the folder its name."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    _write_private(draft / MANIFEST, text + b"\n")
    for name in (draft / "keys", draft):
        sync_folder(name)
    stem = f"autopush-{file_date(datetime.fromisoformat(manifest.made).timestamp())}"
    names = (folder / (f"{stem}-{number}" if number else stem) for number in count())
    backup = next(name for name in names if not name.exists())
    draft.rename(backup)
    sync_folder(folder)
    return backup


def _copy_private(source: Path, target: Path) -> None:
    _write_private(target, source.read_bytes())


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _describe(manifest: Manifest) -> str:
    keys = sorted(name.partition("/")[2] for name in manifest.files if name.startswith("keys/"))
    size = manifest.files[STORE_FILE].size / 1e6
    return f"store {size:,.1f} MB, {' and '.join(keys) or 'no keys'}"


def _place_of(settings: Settings, name: str) -> str:
    if getattr(settings, name):
        return f"it is given by {settings.sources[name].of(name)}; keep a copy of it"
    return f"there is no {key_file(settings.data, name)}; keep a copy of what the service uses"


def _reason(error: OSError | KeytablesError) -> str:
    if isinstance(error, KeytablesError):
        return str(error)
    return ": ".join(str(part) for part in (error.filename, error.strerror) if part)


def _remove_unfinished(folder: Path) -> None:
    """What was being written or removed by a run that was killed."""
    for name in folder.iterdir():
        if _UNFINISHED.fullmatch(name.name):
            shutil.rmtree(name)


def _remove_old(folder: Path, newest: Path, keep: int, *, quiet: bool) -> None:
    # By its name `newest` is not that, if the clock was wrong when another one was made.
    old = (backup for backup in backups_in(folder)[:-keep] if backup != newest)
    for backup in old:
        # Under another name first: a removal that is interrupted leaves no half backup.
        doomed = folder / f".autopush-{secrets.token_hex(8)}"
        backup.rename(doomed)
        shutil.rmtree(doomed)
        if not quiet:
            print(f"removed {backup}", flush=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder unless it is there, and let no other backup be written to it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileExistsError:
        raise StartupError(f"{folder} is not a folder") from None
    except OSError as error:
        raise StartupError(f"cannot write to {folder}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartupError(f"another backup is being written to {folder}") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end the work as an exception does, so that nothing half-written is left."""

    def stop(*_: object) -> None:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
