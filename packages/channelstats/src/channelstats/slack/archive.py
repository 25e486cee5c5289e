"""A folder or a zip of files, opened safely.

Rule: names are plain relative paths, and reading a file takes a bounded amount of memory. A zip
that breaks that is refused before anything in it is read.
"""

import hashlib
import os
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from channelstats.slack.zip_checks import Limits, Refused, files_of_zip

_BAD_ZIP: Final = (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error)
"""What zipfile raises where the directory of a zip is damaged, or beyond it."""

_BAD_FILE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OSError,
    UnicodeDecodeError,
)
"""What zipfile raises where a file of a zip is damaged, its name among the rest."""

_BEGIN: Final = b"PK"
"""How every zip begins."""

__all__ = ["Archive", "Limits", "Refused", "Unreadable", "open_archive"]


class Unreadable(Exception):  # noqa: N818
    """One file of an archive cannot be read. The message says why."""


class Archive(ABC):
    """Files by name. Names use `/` and are relative to the top of the export."""

    names: list[str]
    """Every file, sorted."""

    fingerprint: str
    """Tells this archive from another one; the same each time it is opened."""

    ignored: list[str]
    """Names of what is there and is no file."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file.

        :raises Unreadable: damaged, gone, or larger than the limit
        """

    @abstractmethod
    def size(self, name: str) -> int:
        """How many bytes a file had, unpacked, when the archive was opened."""

    def close(self) -> None:  # noqa: B027
        """Let go of the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_archive(path: str | os.PathLike[str], limits: Limits | None = None) -> Archive:
    """Open a folder or a zip.

    :raises Refused: there is no such file, it is neither, or it holds what no export does
    """
    limits = limits or Limits()
    place = Path(path)
    if place.is_dir():
        return FolderArchive(place, limits)
    try:
        return ZipArchive(place, limits)
    except Refused as error:
        raise Refused(f"{place}: {error}") from None
    except OSError as error:
        raise Refused(f"{place}: {error.strerror or error}") from None
    except _BAD_ZIP as error:
        raise Refused(f"{place}: {_what_it_is(place)} ({error})") from None


def _what_it_is(path: Path) -> str:
    """What a file is that cannot be opened as a zip."""
    with path.open("rb") as file:
        if file.read(len(_BEGIN)) == _BEGIN:
            return "a zip that is cut short or damaged; download it again"
    return "expected a folder or a zip"


class FolderArchive(Archive):
    """The files below a folder. Links are not followed."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self.names, self.ignored = [], []
        self._sizes: dict[str, int] = {}
        digest = hashlib.sha256()
        for place, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if not self._is_other(place, name))
            for name in sorted(files):
                status = (Path(place) / name).lstat()
                relative = (Path(place) / name).relative_to(folder).as_posix()
                if not stat.S_ISREG(status.st_mode):
                    self.ignored.append(relative)
                    continue
                self.names.append(relative)
                self._sizes[relative] = status.st_size
                told = f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\0"
                digest.update(told.encode(errors="surrogateescape"))
        self.names.sort()
        self.fingerprint = digest.hexdigest()[:32]

    def _is_other(self, place: str, name: str) -> bool:
        inner = Path(place) / name
        if inner.is_symlink():
            self.ignored.append(inner.relative_to(self._folder).as_posix())
            return True
        return False

    def read(self, name: str) -> bytes:
        try:
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(self._limits.file_bytes + 1)
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from None
        if len(data) > self._limits.file_bytes:
            raise Unreadable(f"larger than {self._limits.file_bytes} bytes")
        return data

    def size(self, name: str) -> int:
        return self._sizes[name]


class ZipArchive(Archive):
    """The files of a zip."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._zip = zipfile.ZipFile(path)
        self._limits = limits
        self.ignored = []
        try:
            self._entries = files_of_zip(self._zip.infolist(), path.stat().st_size, limits)
        except Refused:
            self._zip.close()
            raise
        self.names = sorted(self._entries)
        digest = hashlib.sha256()
        for name in self.names:
            info = self._entries[name]
            digest.update(f"{name}\0{info.file_size}\0{info.CRC}\0".encode())
        self.fingerprint = digest.hexdigest()[:32]

    def read(self, name: str) -> bytes:
        info = self._entries[name]
        if info.file_size > self._limits.file_bytes:
            raise Unreadable(f"larger than {self._limits.file_bytes} bytes")
        try:
            return self._zip.read(info)
        except _BAD_FILE as error:
            raise Unreadable(f"damaged: {error}") from None

    def size(self, name: str) -> int:
        return self._entries[name].file_size

    def close(self) -> None:
        self._zip.close()
