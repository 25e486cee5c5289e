"""Files that are whole or not there, for their owner alone."""

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
