"""Two processes on one store: one writes, the other makes and reads columns of days meanwhile."""

import asyncio
import os
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

from channelstats.tables import Tables
from channelstats.tables.columns import MESSAGES
from keytables.sqlite import SqliteEngine
from support.channelstats.dated import read, there, words
from support.channelstats.writing_process import HOURS
from support.soak import times

TS, WORDS = (MESSAGES.names().index(name) for name in ("ts", "word_count"))
RUNS = times(12, 200)


async def test_what_is_read_beside_a_writer_is_never_older_than_what_was_read_before(
    tmp_path: Path,
) -> None:
    store, folder = tmp_path / "store.sqlite", tmp_path / "days"
    engine = await SqliteEngine.open(store)
    tables = await Tables.open(engine, "channelstats", ZoneInfo("UTC"), folder)
    writer = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "support.channelstats.writing_process", str(store), str(folder), str(RUNS)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert writer.stdout is not None
    try:
        seen: dict[int, int] = {}
        while line := await writer.stdout.readline():
            finished = int(line)
            for _ in range(3):
                found = {one[TS]: one[WORDS] for one in await read(tables)}
                assert all(found[ts] >= count for ts, count in seen.items())
                assert len(found) == len(HOURS)
                assert min(found.values()) >= finished, "a run that ended is read"
                seen = found
    finally:
        if writer.returncode is None and not writer.stdout.at_eof():
            writer.kill()
    assert await writer.wait() == 0
    for _ in range(2):  # the second time from what the first has kept
        assert words(await read(tables)) == [RUNS] * len(HOURS)
        assert await read(tables) == await there(engine)
    await engine.close()
