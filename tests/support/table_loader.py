"""A process that loads a table: ``python -m support.table_loader PATH``.

It prints the number of stored items after each batch. A line on its standard input ends it.
"""

import asyncio
import itertools
import os
import sys

from keytables import Index, Item, Key, Kind, Table
from keytables.sqlite import SqliteEngine

TABLE = Table(
    "loaded",
    Key("name"),
    indexes=(
        Index("by_color", Key("color"), Key("number", Kind.NUMBER)),
        Index("by_number", Key("number", Kind.NUMBER)),
    ),
)
BATCH = 200


def items(begin: int) -> list[Item]:
    """A batch, numbered from ``begin``."""
    return [
        {"name": f"n{number}", "color": "rgb"[number % 3], "number": number}
        for number in range(begin, begin + BATCH)
    ]


async def load(path: str) -> None:
    engine = await SqliteEngine.open(path)
    table = await engine.ensure_table(TABLE)
    stop = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    async with table.loading():
        for begin in itertools.count(step=BATCH):
            await table.batch_write(puts=items(begin))
            os.write(1, b"%d\n" % (begin + BATCH))
            if stop.done():
                break
    await engine.close()


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1]))
