"""One of the measured processes of `store-writers`: it writes to its own part of a store.

    python -m bench.store_writer PATH INDEX WRITERS CLIENTS OPERATIONS

CLIENTS: writes that wait for their commit at a time. It prints "ready", waits for a line, writes,
and prints its CPU time and the time on the wall, in ns.
"""

import asyncio
import json
import sys
import time
from itertools import islice

import uvloop

from autopush.service.storage import parts_of_worker
from autopush.store.tables import message_table
from keytables import Item
from keytables.sqlite import open_sqlite
from keytables.sqlite.layout import part_of

BODY = "x" * 4096


async def write(path: str, index: int, writers: int, clients: int, operations: int) -> None:
    engine = await open_sqlite(path, own_parts=parts_of_worker(index, writers))
    table = await engine.ensure_table(message_table("message"))
    keys = (f"{number:032x}" for number in range(sys.maxsize))
    # The same users on one file as on parts.
    own = list(islice((key for key in keys if part_of(key, writers) == index), 1000))

    async def client(number: int) -> None:
        for each in range(number, operations, 2 * clients):
            key = (own[each % len(own)], f"02:{each}")
            item: Item = {"uaid": key[0], "chidmessageid": key[1], "data": BODY, "ttl": 60}
            await table.put(item)
            await table.delete(key)

    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu = time.monotonic_ns(), time.process_time_ns()
    await asyncio.gather(*(client(2 * number) for number in range(clients)))
    spent = {"wall": time.monotonic_ns() - began, "cpu": time.process_time_ns() - cpu}
    print(json.dumps(spent), flush=True)
    await engine.close()


if __name__ == "__main__":
    uvloop.run(write(sys.argv[1], *map(int, sys.argv[2:])))
