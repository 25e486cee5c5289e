"""Files beside the store that are kept for speed alone, and those of finished pages.

Rule: only their owner can read a file; it is written whole or not at all, and overwritten before it
is removed. All of them may be deleted at any time.

    pages/<state>-<key>.page   a digest of the name and the content, then the content

``state`` is what the store held when the page was made, ``key`` all else it was made from.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

PART: Final = ".part-"
"""What the name of an unfinished file begins with."""

MOST_BYTES: Final = 256 << 20
"""Of all pages. Those of a workspace of 20,000 people take a tenth of it."""

_SUFFIX: Final = ".page"
_DIGEST: Final = hashlib.sha256().digest_size


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


class PageFiles:
    """The files of pages in a folder, ``most`` bytes of them. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, most: int = MOST_BYTES) -> None:
        self._folder, self._most = folder, most

    async def has(self, state: str, key: str) -> bool:
        """Whether there is a page; it may be damaged."""
        path = self._path(state, key)
        return path is not None and await asyncio.to_thread(path.exists)

    async def get(self, state: str, key: str) -> bytes | None:
        """A page; None where there is none, or a damaged one."""
        path = self._path(state, key)
        if path is None:
            return None
        try:
            kept = await asyncio.to_thread(path.read_bytes)
        except OSError:
            return None
        digest, content = kept[:_DIGEST], kept[_DIGEST:]
        return content if digest == _digest(path.name, content) else None

    async def put(self, state: str, key: str, content: bytes) -> None:
        """Keep a page; the oldest ones make room for it."""
        path = self._path(state, key)
        if path is None:
            return

        def put(path: Path) -> None:
            with suppress(OSError):  # it is kept for speed alone
                write_file(path.parent, path.name, _digest(path.name, content) + content)
            stats = {kept: kept.stat() for kept in self._files()}
            size = sum(stat.st_size for stat in stats.values())
            for oldest in sorted(stats, key=lambda kept: stats[kept].st_mtime_ns):
                if size <= self._most:
                    break
                size -= stats[oldest].st_size
                erase(oldest)

        await asyncio.to_thread(put, path)

    async def keep_only(self, state: str) -> list[Path]:
        """Remove the pages of all other states; return those that can neither be overwritten nor
        removed.
        """
        return await self._remove(lambda path: not path.name.startswith(f"{state}-"))

    async def clear(self) -> list[Path]:
        """Remove all pages; return those that can neither be overwritten nor removed."""
        return await self._remove(lambda _: True)

    async def _remove(self, is_gone: Callable[[Path], bool]) -> list[Path]:
        def remove() -> list[Path]:
            return [path for path in self._files() if is_gone(path) and not erase(path)]

        return await asyncio.to_thread(remove)

    def _files(self) -> list[Path]:
        """The files that were made here, whole and unfinished ones."""
        files = files_in(self._folder)
        return [path for path in files if path.suffix == _SUFFIX or path.name.startswith(PART)]

    def _path(self, state: str, key: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{state}-{key}{_SUFFIX}"


def _digest(name: str, content: bytes) -> bytes:
    """Of the name too: a file that was renamed to another one is not whole."""
    return hashlib.sha256(name.encode() + b"\0" + content).digest()
