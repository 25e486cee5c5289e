"""The service's keys: the configured ones, else keys created at the first start and kept in files.

A file holds one key per line, newest first; `#` starts a comment.

Rule: a key file appears whole or not at all, also when processes start at the same time, and no
message shows what is in it.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autopush.settings import StartupError
from autopush.settings.value_types import is_auth_key, is_fernet_key
from autopush.webpush.keyring import new_key

_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_OTHERS: Final = 0o077

_PURPOSE: Final = {
    "crypto_key": "encrypts endpoint URLs: without it every subscription is lost",
    "auth_key": "signs the secrets of the registration API",
}


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """Keys, newest first; the first encrypts or signs, all decrypt or verify."""

    crypto: tuple[str, ...]
    auth: tuple[str, ...]
    """For the registration API; empty where a process has none."""
    made: tuple[Path, ...] = ()
    """Files created by this start, to be reported to the operator."""
    warnings: tuple[str, ...] = ()

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
    """The configured keys; for each kind not configured, those of its file under `data`/keys.

    Processes that start at the same time get the same keys. `auth_needed`: whether this process
    is to have a registration API.

    Raises:
        StartupError: a key file or its folder cannot be read or created, or a line of it is no key.
    """
    crypto, auth = tuple(crypto_key), tuple(auth_key)
    made: list[Path] = []
    warnings: list[str] = []
    if not crypto:
        crypto = _load_or_create(data / "keys" / "crypto_key", is_fernet_key, make, made, warnings)
    if not auth and auth_needed:
        auth = _load_or_create(data / "keys" / "auth_key", is_auth_key, make, made, warnings)
    return ServiceKeys(crypto, auth, tuple(made), tuple(warnings))


def _load_or_create(
    path: Path,
    is_valid: Callable[[str], bool],
    make: Callable[[], str],
    made: list[Path],
    warnings: list[str],
) -> tuple[str, ...]:
    try:
        if not path.exists() and _create(path, make()):
            made.append(path)
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise StartupError(f"cannot keep keys in {path}: {where}: {error.strerror}") from None
    if mode & _OTHERS:
        warnings.append(f"{path} is open to other users (mode {mode:o}): chmod 600 {path}")
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if not is_valid(key):
            raise StartupError(f"{path}:{number}: not a key such as `autokey` makes")
        keys.append(key)
    if not keys:
        raise StartupError(f"{path} holds no key; put back what it held, or remove it for new keys")
    return tuple(keys)


def _create(path: Path, key: str) -> bool:
    """Create the file unless there is one; returns whether this call did."""
    path.parent.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.parent.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
    about = f"# {path.name} {_PURPOSE[path.name]}. Secret; back it up. Newest key first."
    text = f"{about}\n{key}\n"
    # Written under another name and linked: other processes see no file or a whole one.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    finally:
        draft.unlink()
    for folder in (path.parent, path.parent.parent):
        _sync_folder(folder)
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
