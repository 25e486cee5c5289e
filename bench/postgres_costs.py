"""The measured process of `postgres`: what a store operation costs a client, for ours and bare
asyncpg in turn. Both send the same SQL, and take and return Python values that are stored as
MessagePack. Only this process's CPU time counts.

    PYTHONPATH=tests python -m bench.postgres_costs ROUNDS OPERATIONS [URL]

Without a URL it starts a PostgreSQL with fsync, whose data are in $TMPDIR.
"""

import asyncio
import gc
import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import asyncpg
import msgspec
import uvloop

from autopush.store.tables import message_table
from keytables import Attr, Item, Range, Returning, TableHandle, Update
from keytables.postgresql import PostgresEngine
from keytables.postgresql.connections import _SETTINGS, Session
from keytables.postgresql.table import PostgresTable
from support.postgres_servers import PostgresServer

LANES = (1, 16)
"""Operations under way at a time."""
SLICES = 5
BATCH = 25
USER = "u" * 32
PAGE = 10
SCHEMA = "bench"

Operation = Callable[[int], Awaitable[object]]
"""Called with a number, no two alike at a time."""


def item(number: int) -> Item:
    return {
        "uaid": USER,
        "chidmessageid": f"02:{number:06d}",
        "ttl": 86400,
        "timestamp": 1795000000,
        "updateid": "g" * 200,
        "expiry": 4102444800,
        "data": "d" * 4096,
        "headers": {"encoding": "aes128gcm"},
    }


AGAIN = Update(set=("timestamp",))


def ours(table: TableHandle) -> dict[str, Operation]:
    def key(number: int) -> tuple[str, str]:
        return USER, f"02:{number:06d}"

    return {
        "get": lambda number: table.get(key(number)),
        "query of 10": lambda _: table.query(USER, sort=Range(gt="01:"), limit=PAGE),
        "put": lambda number: table.put(item(number)),
        "conditional update": lambda number: table.update(
            key(number),
            AGAIN,
            {"timestamp": time.monotonic_ns()},
            condition=Attr("ttl") == 86400,
            returning=Returning.OLD,
        ),
        "delete": lambda number: table.delete(key(number + 1000)),
        "batch of 25": lambda number: table.batch_write(
            puts=[item(2000 + BATCH * number + each) for each in range(BATCH)]
        ),
    }


class Bare:
    """asyncpg with a connection for each operation under way, and the statements that our client
    sent for the same operation alone.
    """

    def __init__(self, connections: list[Any], sent: dict[str, list[str]]) -> None:
        self._free, self._sent = connections, sent
        self._numbers = count(1)

    async def _fetch(self, sql: str, *values: object) -> list[Any]:
        connection = self._free.pop()
        try:
            rows: list[Any] = await connection.fetch(sql, *values)
        finally:
            self._free.append(connection)
        return rows

    def operations(self) -> dict[str, Operation]:
        sent, fetch = self._sent, self._fetch
        decode, encode = msgspec.msgpack.decode, msgspec.msgpack.encode

        def keys(number: int, many: int = 1) -> list[list[str]]:
            return [[USER] * many, [f"02:{number + each:06d}" for each in range(many)]]

        def rows(numbers: range) -> list[list[object]]:
            items = [item(number) for number in numbers]
            columns = zip(
                *(
                    (
                        each["uaid"],
                        each["chidmessageid"],
                        float(str(each["expiry"])),
                        encode(each),
                        next(self._numbers),
                    )
                    for each in items
                ),
                strict=True,
            )
            return [list(column) for column in columns]

        async def get(number: int) -> object:
            [row] = await fetch(sent["get"][0], *keys(number))
            return decode(row[1])

        async def query(_: int) -> object:
            found = await fetch(sent["query of 10"][0], time.time(), USER, "01:", PAGE + 1)
            return [decode(row[0]) for row in found[:PAGE]]

        async def put(number: int) -> object:
            return await fetch(sent["put"][0], uuid.uuid4(), *rows(range(number, number + 1)))

        async def update(number: int) -> object:
            [row] = await fetch(sent["conditional update"][0], *keys(number))
            old = decode(row[1])
            if old["ttl"] != 86400:
                raise ValueError("the condition does not hold")
            columns = rows(range(number, number + 1))
            columns[3] = [encode({**old, "timestamp": time.monotonic_ns()})]
            await fetch(sent["conditional update"][1], uuid.uuid4(), *columns, [row[3]])
            return old

        async def delete(number: int) -> object:
            return await fetch(sent["delete"][0], uuid.uuid4(), *keys(number + 1000))

        async def batch(number: int) -> object:
            first = 2000 + BATCH * number
            return await fetch(
                sent["batch of 25"][0], uuid.uuid4(), *rows(range(first, first + 25))
            )

        return {
            "get": get,
            "query of 10": query,
            "put": put,
            "conditional update": update,
            "delete": delete,
            "batch of 25": batch,
        }


async def statements_of(
    table: PostgresTable, operations: dict[str, Operation]
) -> dict[str, list[str]]:
    """What our client sends for each operation alone."""
    sent: list[str] = []
    fetch = Session.fetch

    async def noting(self: Session, sql: str, *values: object, **options: Any) -> list[Any]:
        sent.append(sql)
        return await fetch(self, sql, *values, **options)

    found = {}
    Session.fetch = noting  # type: ignore[method-assign]
    try:
        for name, operation in operations.items():
            sent.clear()
            await operation(1)
            found[name] = list(sent)
    finally:
        Session.fetch = fetch  # type: ignore[method-assign]
    return found


async def cost(operation: Operation, lanes: int, times: int) -> float:
    """CPU nanoseconds of one operation."""

    of_each = max(times // lanes, 1)

    async def lane(number: int) -> None:
        for _ in range(of_each):
            await operation(number)

    gc.collect()
    before = time.process_time_ns()
    await asyncio.gather(*(lane(number) for number in range(lanes)))
    return (time.process_time_ns() - before) / (of_each * lanes)


async def measure(url: str, rounds: int, times: int) -> dict[str, list[tuple[float, float]]]:
    """Costs of ours and of bare asyncpg, by operation and operations under way."""
    engine = await PostgresEngine.open(url, schema=SCHEMA, connections=max(LANES) + 1)
    table = await engine.ensure_table(message_table("message"))
    assert isinstance(table, PostgresTable)
    await table.batch_write(puts=[item(number) for number in range(max(LANES))])
    mine = ours(table)
    sent = await statements_of(table, mine)
    settings = dict(_SETTINGS)
    bare = [
        await asyncpg.connect(url, server_settings=settings, statement_cache_size=200)
        for _ in range(max(LANES))
    ]
    theirs = Bare(bare, sent).operations()
    costs: dict[str, list[tuple[float, float]]] = {}
    for counts in (False, *[True] * rounds):
        for lanes in LANES:
            for name in mine:
                some = times // 10 if name.startswith("batch") else times
                own = bare_cost = 0.0
                for _ in range(SLICES):  # in turn, so that what else the machine does meets both
                    own += await cost(mine[name], lanes, some // SLICES) / SLICES
                    bare_cost += await cost(theirs[name], lanes, some // SLICES) / SLICES
                if counts:
                    key = f"{name}, {lanes} at a time"
                    costs.setdefault(key, []).append((own, bare_cost))
    for connection in bare:
        await connection.close()
    await engine.close()
    return costs


def main() -> None:
    rounds, times, *urls = sys.argv[1:]
    server = None if urls else PostgresServer("shared_buffers=256MB", "max_wal_size=4GB")
    try:
        if server is not None:
            server.start()
            urls = [server.url()]
        print(json.dumps(uvloop.run(measure(urls[0], int(rounds), int(times)))))
    finally:
        if server is not None:
            server.remove()


if __name__ == "__main__":
    main()
