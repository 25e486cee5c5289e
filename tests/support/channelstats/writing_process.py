"""A process that writes messages of three dates, run after run: `python -m … STORE FOLDER RUNS`.

Every run gives all messages its own number as their count of words, and ends with closed dates; one
of them dies in the middle, so that its dates are left open.
"""

import asyncio
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

from channelstats.tables import Tables
from keytables.sqlite import SqliteEngine
from support.channelstats.dated import row

HOURS = (0, 3, 24, 30, 48)
"""Of messages, after noon of 2024-03-09."""


async def write(store: Path, folder: Path, runs: int) -> None:
    engine = await SqliteEngine.open(store)
    for number in range(1, runs + 1):
        tables = await Tables.open(engine, "channelstats", ZoneInfo("UTC"), folder)
        await tables.messages.take_over_days()
        for hours in HOURS:
            await tables.messages.write([row(hours, number)])
        if number != runs // 2:
            await tables.messages.close_days()
        print(number, flush=True)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
