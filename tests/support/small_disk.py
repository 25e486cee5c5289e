"""A disk of a few megabytes, which a test can fill."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tools import run_captured

__all__ = ["fill", "small_disk"]


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of ``size`` bytes on a new folder; skips the test where that is refused."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    try:
        mounted = run_captured(command)
        reason = mounted.stderr.strip() if mounted.returncode else ""
    except FileNotFoundError as error:
        reason = str(error)
    if reason:
        pytest.skip(f"a disk that can be filled needs the right to mount: {reason}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all space that is left there, as another program does, and return the file."""
    path = folder / "other"
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(os.urandom(4096))
    return path
