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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zipfile import ZipInfo

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

_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What exports are packed by. Of other methods a few bytes may unpack to any size at once."""

LARGEST_FILE: Final = 512 << 20
"""Bytes of a file, unpacked."""
_MOST_BYTES: Final = 256 << 30
"""Of all files, unpacked."""
_MOST_ENTRIES: Final = 5_000_000
_MOST_TIMES: Final = 250
"""How much larger files may be than what they are packed in, above ``_SMALL`` bytes."""
_SMALL: Final = 16 << 20

_ENCRYPTED, _UTF_8 = 1, 1 << 11
"""Bits of an entry's flags (APPNOTE.TXT, 4.4.4)."""

_NTFS_EPOCH: Final = 11_644_473_600
"""Seconds from 1601, where the times of Windows begin."""

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:")
"""How an absolute path begins, those with a drive letter among them."""


class ArchiveRefused(Exception):  # noqa: N818
    """The archive is not read at all. The message says why."""


class Unreadable(Exception):  # noqa: N818
    """One file of an archive cannot be read. The message says why."""


class Archive:
    """Files by name: relative to the top, with `/` between parts. ``about`` returns a file's
    unpacked size and what else tells it from others of that name and size; ``fetch`` reads a file,
    not much beyond the size that is allowed. ``written`` returns when a file was written, in
    seconds since the epoch; 0 where nothing reliable says so. ``ignored`` are names of what is
    there and is no file.
    """

    def __init__(
        self,
        names: Iterable[str],
        about: Callable[[str], tuple[int, int]],
        fetch: Callable[[str], bytes],
        largest: int,
        *,
        written: Callable[[str], int] = lambda _: 0,
        ignored: Sequence[str] = (),
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._about, self._fetch, self._most = about, fetch, largest
        self.names, self.ignored, self.written, self.close = sorted(names), ignored, written, close
        digest = hashlib.sha256()
        for name in self.names:
            size, mark = about(name)
            digest.update(f"{name}\0{size}\0{mark}\0".encode(errors="surrogateescape"))
        self.fingerprint = digest.hexdigest()[:32]
        """Tells this archive from another one; the same each time it is opened."""

    def size(self, name: str) -> int:
        """How many bytes a file had, unpacked, when the archive was opened."""
        return self._about(name)[0]

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        :raises Unreadable: damaged, gone, or larger than the limit
        """
        try:
            data = self._fetch(name) if self.size(name) <= self._most else None
        except _BAD_FILE as error:
            raise Unreadable(getattr(error, "strerror", None) or f"damaged: {error}") from None
        if data is None or len(data) > self._most:
            raise Unreadable(f"larger than {self._most} bytes")
        return data


def open_archive(path: str | os.PathLike[str], largest: int = LARGEST_FILE) -> Archive:
    """Open a folder or a zip, of which no file is read that is larger than so many bytes.

    :raises ArchiveRefused: there is no such file, it is neither, or it holds what no export does
    """
    place = Path(path)
    try:
        return (_open_folder if place.is_dir() else _open_zip)(place, largest)
    except ArchiveRefused as error:
        raise ArchiveRefused(f"{place}: {error}") from None
    except OSError as error:
        raise ArchiveRefused(f"{place}: {error.strerror or error}") from None
    except _BAD_ZIP as error:
        with place.open("rb") as file:
            is_zip = file.read(2) == b"PK"
        damaged = "a zip that is cut short or damaged; download it again"
        what = damaged if is_zip else "expected a folder or a zip"
        raise ArchiveRefused(f"{place}: {what} ({error})") from None


def _open_folder(folder: Path, largest: int) -> Archive:
    """The files below a folder. Links are not followed."""
    files: dict[str, tuple[int, int]] = {}
    ignored = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = sorted(set(folders) - set(links))
        for path in (Path(place) / name for name in sorted([*names, *links])):
            status, name = path.lstat(), path.relative_to(folder).as_posix()
            if stat.S_ISREG(status.st_mode):
                files[name] = (status.st_size, status.st_mtime_ns)
            else:
                ignored.append(name)

    def fetch(name: str) -> bytes:
        with os.fdopen(os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read(largest + 1)

    # When they were written is not known: copying a folder gives its files a new time.
    return Archive(files, files.__getitem__, fetch, largest, ignored=ignored)


def _open_zip(path: Path, largest: int) -> Archive:
    opened = zipfile.ZipFile(path)
    try:
        entries = _files_of_zip(opened.infolist(), path.stat().st_size)
    except ArchiveRefused:
        opened.close()
        raise

    def about(name: str) -> tuple[int, int]:
        return entries[name].file_size, entries[name].CRC

    def fetch(name: str) -> bytes:
        entry = entries[name]
        if entry.compress_type not in _METHODS:
            raise Unreadable("packed as no export is; unzip it and import the folder")
        with opened.open(entry) as file:
            return file.read(entry.file_size + 1)  # to its end; without a number all is unpacked

    def written(name: str) -> int:
        return _time_of(entries[name])

    return Archive(entries, about, fetch, largest, written=written, close=opened.close)


# ── what a zip holds ─────────────────────────────────────────────────────────────────────────────


def _files_of_zip(entries: Sequence[ZipInfo], size: int) -> dict[str, ZipInfo]:
    """Return the files of a zip of ``size`` bytes by name: relative, with `/` between its parts.
    Slack makes folders of the titles of canvases, so that `:`, `//` and `\\` may be in any path.

    :raises ArchiveRefused: no export is like that
    """
    if len(entries) > _MOST_ENTRIES:
        raise ArchiveRefused(f"{len(entries)} entries, the limit is {_MOST_ENTRIES}")
    files: dict[str, ZipInfo | None] = {}
    for entry in entries:
        path = _path_of(entry)
        parts, is_folder = path.split("/"), path.endswith("/")
        name = "/".join(part for part in parts if part not in ("", "."))
        if _ABSOLUTE.match(path) or ".." in parts or not (name or is_folder):
            raise ArchiveRefused(f"{path!r} is not a plain relative path")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ArchiveRefused(f"{name!r} is a link or a special file")
        if entry.flag_bits & _ENCRYPTED:
            raise ArchiveRefused(f"{name!r} is encrypted")
        _check_ratio(f"{name!r} ", entry.compress_size, entry.file_size)
        if name in files:
            raise ArchiveRefused(f"{name!r} is there twice")
        files[name] = None if is_folder else entry
    total = sum(entry.file_size for entry in entries)
    if total > _MOST_BYTES:
        raise ArchiveRefused(f"{total} bytes when unpacked, the limit is {_MOST_BYTES}")
    # Entries that share their packed bytes pass one by one; all together they do not.
    _check_ratio("", size, total)
    return {name: entry for name, entry in files.items() if entry is not None}


def _check_ratio(what: str, packed: int, unpacked: int) -> None:
    if unpacked > _SMALL and unpacked > packed * _MOST_TIMES:
        raise ArchiveRefused(
            f"{what}unpacks {packed} bytes to {unpacked}, more than {_MOST_TIMES} times as many"
        )


def _path_of(entry: ZipInfo) -> str:
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


def _time_of(entry: ZipInfo) -> int:
    """When a file was written, in seconds since the epoch; 0 for no date. Most programs write it
    in UTC beside the time of the format, which has no time zone and is taken to be UTC.
    """
    for at in _utc_times(entry.extra):
        if at > 0:
            return at
    try:
        return int(datetime(*entry.date_time, tzinfo=UTC).timestamp())
    except ValueError:
        return 0


def _utc_times(extra: bytes) -> Iterator[int]:
    """The times of modification, in seconds since the epoch, in the extra fields of an entry: those
    of Unix, of old Unix, and of Windows, which counts tenths of microseconds (APPNOTE.TXT, 4.5).
    """
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        field, extra = extra[4 : 4 + size], extra[4 + size :]
        if kind == 0x5455 and len(field) >= 5 and field[0] & 1:
            yield int.from_bytes(field[1:5], "little")
        elif kind == 0x5855 and len(field) >= 8:
            yield int.from_bytes(field[4:8], "little")
        elif kind == 0x000A and field[4:8] == b"\x01\x00\x18\x00" and len(field) >= 16:
            yield int.from_bytes(field[8:16], "little") // 10_000_000 - _NTFS_EPOCH
