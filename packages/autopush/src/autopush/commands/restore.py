"""`autopush restore BACKUP`: the store and the keys of a backup are put in place.

Rule: the whole backup is checked before anything is changed, nothing is changed while a process has
the store open, and neither the store that was there nor any key is lost.
"""

import argparse
import time
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from autopush.clock import Clock
from autopush.commands.backup import (
    FORMAT,
    MANIFEST,
    Manifest,
    backups_in,
    digest,
    embedded_store,
    file_date,
)
from autopush.keys import PURPOSES, key_file, restore_key
from autopush.service.startup import prepare_data_folder
from autopush.settings import Settings, StartupError
from autopush.settings.options import STORE_FILE
from keytables import KeytablesError
from keytables.sqlite.copies import check_copy, replace_store

_FILES: Final = {STORE_FILE, *(f"keys/{name}" for name in PURPOSES)}
"""What a backup may hold."""


def restore(settings: Settings, arguments: argparse.Namespace, clock: Clock = time.time) -> int:
    """Check a backup and put it in place.

    Raises:
        StartupError: it is no whole backup, or there is a store already, or the store is in use, or
            something cannot be written. Nothing was changed.
    """
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
    """The path, or it with a number where there is one already."""
    names = (path.with_name(f"{path.name}-{number}") if number else path for number in count())
    return next(name for name in names if not name.exists())


def _checked(backup: Path, router_table: str) -> Manifest:
    """The list of a backup whose files are all as they were written."""
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
    """Names the newest backup in the folder, if there are any."""
    found = backups_in(folder) if folder.is_dir() else []
    return f"; the newest in it is {found[-1].name}" if found else ""


def _restore_key(settings: Settings, name: str, saved: Path) -> str:
    path = key_file(settings.data, name)
    is_changed = restore_key(saved, path)
    text = f"restored {path}" if is_changed else f"{path} has all keys of the backup already"
    if getattr(settings, name):
        text += f"; not in use: {name} is given by {settings.sources[name].of(name)}"
    return text
