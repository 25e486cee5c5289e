"""The messages of a date as columns, kept in a file beside the store.

Rule: a file is used for the version that its rows were read under, and only whole; what else is in
the folder is as good as nothing. A file does not outlive its version: it is overwritten and removed
by the run that ended the version, and on another machine by the first reading of a process.

    <yyyy-mm-dd>-<version>-<digest of its content, for this date and version>.parquet

They hold IDs, times and counts, never text; only their owner can read them. Where the folder cannot
be written to nothing is kept, and messages are read from rows.
"""

import asyncio
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import polars as pl

from channelstats.tables.columns import MESSAGES
from keytables.stores import SqliteUrl, parse_store

_NAME: Final = re.compile(r"(\d{4}-\d{2}-\d{2})-([0-9a-f]+)-([0-9a-f]{16})\.parquet")
_PART: Final = ".part-"
_FORM: Final = f"2 {dict(MESSAGES)}"
"""Goes into digests: they are others when the columns are others."""

Versions = Mapping[str, str | None]
"""By date; None for a date that is being written to, of which no file is right."""


def folder_of(store: str, prefix: str, data: Path) -> Path:
    """Where the files of a store are: beside the embedded one, of another one in the data folder.
    ``store`` is its URL.
    """
    url = parse_store(store)
    if isinstance(url, SqliteUrl):
        return Path(f"{url.path}.days", prefix)
    return data / "days" / hashlib.sha256(f"{store} {prefix}".encode()).hexdigest()[:16]


class DayFiles:
    """The files in a folder, which is made for the first of them. Without one nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def find(self, versions: Versions) -> dict[str, Path]:
        """The files of these versions, by date. They may be damaged."""

        def found() -> dict[str, Path]:
            return {
                day: path
                for path, day, version in self._files()
                if version is not None and versions.get(day) == version
            }

        return await asyncio.to_thread(found)

    async def read(
        self, files: Mapping[str, Path], columns: Sequence[str]
    ) -> tuple[set[str], pl.DataFrame]:
        """Those of the dates whose file is whole, and the messages in them all."""

        def read() -> tuple[set[str], pl.DataFrame]:
            contents = {day: _content(path) for day, path in files.items()}
            whole = {day: data for day, data in contents.items() if data is not None}
            sources: list[IO[bytes]] = [io.BytesIO(data) for data in whole.values()]
            if not sources:
                return set(), MESSAGES.to_frame().select(columns)
            # Together they take a quarter of the time.
            return set(whole), pl.scan_parquet(sources, schema=MESSAGES).select(columns).collect()

        return await asyncio.to_thread(read)

    async def put(self, day: str, version: str, messages: pl.DataFrame) -> None:
        """Keep the messages of a date in place of what was kept of it."""
        if self._folder is not None:
            await asyncio.to_thread(self._put, self._folder, day, version, messages)

    async def drop(self, days: Iterable[str]) -> None:
        """Remove all that is kept of these dates."""
        gone = frozenset(days)
        await asyncio.to_thread(self._remove, lambda day, _: day in gone)

    async def keep_only(self, versions: Versions) -> None:
        """Remove whatever is not of these versions."""
        await asyncio.to_thread(
            self._remove, lambda day, version: version is None or versions.get(day) != version
        )

    # ── in a thread ──────────────────────────────────────────────────────────────────────────────

    def _put(self, folder: Path, day: str, version: str, messages: pl.DataFrame) -> None:
        file = io.BytesIO()
        # What statistics of columns are for, leaving out parts of a file, is of no use here.
        messages.select(MESSAGES.names()).write_parquet(file, compression="zstd", statistics=False)
        content = file.getvalue()
        part = folder / f"{_PART}{os.urandom(4).hex()}"
        with suppress(OSError):  # it is kept for speed alone: a full disk fails no report
            for one in (*reversed(folder.parents[:2]), folder):
                one.mkdir(0o700, parents=True, exist_ok=True)
            try:
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as to:
                    to.write(content)
                kept = part.rename(
                    folder / f"{day}-{version}-{_digest(day, version, content)}.parquet"
                )
            finally:
                part.unlink(missing_ok=True)
            self._remove(lambda of, _: of == day, but=kept)

    def _remove(self, is_gone: Callable[[str, str | None], bool], but: Path | None = None) -> None:
        for path, day, version in self._files():
            if path != but and is_gone(day, version):
                _erase(path)

    def _files(self) -> list[tuple[Path, str, str | None]]:
        """The files that were made here, with date and version; of unfinished ones without."""
        folder, found = self._folder, list[tuple[Path, str, str | None]]()
        if folder is None:
            return found
        with suppress(OSError):  # there is none yet
            for name in os.listdir(folder):
                if match := _NAME.fullmatch(name):
                    found.append((folder / name, match[1], match[2]))
                elif name.startswith(_PART):
                    found.append((folder / name, "", None))
        return found


def _digest(day: str, version: str, content: bytes) -> str:
    """Of a date too: a file that was renamed to another one is not whole."""
    return hashlib.sha256(f"{_FORM} {day} {version} ".encode() + content).hexdigest()[:16]


def _content(path: Path) -> bytes | None:
    """What a file holds; None if it is damaged, of other columns, or gone."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    match = _NAME.fullmatch(path.name)
    is_whole = match is not None and match[3] == _digest(match[1], match[2], content)
    return content if is_whole else None


def _erase(path: Path) -> None:
    """Overwrite a file and remove it; one that cannot be written to is removed all the same."""
    # Somebody else has removed it, or made it read-only.
    with suppress(OSError), path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        os.fsync(file.fileno())
    with suppress(OSError):
        path.unlink()
