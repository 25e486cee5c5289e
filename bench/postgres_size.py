"""What rows of the service take on PostgreSQL: bytes on disk with indexes, and bytes of the log.

PYTHONPATH=tests .venv/bin/python -m bench.postgres_size [ROWS]
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import asyncpg

from autopush.store.tables import message_table, router_table
from keytables import Item, TableHandle
from keytables.postgresql import PostgresEngine
from support.postgres_servers import PostgresServer

SCHEMA = "size"
AT_ONCE = 16
EXPIRY = 4102444800


def user(number: int) -> Item:
    return {
        "uaid": f"{number:032x}",
        "router_type": "webpush",
        "connected_at": 1795000000000 + number,
        "node_id": "http://node-17.push.example.org:8081",
        "current_month": "message",
        "last_connect": 20261123220000 + number % 10,
        "record_version": 1,
        "expiry": EXPIRY,
    }


def channels(number: int) -> Item:
    chids = {f"{number:08x}-0000-4000-8000-{each:012x}" for each in range(5)}
    return {"uaid": f"{number:032x}", "chidmessageid": " ", "chids": chids, "expiry": EXPIRY}


def message(size: int) -> Callable[[int], Item]:
    return lambda number: {
        "uaid": f"{number % 1000:032x}",
        "chidmessageid": f"02:{1795000000000000 + number}:{number:032x}",
        "ttl": 86400,
        "timestamp": 1795000000,
        "updateid": "g" * 200,
        "expiry": EXPIRY,
        "data": "d" * (size * 4 // 3),
        "headers": {"encoding": "aes128gcm"},
    }


async def main(rows: int) -> None:
    server = PostgresServer("shared_buffers=256MB", "max_wal_size=4GB")
    try:
        server.start()
        engine = await PostgresEngine.open(server.url(), schema=SCHEMA)
        operator = await asyncpg.connect(server.url())

        async def measured(name: str, act: Callable[[int], Awaitable[object]], table: str) -> None:
            await operator.execute("CHECKPOINT")
            log, size = await state(table)

            async def lane(first: int) -> None:
                for number in range(first, rows, AT_ONCE):
                    await act(number)

            await asyncio.gather(*map(lane, range(AT_ONCE)))
            now_log, now_size = await state(table)
            print(f"{name:28} {(now_size - size) / rows:7,.0f} B on disk,", end=" ")
            print(f"{(now_log - log) / rows:7,.0f} B of the log")

        async def state(table: str) -> tuple[int, int]:
            row = await operator.fetchrow(
                "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, "
                f"pg_total_relation_size('{SCHEMA}.{table}')"
            )
            return row[0], row[1]

        users = await engine.ensure_table(router_table("router"))
        await measured("user", lambda number: users.put(user(number)), "router")
        handles: list[TableHandle] = []
        for name, item in (
            ("channels of a user", channels),
            ("message of 200 bytes", message(200)),
            ("message of 1 KiB", message(1024)),
            ("message of 4 KiB", message(4096)),
        ):
            table = f"message{len(handles)}"
            handle = await engine.ensure_table(message_table(table))
            handles.append(handle)
            await measured(name, lambda n, item=item, to=handle: to.put(item(n)), table)  # type: ignore[misc]
        keys = [
            (str(row["uaid"]), str(row["chidmessageid"])) for row in map(message(1024), range(rows))
        ]
        await measured(
            "ack of a message of 1 KiB", lambda n: handles[2].delete(keys[n]), "message2"
        )
        await engine.close()
        await operator.close()
    finally:
        server.remove()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))
