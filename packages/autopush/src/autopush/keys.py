"""The service's keys: configured, or made at the first start and kept in files.

A file holds one key per line, newest first; `#` starts a comment. All its keys are accepted, and
the first encrypts or signs.

Rule: a key file is created and replaced atomically, also by concurrent processes; no key in it is
ever lost, and no message shows one.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autopush.settings import StartupError
from autopush.settings.value_types import is_auth_key, is_fernet_key, without_label
from autopush.webpush.tokens import derive_key, new_key

_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700

PURPOSES: Final = {
    "crypto_key": "encrypts endpoint URLs: without it every subscription is lost",
    "auth_key": "signs the secrets of the registration API",
}
"""The kinds of key: the names of their options and files."""
_VALID: Final = {"crypto_key": is_fernet_key, "auth_key": is_auth_key}
_PREPARED: Final = (
    "# The next key is accepted, but not used yet: `autopush keys rotate` puts it first."
)
"""Comment before a key that all nodes must know before one of them uses it."""


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """Keys, newest first; the first encrypts or signs, all decrypt or verify."""

    crypto: tuple[str, ...]
    auth: tuple[str, ...]
    """For the registration API; empty if the process has none."""
    made: tuple[Path, ...] = ()
    """Files of keys made by this start; `save_keys` creates them."""

    def __repr__(self) -> str:
        return f"ServiceKeys(crypto=<{len(self.crypto)}>, auth=<{len(self.auth)}>)"


def service_keys(
    crypto_key: Sequence[str],
    auth_key: Sequence[str],
    data: Path,
    make: Callable[[], str] = new_key,
    *,
    auth_needed: bool = True,
) -> ServiceKeys:
    """The configured keys; for each kind not configured, those of its file under `data`/keys, else
    a new one. No file is created: a start that is refused leaves none.

    `auth_needed`: whether this process has a registration API.

    :raises StartupError: a key file cannot be read, or a line of it is no key
    """
    crypto, auth = tuple(crypto_key), tuple(auth_key)
    made: list[Path] = []
    if not crypto:
        crypto = _load_or_make(key_file(data, "crypto_key"), make, made)
    if not auth and auth_needed:
        auth = _load_or_make(key_file(data, "auth_key"), make, made)
    return ServiceKeys(crypto, auth, tuple(made))


def save_keys(keys: ServiceKeys) -> ServiceKeys:
    """Create the files of the keys made by this start; returns the keys in the files, and as `made`
    the files created here. Processes that start at the same time get the same keys.

    :raises StartupError: a key file or its folder cannot be created, or another process has written
        something else there
    """
    saved, made = {"crypto_key": keys.crypto, "auth_key": keys.auth}, []
    for path in keys.made:
        with _named(path):
            if _create(path, saved[path.name][0]):
                made.append(path)
            else:
                saved[path.name] = _parse(path, _read(path))
    return ServiceKeys(saved["crypto_key"], saved["auth_key"], tuple(made))


def key_fingerprints(crypto_keys: Sequence[str]) -> tuple[str, ...]:
    """What a store keeps of these keys: 32 hex digits each, which do not reveal the key."""
    return tuple(derive_key(key, "store fingerprint")[:16].hex() for key in crypto_keys)


def node_keys(crypto_keys: Sequence[str]) -> tuple[bytes, ...]:
    """The keys with which nodes prove to each other that they are of one service, one for each
    crypto key.
    """
    return tuple(derive_key(key, "node calls") for key in crypto_keys)


def existing_crypto_keys(crypto_key: Sequence[str], data: Path) -> tuple[str, ...]:
    """The configured keys, or those of the file under `data`/keys; none is created.

    :raises StartupError: there is neither, or the file cannot be read, or a line of it is no key
    """
    if crypto_key:
        return tuple(crypto_key)
    return existing_keys(data, "crypto_key")


def existing_keys(data: Path, name: str) -> tuple[str, ...]:
    """The keys of a file under `data`/keys; none is created.

    :raises StartupError: there is no such file, it cannot be read, or a line of it is no key
    """
    path = key_file(data, name)
    if not path.exists():
        raise StartupError(
            f"there is no {path}: name the data folder of the service, or its {name}"
        )
    with _named(path):
        return _parse(path, _read(path))


def key_file(data: Path, name: str) -> Path:
    """`name`: one of `PURPOSES`."""
    return data / "keys" / name


def _load_or_make(path: Path, make: Callable[[], str], made: list[Path]) -> tuple[str, ...]:
    with _named(path):
        if not path.exists():
            made.append(path)
            return (make(),)
        return _parse(path, _read(path))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise StartupError(f"cannot keep keys in {path}: {where}: {error.strerror}") from None


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")


def _parse(path: Path, text: str) -> tuple[str, ...]:
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        key = without_label(line.strip())
        if not key or key.startswith("#"):
            continue
        if not _VALID[path.name](key):
            raise StartupError(
                f"{path}:{number}: not a key such as `autokey` makes, or a published one"
            )
        keys.append(key)
    if not keys:
        raise StartupError(f"{path} holds no key; put back what it held, or remove it for new keys")
    return tuple(keys)


def _create(path: Path, key: str) -> bool:
    """Create the file, and its folder; False if there is one."""
    path.parent.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.parent.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    about = f"# {path.name} {PURPOSES[path.name]}. Secret; back it up. Newest key first."
    text = f"{about}\n{key}\n"
    # Written under another name and linked: other processes see no file or a whole one.
    with _draft(path, text) as draft:
        _set_owner(path.parent.parent, draft, path.parent)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    for folder in (path.parent, path.parent.parent):
        _sync_folder(folder)
    return True


@contextmanager
def _draft(path: Path, text: str) -> Iterator[Path]:
    """A file with that text beside `path`, synced; removed at the end unless it was renamed."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def restore_key(saved: Path, path: Path) -> bool:
    """Make the key file at `path` accept every key of a saved one; returns whether it was changed.

    A file that holds them all stays as it is: it may have been rotated since they were saved.
    Otherwise the saved keys come first, and the other keys of the file stay accepted.

    :raises StartupError: a file cannot be read or written, or a line of it is no key
    """
    with _named(saved):
        text = _read(saved)
        keys = _parse(saved, text)
    with _named(path):
        if not path.exists():
            path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            write_private(path, text, path.parent.parent)
            return True
        with _locked(path.parent):
            present = _parse(path, _read(path))
            if set(keys) <= set(present):
                return False
            others = [key for key in present if key not in keys]
            lines = [*text.splitlines(), *others]
            _replace(path, "\n".join(lines) + "\n", must_hold=[*keys, *others])
        return True


def write_private(path: Path, text: str, owned_like: Path) -> None:
    """Put a file for its owner only in place of a former one, whole or not at all. `owned_like`:
    has the same owner, where this process is root.
    """
    with _draft(path, text) as draft:
        _set_owner(owned_like, draft, path.parent)
        draft.rename(path)
    _sync_folder(path.parent)


def _set_owner(owned_like: Path, *names: Path) -> None:
    if os.geteuid() == 0:  # the service may run as another user, who owns the data folder
        owner = owned_like.stat()
        for name in names:
            os.chown(name, owner.st_uid, owner.st_gid)


# ── Rotation ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a rotation does to a key file."""

    path: Path
    before: int
    """How many keys it held; all stay accepted."""
    was_prepared: bool
    """Whether the new first key was in the file already, as the prepared one."""


def rotate_key(
    data: Path,
    name: str,
    *,
    prepare: bool = False,
    dry_run: bool = False,
    make: Callable[[], str] = new_key,
) -> Rotation:
    """Put a new key first in the file of that kind: the prepared one, else one made now.

    With `prepare` a new key is put last: accepted, but not used before the next rotation.
    Concurrent rotations run one after the other. Owner, mode and comments of the file stay.

    :raises StartupError: the file is missing, invalid or not writable, or a key is prepared
        already; nothing was changed
    """
    path = key_file(data, name)
    with _named(path), _locked(path.parent):
        text = _read(path)
        keys = _parse(path, text)
        lines = text.splitlines()
        prepared = _find_prepared(lines)
        if prepare and prepared is not None:
            raise StartupError(f"{path} has a prepared key already; rotate without --prepare")
        if prepare:
            lines += [_PREPARED, make()]
        elif prepared is None:
            lines.insert(_first_key(lines), make())
        else:
            key = lines.pop(prepared)
            del lines[prepared - 1]
            lines.insert(_first_key(lines), key)
        if not dry_run:
            _replace(path, "\n".join(lines) + "\n", must_hold=keys)
        return Rotation(path, len(keys), prepared is not None)


def _find_prepared(lines: Sequence[str]) -> int | None:
    """The line of a prepared key that is not the first key of the file."""
    for number, line in enumerate(lines[1:], 1):
        if lines[number - 1].strip() == _PREPARED and line.strip() and line.strip()[0] != "#":
            return number if number > _first_key(lines) else None
    return None


def _first_key(lines: Sequence[str]) -> int:
    return next(n for n, line in enumerate(lines) if line.strip() and line.strip()[0] != "#")


def _replace(path: Path, text: str, *, must_hold: Sequence[str]) -> None:
    if not set(must_hold) <= set(_parse(path, text)):
        raise AssertionError("a rotation would lose a key")
    path_itself = path.resolve()  # a link stays a link
    before = path_itself.stat()
    with _draft(path_itself, text) as draft:
        # The service may run as another user than the one who rotates.
        if (os.geteuid(), os.getegid()) != (before.st_uid, before.st_gid):
            os.chown(draft, before.st_uid, before.st_gid)
        draft.chmod(before.st_mode & 0o777)
        draft.replace(path_itself)
    _sync_folder(path_itself.parent)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on changes of keys in the folder; it ends with the process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
