"""Commands called as from a shell, with clocks of the test's, and what they left in the store."""

import asyncio
import os
from pathlib import Path

import pytest

from channelstats.cli import main
from channelstats.tables import Tables
from keytables import Item
from keytables.sqlite import SqliteEngine
from support.channelstats.fake_slack import TOKEN
from support.channelstats.house import UTC, House
from support.channelstats.slack_house import Waits
from support.clocks import ManualClock

Capture = pytest.CaptureFixture[str]

DATA = Path("channelstats-data")
"""The data folder where none is named."""


def called(*arguments: str, now: float, waits: Waits | None = None) -> int:
    """Run a command at that time; return its exit code. Nobody waits in earnest."""
    slept = waits or Waits()
    return main(arguments, clock=lambda: now, monotonic=slept.clock, sleep=slept.sleep)


def error_lines(capfd: Capture) -> list[str]:
    """What came out: all of it on stderr, and no token in it."""
    found = capfd.readouterr()
    assert found.out == ""
    assert TOKEN not in found.err
    return found.err.splitlines()


def stored(name: str = "Message", folder: Path = DATA) -> dict[str, Item]:
    """Everything in a table of a data folder, by key."""

    async def read() -> dict[str, Item]:
        path = (folder / "channelstats.sqlite").absolute()
        engine = await SqliteEngine.open(path, clock=ManualClock())
        try:
            tables = await Tables.open(engine, "channelstats", UTC)
            return await House(engine, tables).items(name)
        finally:
            await engine.close()

    return asyncio.run(read())


def die(*_: object) -> None:
    """End the process that runs it, at once."""
    os._exit(1)
