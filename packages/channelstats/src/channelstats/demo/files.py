"""Where an export is written: a zip or a folder, file by file.

Rule: a file is written when it is there and let go; the same files make the same zip, byte for
byte.
"""

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Final

_LEVEL: Final = 1
"""Of compression: text of this kind hardly gets smaller by more work."""


class Files(ABC):
    """Files by name, in an order."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file whole."""


class _Folder(Files):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, data: bytes) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class _Zip(Files):
    def __init__(self, archive: zipfile.ZipFile, day: date) -> None:
        self._archive = archive
        self._time = (max(day.year, 1980), day.month, day.day, 0, 0, 0)

    def write(self, name: str, data: bytes) -> None:
        entry = zipfile.ZipInfo(name, self._time)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        self._archive.writestr(entry, data, compresslevel=_LEVEL)


@contextmanager
def opened(path: Path, day: date) -> Iterator[Files]:
    """A zip if the name says so, else a folder. Its files are of that day."""
    if path.suffix.lower() == ".zip":
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            yield _Zip(archive, day)
    else:
        path.mkdir(parents=True, exist_ok=True)
        yield _Folder(path)
