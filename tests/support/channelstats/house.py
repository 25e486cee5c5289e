"""Tables on the embedded engine, and exports taken into them."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import polars as pl

from channelstats.counting import Counting
from channelstats.facts import Options, Period
from channelstats.facts.reading import load_inputs
from channelstats.ingest.export_import import ExportImport, ImportOptions, ImportResult
from channelstats.ingest.runs import OnEvent, ignore_event
from channelstats.pages.document import report
from channelstats.slack.export import Export
from channelstats.tables import Tables
from channelstats.tables.items import HASH_KEYS, table
from keytables import Engine, Item, TableHandle
from keytables.sqlite import SqliteEngine
from support.clocks import ManualClock
from support.paths import PACKAGES

UTC = ZoneInfo("UTC")
NOW = 1_711_000_000.0
"""2024-03-21: after everything in the worked example."""

EXAMPLE = PACKAGES / "channelstats" / "tests" / "example"
"""The export of the worked example, as a folder."""


@dataclass
class House:
    """The tables of one workspace, and the engine below them."""

    engine: Engine
    tables: Tables
    days: Path | None = None
    """The folder of columns of dates."""

    def kept(self) -> pl.DataFrame:
        """What the files of columns hold, with the ``day`` of each message."""
        assert self.days is not None
        files = sorted(self.days.glob("*.parquet"))
        day = {file: pl.lit(file.name[:10]).alias("day") for file in files}
        return pl.concat([pl.read_parquet(file).with_columns(day[file]) for file in files])

    async def table(self, name: str) -> TableHandle:
        return await self.engine.ensure_table(table("channelstats", name))

    async def items(self, name: str) -> dict[str, Item]:
        """Everything in a table, by key."""
        handle = await self.table(name)
        page = await handle.scan()
        found = page.items
        while page.cursor is not None:
            page = await handle.scan(after=page.cursor)
            found += page.items
        return {str(item[HASH_KEYS[name]]): item for item in found}

    async def everything(self) -> dict[str, dict[str, Item]]:
        """Every table with all it holds, but for what runs keep of their own: marks of dates, of
        which none is ever made twice, what was seen when, and which import was the last.
        """
        found = {name: await self.items(name) for name in HASH_KEYS}
        kept = "days", "seen", "last_import"
        own = [key for key in found["Configuration"] if key.split(" ")[0] in kept]
        for key in own:
            del found["Configuration"][key]
        return found

    async def take_in(
        self,
        export: Path,
        options: ImportOptions | None = None,
        now: float = NOW,
        on_event: OnEvent = ignore_event,
        counting: Counting = Counting(),  # noqa: B008 - it is frozen
    ) -> ImportResult:
        """Import an export."""
        with closing(Export.open(export)) as archive:
            run = ExportImport(
                archive,
                self.tables,
                clock=ManualClock(now),
                counting=counting,
                options=options,
                on_event=on_event,
            )
            return await run.run()

    async def report(self, period: Period, options: Options) -> bytes:
        inputs = await load_inputs(self.tables, period, options)
        return report(inputs, period, options, generated_at=int(NOW))


def decoded(document: bytes) -> Any:
    """A report document, looked into freely."""
    return orjson.loads(document)


@asynccontextmanager
async def house(folder: Path, zone: ZoneInfo = UTC) -> AsyncIterator[House]:
    """Tables in a file of that folder."""
    engine = await SqliteEngine.open(folder / "store.sqlite", clock=ManualClock(NOW))
    try:
        tables = await Tables.open(engine, "channelstats", zone, folder / "days")
        yield House(engine, tables, folder / "days")
    finally:
        await engine.close()


@asynccontextmanager
async def copied_house(of: Path, folder: Path) -> AsyncIterator[House]:
    """The tables of a folder, whose store is closed, in another one."""
    shutil.copytree(of, folder, dirs_exist_ok=True)
    async with house(folder) as opened:
        yield opened


def make_store(
    folder: Path, export: Path | None = None, options: ImportOptions | None = None
) -> Path:
    """Make the store of a house in that folder, with an export in it if one is given."""

    async def make() -> None:
        async with house(folder) as opened:
            if export is not None:
                await opened.take_in(export, options=options)

    asyncio.run(make())
    return folder
