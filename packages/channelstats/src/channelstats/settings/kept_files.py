"""Files that the program makes for itself in the data folder: secrets, keys.

Rule: a file is made once and never changes, by whichever of several programs is first; nobody ever
meets half of one, and only its owner can read it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LARGEST: Final = 10_000
"""Bytes that are read of a file."""


def kept_file(folder: Path, name: str, make: Callable[[], bytes]) -> bytes:
    """What a file of the folder holds, made when there is none.

    :raises OSError: the folder cannot be written, or the file not be read
    """
    path = folder / name
    try:
        return _read(path)
    except FileNotFoundError:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        _write(path, make())
        return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST)


def _write(path: Path, content: bytes) -> None:
    """Write a file, unless somebody else did meanwhile."""
    whole = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(whole, path)
    except FileExistsError:
        return  # theirs is the one
    finally:
        whole.unlink()
