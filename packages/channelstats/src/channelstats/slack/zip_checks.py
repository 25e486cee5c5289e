"""The files of a zip by name, and what a zip must not hold: names that lead out of it, links,
bombs, two files of one name.

Rule: judged by the directory of the zip alone. What it says of sizes binds: no file is read beyond
the size it declares. Names are judged after decoding, in the form they are used in.
"""

import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from zipfile import ZipInfo

import msgspec

_SMALL: Final = 16 << 20
"""Below so many bytes no ratio is suspicious."""

_ENCRYPTED: Final = 1
_UTF_8: Final = 1 << 11
"""Bits of an entry's flags (APPNOTE.TXT, 4.4.4)."""

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:")
"""How an absolute path begins, those with a drive letter among them."""


class Refused(Exception):  # noqa: N818
    """The archive is not read at all. The message says why."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds of an archive: what is unpacked, in bytes, of one file and of all; how much larger it
    may be than what it is packed in; how many entries.
    """

    file_bytes: int = 512 << 20
    total_bytes: int = 256 << 30
    ratio: int = 250
    entries: int = 5_000_000


def files_of_zip(entries: Sequence[ZipInfo], size: int, limits: Limits) -> dict[str, ZipInfo]:
    """Return the files of a zip of ``size`` bytes by name: relative, with `/` between its parts.

    :raises Refused: no export is like that
    """
    if len(entries) > limits.entries:
        raise Refused(f"{len(entries)} entries, the limit is {limits.entries}")
    files: dict[str, ZipInfo] = {}
    seen: set[str] = set()
    total = 0
    for entry in entries:
        path = _path(entry)
        name = _name(path)
        is_folder = path.endswith("/")
        if name is None or not (name or is_folder):
            raise Refused(f"{path!r} is not a plain relative path")
        _check_entry(entry, name, limits)
        if name in seen:
            raise Refused(f"{name!r} is there twice")
        seen.add(name)
        if not is_folder:
            files[name] = entry
        total += entry.file_size
    if total > limits.total_bytes:
        raise Refused(f"{total} bytes when unpacked, the limit is {limits.total_bytes}")
    # Entries that share their packed bytes pass one by one; all together they do not.
    if _is_bomb(total, size, limits):
        raise Refused(f"unpacks {size} bytes to {total}, more than {limits.ratio} times as many")
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
        raise Refused(f"{name!r} is a link or a special file")
    if entry.flag_bits & _ENCRYPTED:
        raise Refused(f"{name!r} is encrypted")
    if _is_bomb(entry.file_size, entry.compress_size, limits):
        raise Refused(
            f"{name!r} unpacks {entry.compress_size} bytes to {entry.file_size}, "
            f"more than {limits.ratio} times as many"
        )


def _is_bomb(unpacked: int, packed: int, limits: Limits) -> bool:
    return unpacked > _SMALL and unpacked > packed * limits.ratio
