"""A process that writes to a store: ``python -m support.table_writer PATH NAME CONCURRENT COUNT``.

It puts items numbered from 0 under its name and prints each number after its commit. It deletes
every third item again, and then prints the number with a minus. COUNT 0: until it is killed.
"""

import asyncio
import os
import sys

from keytables import Key, Kind, Table
from keytables.sqlite import open_sqlite

TABLE = Table("written", Key("name"), Key("number", Kind.NUMBER))


async def write(path: str, name: str, concurrent: int, count: int) -> None:
    engine = await open_sqlite(path)
    table = await engine.ensure_table(TABLE)
    numbers = iter(range(count or sys.maxsize))
    os.write(1, b"ready\n")

    async def client() -> None:
        for number in numbers:
            await table.put({"name": name, "number": number, "data": "x" * 2000})
            os.write(1, b"%d\n" % number)
            if number % 3 == 0:
                await table.delete((name, number))
                os.write(1, b"-%d\n" % number)

    await asyncio.gather(*(client() for _ in range(concurrent)))
    await engine.close()


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
