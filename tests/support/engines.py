"""The engines that tests of the domain run on, by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.memory_engine import MemoryEngine
from tablestore import Clock, Engine
from tablestore.sqlite import SqliteEngine

NAMES = ("memory", "sqlite")


@asynccontextmanager
async def engine(name: str, folder: Path, clock: Clock) -> AsyncIterator[Engine]:
    """Open the engine of that name and close it again."""
    opened: Engine
    if name == "memory":
        opened = MemoryEngine(clock)
    else:
        opened = await SqliteEngine.open(folder / "store.sqlite", clock=clock)
    try:
        yield opened
    finally:
        await opened.close()
