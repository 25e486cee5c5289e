"""Of commands that write messages one goes on at a time, and a killed one is in nobody's way."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from channelstats.cli import main
from channelstats.commands import NOT_DONE
from keytables.sqlite import SqliteEngine
from support.channelstats.called import Capture
from support.channelstats.dated import opened
from support.channelstats.house import EXAMPLE
from support.paths import TESTS


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    return ["import-export", str(EXAMPLE), "--data", str(tmp_path / "data")]


WRITER = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.channelstats.dated import opened, row
from keytables.sqlite import SqliteEngine

async def write():
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = await SqliteEngine.open(path, clock=time.time)
    tables = await opened(engine)
    async with tables.writing(time.time):
        await tables.messages.write([row(0), row(24)])
        print("writing", flush=True)
        await asyncio.Event().wait()

asyncio.run(write())
"""
"""A run that never comes to its end."""


def test_a_second_import_is_refused_until_the_first_is_dead(
    data: list[str], tmp_path: Path, capfd: Capture
) -> None:
    store = tmp_path / "data" / "channelstats.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store), str(TESTS)], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        assert main(data) == NOT_DONE
        said = capfd.readouterr().err
        assert said.count("\n") == 1
        assert "another import or sync has been writing since 20" in said
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()

    async def open_days() -> set[str]:
        engine = await SqliteEngine.open(store, clock=time.time)
        try:
            return set(await (await opened(engine)).messages.versions.opened())
        finally:
            await engine.close()

    assert asyncio.run(open_days()) == {"2024-03-09", "2024-03-10"}
    assert main(data) == 0
    assert asyncio.run(open_days()) == set()
