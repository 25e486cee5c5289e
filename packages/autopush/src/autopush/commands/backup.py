"""`autopush backup` and `restore`: the files of the embedded store and of the keys.

A backup is a folder in FOLDER, named by date and time: the store as one file without a log, the
keys that are kept in the data folder, and `backup.json`, the `Manifest`.

Rule: a folder with such a name is a complete, verified backup; an unfinished one has another name.
A restore changes nothing before the whole backup is verified, or while a process has the store
open; it loses neither the previous store nor any key.
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
from autopush.commands import CommandLine
from autopush.commands.arguments import add_number
from autopush.commands.running import INCOMPLETE, name_store, progress_bar
from autopush.keys import PURPOSES, key_file, restore_key
from autopush.service.data_folder import prepare_data_folder
from autopush.settings import Settings, StartupError
from autopush.settings.options import STORE_FILE
from autopush.telemetry import logs
from autopush.version import VERSION
from keytables import KeytablesError
from keytables.sqlite.copies import check_copy, copy_store, replace_store
from keytables.sqlite.layout import sync_folder

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
"""Version of what is in the folder."""

_NAME: Final = re.compile(r"autopush-\d{8}T\d{6}Z(?:-\d+)?")
_UNFINISHED: Final = re.compile(r"\.autopush-[0-9a-f]{16}")
_TERMINATED: Final = 128 + signal.SIGTERM


class SavedFile(msgspec.Struct, frozen=True):
    """A file's entry in the manifest."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """`backup.json`; the names of files are relative to its folder."""

    format: int
    made: str
    """ISO 8601, UTC."""
    version: str
    files: dict[str, SavedFile]


def back_up(settings: Settings, arguments: argparse.Namespace, clock: Clock = time.time) -> int:
    """Write and verify a backup, then remove old ones if asked to.

    Returns 1 if the backup was written but an old one could not be removed.
    """
    store = embedded_store(settings, "back up")
    folder = Path(arguments.folder)
    started = time.monotonic()
    with _ended_by_sigterm(), _locked(folder):
        draft = folder / f".autopush-{secrets.token_hex(8)}"
        try:
            _remove_unfinished(folder)
            if not arguments.quiet and store.exists():
                name_store(settings)
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
                logs.print_error(f"the backup has no {key}: {_place_of(settings, key)}")
        if arguments.keep is not None:
            try:
                _remove_old(folder, backup, arguments.keep, quiet=arguments.quiet)
            except OSError as error:
                logs.print_error(f"cannot remove an old backup: {_reason(error)}")
                return INCOMPLETE
    return 0


def embedded_store(settings: Settings, action: str) -> Path:
    """The file of the embedded store; raises StartupError for any other store."""
    if (path := settings.store_file) is not None:
        return Path(path)
    raise StartupError(
        f"cannot {action} {settings.store_place}: use the backups of the database (DynamoDB: "
        f"point-in-time recovery; PostgreSQL: pg_dump), and copy the keys in "
        f"{settings.data / 'keys'} yourself"
    )


def backups_in(folder: Path) -> list[Path]:
    """The backups in a folder, oldest first."""
    candidates = (name for name in folder.iterdir() if _NAME.fullmatch(name.name))
    return sorted(name for name in candidates if (name / MANIFEST).is_file())


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_date(now: float) -> str:
    """UTC, such as 20261122T164512Z."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


def _write(settings: Settings, store: Path, draft: Path, now: float, *, quiet: bool) -> Manifest:
    draft.mkdir(mode=0o700)
    (draft / "keys").mkdir(mode=0o700)
    with progress_bar(None, " pages", quiet=quiet) as bar:

        def on_progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        copy_store(store, draft / STORE_FILE, on_progress=on_progress)
    # Copied after the store, so that a key added meanwhile is included.
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
    """Write the manifest, sync everything to disk, and rename the folder to its final name."""
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
    """Remove what a killed run was writing or removing."""
    for name in folder.iterdir():
        if _UNFINISHED.fullmatch(name.name):
            shutil.rmtree(name)


def _remove_old(folder: Path, newest: Path, keep: int, *, quiet: bool) -> None:
    # `newest` may not sort last: the clock may have been wrong for another one.
    old = (backup for backup in backups_in(folder)[:-keep] if backup != newest)
    for backup in old:
        # Renamed first: an interrupted removal must not leave half a backup.
        doomed = folder / f".autopush-{secrets.token_hex(8)}"
        backup.rename(doomed)
        shutil.rmtree(doomed)
        if not quiet:
            print(f"removed {backup}", flush=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder if it is missing, and lock it against other backups."""
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
    """Turn SIGTERM into SystemExit, so that an unfinished backup is removed."""

    def stop(*_: object) -> None:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ── Restore ───────────────────────────────────────────────────────────────────────────────────────

_FILES: Final = {STORE_FILE, *(f"keys/{name}" for name in PURPOSES)}


def restore(settings: Settings, arguments: argparse.Namespace, clock: Clock = time.time) -> int:
    started = time.monotonic()
    store, backup = embedded_store(settings, "restore"), Path(arguments.backup)
    manifest = _checked(backup, settings.router_tablename)
    existed = store.exists()
    kept = _free_name(store.parent / f"before-restore-{file_date(clock())}")
    if existed and not arguments.force:
        raise StartupError(
            f"there is a store at {store}; with --force it is replaced, and kept in "
            f"{store.parent} as before-restore-…"
        )
    prepare_data_folder(settings.data)
    if store.parent != settings.data.absolute():
        prepare_data_folder(store.parent)
    lines: list[str] = []

    def restore_keys() -> None:
        saved = [name for name in sorted(PURPOSES) if f"keys/{name}" in manifest.files]
        lines.extend(_restore_key(settings, name, backup / "keys" / name) for name in saved)

    try:
        replace_store(store, backup / STORE_FILE, keep_in=kept, on_locked=restore_keys)
    except KeytablesError as error:
        raise StartupError(f"cannot restore: {error}") from error
    if existed:
        lines.append(f"kept the store that was there in {kept}")
    seconds = time.monotonic() - started
    first = f"restored {store} from {backup}, made {manifest.made}; {seconds:.1f} s"
    print("\n".join([first, *lines]))
    return 0


def _free_name(path: Path) -> Path:
    """The path, with a number appended if it exists."""
    names = (path.with_name(f"{path.name}-{number}") if number else path for number in count())
    return next(name for name in names if not name.exists())


def _checked(backup: Path, router_table: str) -> Manifest:
    """The manifest of a backup, after verifying all its files; StartupError if one is damaged."""
    try:
        manifest = msgspec.json.decode((backup / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise StartupError(f"{backup} is no backup: it has no {MANIFEST}{_hint(backup)}") from None
    except OSError as error:
        raise StartupError(f"cannot read {backup / MANIFEST}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise StartupError(f"{backup / MANIFEST} is damaged: {error}") from None
    if manifest.format != FORMAT:
        raise StartupError(
            f"{backup} was made by autopush {manifest.version}, in format {manifest.format}; this "
            f"version knows {FORMAT}"
        )
    if unknown := manifest.files.keys() - _FILES:
        raise StartupError(f"{backup / MANIFEST} is damaged: it lists {min(unknown)[:40]!r}")
    if STORE_FILE not in manifest.files:
        raise StartupError(f"{backup / MANIFEST} is damaged: it lists no {STORE_FILE}")
    for name, saved in manifest.files.items():
        path = backup / name
        try:
            is_same = path.stat().st_size == saved.size and digest(path) == saved.sha256
        except OSError as error:
            raise StartupError(f"{backup} is not whole: {path}: {error.strerror}") from None
        if not is_same:
            raise StartupError(f"{path} is damaged: it is not the file that was written")
    try:
        tables = check_copy(backup / STORE_FILE)
    except KeytablesError as error:
        raise StartupError(f"cannot restore: {error}") from error
    if router_table not in tables:
        raise StartupError(
            f"{backup / STORE_FILE} has no table {router_table}: is router_tablename as it was?"
        )
    return manifest


def _hint(folder: Path) -> str:
    backups = backups_in(folder) if folder.is_dir() else []
    return f"; the newest in it is {backups[-1].name}" if backups else ""


def _restore_key(settings: Settings, name: str, saved: Path) -> str:
    path = key_file(settings.data, name)
    is_changed = restore_key(saved, path)
    text = f"restored {path}" if is_changed else f"{path} has all keys of the backup already"
    if getattr(settings, name):
        text += f"; not in use: {name} is given by {settings.sources[name].of(name)}"
    return text


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    about = "where the backup is written, in a new folder named by date and time"
    parser.add_argument("folder", metavar="FOLDER", help=about)
    group = parser.add_argument_group("What to do")
    about = "then remove all backups in FOLDER but the newest N [default: keep all]"
    add_number(group, "--keep", None, (1, 100_000), about)
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    about = "a backup: a folder that `autopush backup` has written"
    parser.add_argument("backup", metavar="BACKUP", help=about)
    group = parser.add_argument_group("What to do")
    about = "replace the store that there is now; it is kept in the data folder"
    group.add_argument("--force", action="store_true", help=about)


COMMANDS: Final = {
    "backup": CommandLine(back_up, _add_backup_arguments, "FOLDER"),
    "restore": CommandLine(restore, _add_restore_arguments, "BACKUP"),
}
