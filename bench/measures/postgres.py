"""What a store operation on PostgreSQL costs our process, against bare asyncpg, in turn. Both send
the same SQL, and take and return Python values that are stored as MessagePack. Only this process's
CPU time counts. (Pushes over it: `direct-store-first` with `--server "… serve --store=URL"`.)
"""

import asyncio
import gc
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import asyncpg
import msgspec

from autopush.store.tables import message_table
from bench.report import Row
from bench.run import Run
from keytables import Attr, Item, Range, Returning, TableHandle, Update
from keytables.postgresql import PostgresEngine
from keytables.postgresql.connections import _SETTINGS, Session
from support.postgres_servers import PostgresServer

MOST_RATIO = 1.5
LANES = (1, 16)
"""Operations under way at a time."""
SLICES = 5
BATCH = 25
USER = "u" * 32
PAGE = 10
AGAIN = Update(set=("timestamp",))

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


def items(number: int) -> list[Item]:
    """Of a batch."""
    return [item(2000 + BATCH * number + each) for each in range(BATCH)]


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
        "batch of 25": lambda number: table.batch_write(puts=items(number)),
    }


def bare(connections: list[Any], sent: dict[str, list[str]]) -> dict[str, Operation]:
    """asyncpg with a connection for each operation under way, and the statements that our client
    sent for the same operation alone.
    """
    numbers, decode, encode = count(1), msgspec.msgpack.decode, msgspec.msgpack.encode

    async def fetch(name: str, *values: object, statement: int = 0) -> list[Any]:
        connection = connections.pop()
        try:
            rows: list[Any] = await connection.fetch(sent[name][statement], *values)
        finally:
            connections.append(connection)
        return rows

    def key(number: int) -> list[list[str]]:
        return [[USER], [f"02:{number:06d}"]]

    def columns(stored: list[Item]) -> list[list[object]]:
        rows = (
            (
                each["uaid"],
                each["chidmessageid"],
                float(str(each["expiry"])),
                encode(each),
                next(numbers),
            )
            for each in stored
        )
        return [list(column) for column in zip(*rows, strict=True)]

    async def get(number: int) -> object:
        [row] = await fetch("get", *key(number))
        return decode(row[1])

    async def query(_: int) -> object:
        found = await fetch("query of 10", time.time(), USER, "01:", PAGE + 1)
        return [decode(row[0]) for row in found[:PAGE]]

    async def update(number: int) -> object:
        [row] = await fetch("conditional update", *key(number))
        old = decode(row[1])
        if old["ttl"] != 86400:
            raise ValueError("the condition does not hold")
        values = columns([item(number)])
        values[3] = [encode({**old, "timestamp": time.monotonic_ns()})]
        await fetch("conditional update", uuid.uuid4(), *values, [row[3]], statement=1)
        return old

    return {
        "get": get,
        "query of 10": query,
        "put": lambda number: fetch("put", uuid.uuid4(), *columns([item(number)])),
        "conditional update": update,
        "delete": lambda number: fetch("delete", uuid.uuid4(), *key(number + 1000)),
        "batch of 25": lambda number: fetch("batch of 25", uuid.uuid4(), *columns(items(number))),
    }


async def statements_of(operations: dict[str, Operation]) -> dict[str, list[str]]:
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
    """CPU microseconds of one operation."""
    of_each = max(times // lanes, 1)

    async def lane(number: int) -> None:
        for _ in range(of_each):
            await operation(number)

    gc.collect()
    before = time.process_time_ns()
    await asyncio.gather(*(lane(number) for number in range(lanes)))
    return (time.process_time_ns() - before) / (of_each * lanes) / 1000


async def measure(url: str, rounds: int, times: int) -> list[Row]:
    engine = await PostgresEngine.open(url, schema="bench", connections=max(LANES) + 1)
    table = await engine.ensure_table(message_table("message"))
    await table.batch_write(puts=[item(number) for number in range(max(LANES))])
    mine, options = ours(table), {"server_settings": dict(_SETTINGS), "statement_cache_size": 200}
    connections = [await asyncpg.connect(url, **options) for _ in range(max(LANES))]
    theirs = bare(connections, await statements_of(mine))
    rows = []
    for lanes in LANES:
        for name in mine:
            some = (times // 10 if name.startswith("batch") else times) // SLICES
            pairs = []
            for _ in range(1 + rounds):
                slices = [  # in turn, so that what else the machine does meets both
                    (await cost(mine[name], lanes, some), await cost(theirs[name], lanes, some))
                    for _ in range(SLICES)
                ]
                pairs.append([sum(each) / SLICES for each in zip(*slices, strict=True)])
            rows.append(_row(f"PostgreSQL, {name}, {lanes} at a time", pairs[1:]))
    for connection in connections:
        await connection.close()
    await engine.close()
    return rows


def _row(name: str, pairs: list[list[float]]) -> Row:
    ratio = statistics.median(own / other for own, other in pairs)
    own, other = (statistics.median(each) for each in zip(*pairs, strict=True))
    note, aim = f"{ratio:.2f} of asyncpg's {other:,.1f} µs", f"≤ {MOST_RATIO:g} of asyncpg"
    return Row(name, f"{own:.1f} µs", aim, ratio <= MOST_RATIO, note=note)


async def postgres(run: Run) -> list[Row]:
    """A server with fsync, whose data are in $TMPDIR."""
    server = PostgresServer("shared_buffers=256MB", "max_wal_size=4GB")
    try:
        with run.on_all_cores():
            server.start()
            times = max(80, run.sizes.stored // 5)
            return await measure(server.url(), run.sizes.rounds, times)
    finally:
        server.remove()
