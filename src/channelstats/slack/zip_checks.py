"""What a zip must not hold: names that lead elsewhere, links, bombs, two files of one name.

Rule: judged by the directory of the zip alone. What it says of sizes binds: no file is read beyond
the size it declares.
"""

import stat
from collections.abc import Sequence
from typing import Final
from zipfile import ZipInfo

import msgspec

_SMALL: Final = 16 << 20
"""Below so many bytes no ratio is suspicious."""

_ENCRYPTED: Final = 1


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


def check_zip(entries: Sequence[ZipInfo], size: int, limits: Limits) -> None:
    """Raise Refused for a zip of ``size`` bytes that no export is."""
    if len(entries) > limits.entries:
        raise Refused(f"{len(entries)} entries, the limit is {limits.entries}")
    seen: set[str] = set()
    total = 0
    for entry in entries:
        _check_entry(entry, limits)
        name = entry.filename.rstrip("/")
        if name in seen:
            raise Refused(f"{name!r} is there twice")
        seen.add(name)
        total += entry.file_size
    if total > limits.total_bytes:
        raise Refused(f"{total} bytes when unpacked, the limit is {limits.total_bytes}")
    # Entries that share their packed bytes pass one by one; all together they do not.
    if _is_bomb(total, size, limits):
        raise Refused(f"unpacks {size} bytes to {total}, more than {limits.ratio} times as many")


def _check_entry(entry: ZipInfo, limits: Limits) -> None:
    name = entry.filename
    parts = name.removesuffix("/").split("/")
    if "\\" in name or ":" in parts[0] or any(part in ("", ".", "..") for part in parts):
        raise Refused(f"{name!r} is not a plain relative path")
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
