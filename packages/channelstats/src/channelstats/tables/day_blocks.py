"""The messages of a date as columns, kept as one text of BulkStore: a block.

Rule: a block is used for the mark that its rows were read under, and only whole; what else is
stored under its name is as good as nothing.

    <form> <mark> <digest of what follows>
    <Parquet, compressed, as base64>
"""

import asyncio
import hashlib
import io
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Final

import polars as pl

from channelstats.tables.columns import MESSAGES
from channelstats.tables.paging import batches
from channelstats.tables.text_store import TextStore

_DIGITS: Final = 16
_AT_ONCE: Final = 4
"""Blocks fetched at once: from a database elsewhere faster than one by one, and from a file in less
than a millisecond, which is as long as nothing else happens.
"""

_FORM: Final = hashlib.sha256(f"1 {dict(MESSAGES)}".encode()).hexdigest()[:8]
"""Another one when the columns are others."""


def name_of(day: str) -> str:
    """The name of a date's block: none that a piece of another text may have."""
    return f"{day} columns"


def text_of(messages: pl.DataFrame, mark: str) -> str:
    """The block of a date's messages, read under that mark."""
    data = io.BytesIO()
    # What statistics of columns are for, leaving out parts of a file, is of no use here.
    messages.select(MESSAGES.names()).write_parquet(data, compression="zstd", statistics=False)
    body = b64encode(data.getvalue())
    return f"{_head(mark, body)}\n{body.decode()}"


def file_in(block: str, mark: str) -> bytes | None:
    """The Parquet file in a block; None if it is of another mark, or damaged."""
    head, _, text = block.partition("\n")
    body = text.encode()
    return b64decode(body) if head == _head(mark, body) else None


def messages_in(files: Iterable[bytes], columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of the messages of many blocks. Together they take a quarter of the time."""
    sources: list[IO[bytes]] = [io.BytesIO(data) for data in files]
    if not sources:
        return MESSAGES.to_frame().select(columns)
    return pl.scan_parquet(sources, schema=MESSAGES).select(columns).collect()


def is_of(block: str, mark: str) -> bool:
    """Whether a block says it is of that mark."""
    return block.startswith(f"{_FORM} {mark} ")


def _head(mark: str, body: bytes) -> str:
    return f"{_FORM} {mark} {hashlib.sha256(body).hexdigest()[:_DIGITS]}"


class DayBlocks:
    """The blocks of all dates."""

    def __init__(self, texts: TextStore) -> None:
        self._texts = texts

    async def get(
        self, marks: Mapping[str, str], columns: Sequence[str]
    ) -> tuple[set[str], pl.DataFrame]:
        """Those of the dates that have a block of these marks, and the messages in them all."""
        found: dict[str, str] = {}
        for some in batches(marks, _AT_ONCE):
            texts = await asyncio.gather(*(self._texts.get(name_of(day)) for day in some))
            pairs = zip(some, texts, strict=True)
            found |= {day: text for day, text in pairs if text is not None}

        def decoded() -> tuple[set[str], pl.DataFrame]:
            files = {day: file_in(text, marks[day]) for day, text in found.items()}
            whole = {day: data for day, data in files.items() if data is not None}
            return set(whole), messages_in(whole.values(), columns)

        return await asyncio.to_thread(decoded)

    async def put(self, day: str, mark: str, messages: pl.DataFrame) -> None:
        """Store a block in place of the one before."""
        text = await asyncio.to_thread(text_of, messages, mark)
        await self._texts.put(name_of(day), text)

    async def delete(self, day: str) -> None:
        await self._texts.delete(name_of(day))

    async def drop_others(self, day: str, mark: str | None) -> None:
        """Delete what is stored for a date, unless it is of that mark."""
        text = await self._texts.get(name_of(day))
        if text is None or mark is None or not is_of(text, mark):
            await self.delete(day)
