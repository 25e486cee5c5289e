"""A folder or a zip of files, opened safely.

Rule: names are plain relative paths, and reading a file takes a bounded amount of memory. A zip
that breaks that, or holds links, bombs or two files of one name, is refused before anything in it
is read. It is judged by its directory alone, and what that says of sizes binds: no file is read
beyond the size it declares. Names are judged after decoding, in the form they are used in.
"""

import hashlib
import os
import re
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from zipfile import ZipInfo

import msgspec

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

_SMALL: Final = 16 << 20
"""Below so many bytes no ratio is suspicious."""

_ENCRYPTED: Final = 1
_UTF_8: Final = 1 << 11
"""Bits of an entry's flags (APPNOTE.TXT, 4.4.4)."""

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:")
"""How an absolute path begins, those with a drive letter among them."""


class ArchiveRefused(Exception):  # noqa: N818
    """The archive is not read at all. The message says why."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds of an archive: what is unpacked, in bytes, of one file and of all; how much larger it
    may be than what it is packed in; how many entries.
    """

    file_bytes: int = 512 << 20
    total_bytes: int = 256 << 30
    ratio: int = 250
    entries: int = 5_000_000


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

    :raises ArchiveRefused: there is no such file, it is neither, or it holds what no export does
    """
    limits = limits or Limits()
    place = Path(path)
    if place.is_dir():
        return FolderArchive(place, limits)
    try:
        return ZipArchive(place, limits)
    except ArchiveRefused as error:
        raise ArchiveRefused(f"{place}: {error}") from None
    except OSError as error:
        raise ArchiveRefused(f"{place}: {error.strerror or error}") from None
    except _BAD_ZIP as error:
        raise ArchiveRefused(f"{place}: {_what_it_is(place)} ({error})") from None


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
                line = f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\0"
                digest.update(line.encode(errors="surrogateescape"))
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
            self._entries = _files_of_zip(self._zip.infolist(), path.stat().st_size, limits)
        except ArchiveRefused:
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


# ── what a zip holds ─────────────────────────────────────────────────────────────────────────────


def _files_of_zip(entries: Sequence[ZipInfo], size: int, limits: Limits) -> dict[str, ZipInfo]:
    """Return the files of a zip of ``size`` bytes by name: relative, with `/` between its parts.

    :raises ArchiveRefused: no export is like that
    """
    if len(entries) > limits.entries:
        raise ArchiveRefused(f"{len(entries)} entries, the limit is {limits.entries}")
    files: dict[str, ZipInfo] = {}
    seen: set[str] = set()
    total = 0
    for entry in entries:
        path = _path(entry)
        name = _name(path)
        is_folder = path.endswith("/")
        if name is None or not (name or is_folder):
            raise ArchiveRefused(f"{path!r} is not a plain relative path")
        _check_entry(entry, name, limits)
        if name in seen:
            raise ArchiveRefused(f"{name!r} is there twice")
        seen.add(name)
        if not is_folder:
            files[name] = entry
        total += entry.file_size
    if total > limits.total_bytes:
        raise ArchiveRefused(f"{total} bytes when unpacked, the limit is {limits.total_bytes}")
    # Entries that share their packed bytes pass one by one; all together they do not.
    if _is_bomb(total, size, limits):
        raise ArchiveRefused(
            f"unpacks {size} bytes to {total}, more than {limits.ratio} times as many"
        )
    return files


def _path(entry: ZipInfo) -> str:
    """The decoded path of an entry, with `/` between its parts, and at the end if it is a folder.

    Names without the UTF-8 flag are cp437 according to the format (APPNOTE.TXT, appendix D), and
    zipfile decodes them so. Slack writes UTF-8 there and does not set the flag.
    """
    path = entry.filename
    if not (entry.flag_bits & _UTF_8 or path.isascii()):
        # What is not UTF-8 keeps the name that zipfile gave it. cp437 has a character for every
        # byte, so nothing is lost on the way back; a name that it cannot encode came from an extra
        # field and is right.
        with suppress(UnicodeError):
            path = path.encode("cp437").decode("utf-8")
    return path.replace("\\", "/")


def _name(path: str) -> str | None:
    """The normal form of a path: `a/b` for `./a//b/`; None if it is absolute or leads upwards.

    Slack makes folders of the titles of canvases, so that `:`, `//` and `\\` may be in any path.
    """
    parts = path.split("/")
    if _ABSOLUTE.match(path) or ".." in parts:
        return None
    if "" in parts or "." in parts:
        return "/".join(part for part in parts if part not in ("", "."))
    return path


def _check_entry(entry: ZipInfo, name: str, limits: Limits) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveRefused(f"{name!r} is a link or a special file")
    if entry.flag_bits & _ENCRYPTED:
        raise ArchiveRefused(f"{name!r} is encrypted")
    if _is_bomb(entry.file_size, entry.compress_size, limits):
        raise ArchiveRefused(
            f"{name!r} unpacks {entry.compress_size} bytes to {entry.file_size}, "
            f"more than {limits.ratio} times as many"
        )


def _is_bomb(unpacked: int, packed: int, limits: Limits) -> bool:
    return unpacked > _SMALL and unpacked > packed * limits.ratio
