"""Messages by date, as tests of what is kept of dates look at them."""

import shutil
from collections.abc import AsyncIterator, Sequence
from datetime import date
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import WeakKeyDictionary, finalize
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.tables import Tables
from channelstats.tables.columns import MESSAGES, frame_of
from channelstats.tables.items import everything, table
from channelstats.tables.message_row import MessageRow
from keytables import Engine, TableHandle
from support.gated_engine import GatedEngine

FIRST, LAST = date(2024, 3, 1), date(2024, 3, 20)
NOON = 1_709_985_600
"""2024-03-09, 12:00 UTC."""

Rows = list[tuple[Any, ...]]


def row(hours: float, words: int = 1, cid: str = "C1", **fields: Any) -> MessageRow:
    """A message so many hours after the noon of 2024-03-09."""
    ts = f"{NOON + round(hours * 3600):010d}.000100"
    return MessageRow(cid, ts, "UA", word_count=words, **fields)


_FOLDERS: WeakKeyDictionary[Engine, Path] = WeakKeyDictionary()


def folder_of(engine: Engine) -> Path:
    """Where columns of dates are kept, of whatever goes to the same store; gone with the engine."""
    store = engine.inner if isinstance(engine, GatedEngine) else engine
    if store not in _FOLDERS:
        _FOLDERS[store] = Path(mkdtemp())
        finalize(store, shutil.rmtree, _FOLDERS[store])
    return _FOLDERS[store]


def kept(engine: Engine) -> set[str]:
    """The dates of which columns are kept."""
    return {path.name[:10] for path in folder_of(engine).iterdir()}


async def opened(engine: Engine, zone: str = "UTC") -> Tables:
    """The tables as one process has them."""
    return await Tables.open(engine, "channelstats", ZoneInfo(zone), folder_of(engine))


async def messages_of(engine: Engine) -> TableHandle:
    return await engine.ensure_table(table("channelstats", "Message"))


async def there(engine: Engine) -> Rows:
    """What the table holds."""
    items = [item async for page in everything(await messages_of(engine)) for item in page]
    return in_order([frame_of(items)])


async def read(tables: Tables, first: date = FIRST, last: date = LAST, **how: Any) -> Rows:
    """What is read of the dates."""
    return in_order(await frames(tables.messages.of_days(first, last, **how)))


async def frames(read: AsyncIterator[pl.DataFrame]) -> list[pl.DataFrame]:
    return [frame async for frame in read]


def in_order(found: Sequence[pl.DataFrame]) -> Rows:
    return sorted(pl.concat([MESSAGES.to_frame(), *found]).rows(), key=repr)


async def tamper(engine: Engine, of: MessageRow, words: int = 999) -> None:
    """Change a row behind the back of everything here: whoever reads it so has read the row."""
    handle = await messages_of(engine)
    item = await handle.get((of.cid_ts,))
    assert item is not None
    await handle.put({**item, "word_count": words})


def words(rows: Rows) -> list[int]:
    """The word counts in rows, sorted."""
    column = MESSAGES.names().index("word_count")
    return sorted(row[column] for row in rows)
