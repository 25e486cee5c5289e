"""Files beside the store that are kept for speed alone.

Rule: only their owner can read a file; it is written whole or not at all, and overwritten before it
is removed. All of them may be deleted at any time.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

PART: Final = ".part-"
"""What the name of an unfinished file begins with."""


def write_file(folder: Path, name: str, content: bytes) -> Path:
    """Write a file into a folder, which is made if it is missing.

    :raises OSError: it is not written
    """
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    for above in reversed(missing):
        above.mkdir(0o700, exist_ok=True)
    part = folder / f"{PART}{os.urandom(4).hex()}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as to:
            to.write(content)
        return part.rename(folder / name)
    finally:
        part.unlink(missing_ok=True)


def erase(path: Path) -> bool:
    """Overwrite a file and remove it; return whether at least one of both was done."""
    is_erased = False
    with suppress(OSError), path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        os.fsync(file.fileno())
        is_erased = True
    with suppress(OSError):
        path.unlink(missing_ok=True)
        is_erased = True
    return is_erased


def files_in(folder: Path | None) -> list[Path]:
    """What is in a folder, if there is one."""
    names = list[str]()
    if folder is not None:
        with suppress(OSError):  # there is none yet
            names = os.listdir(folder)
    return [Path(folder or "", name) for name in names]
