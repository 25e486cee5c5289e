"""What ten open pages of the console cost the service, while it answers pushes and at rest: rounds
with the pages and without, in turn.
"""

import asyncio
import statistics
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.ledger import MismatchError
from bench.load import Load
from bench.report import Row
from bench.run import Run, Stopwatch
from bench.server import Server

PAGES = 10
RATE = 5_000.0
"""Pushes a second."""
MOST_SHARE = 0.01
"""Of a core, for all pages."""


async def console(run: Run) -> list[Row]:
    sizes, differences = run.sizes, dict[str, list[float]]()
    async with run.server("bypass", (), **{"--console": ""}) as server:
        load = await Load.on(server)
        await load.pushes(run, sizes.warm_up)

        async def at_rate() -> float:
            watch = Stopwatch(server)
            traffic = await load.at_rate(run, RATE)
            watch.traffic_ended()
            # Of the seconds in which they were due, however long they took.
            return watch.sample(traffic.sent).server_ns / (traffic.sent / RATE * 1e9)

        async def at_rest() -> float:
            before, began = server.cpu_ns(), time.monotonic_ns()
            await asyncio.sleep(sizes.seconds_at_rate)
            return (server.cpu_ns() - before) / (time.monotonic_ns() - began)

        for name, measured in (("rate", at_rate), ("rest", at_rest)):
            found = differences[name] = []
            for _ in range(2 * sizes.rounds):
                without = await measured()
                async with _pages(server, sizes.seconds_at_rate):
                    found.append(await measured() - without)
        await load.leave()
    share, rest = (statistics.median(differences[name]) for name in ("rate", "rest"))
    least, most = min(differences["rate"]), max(differences["rate"])
    return [
        Row(
            f"{PAGES} pages of the console, {RATE:,.0f} pushes/s",
            f"{share:.2%} of a core",
            f"≤ {MOST_SHARE:.0%}",
            max(share, rest) <= MOST_SHARE,  # on a busy machine the first is mostly noise
            note=f"pairs from {least:.2%} to {most:.2%}; at rest {rest:.2%}",
        )
    ]


@asynccontextmanager
async def _pages(server: Server, seconds: float) -> AsyncIterator[None]:
    """Read the events as open pages do; each must get one a second."""
    token, events, began = _token(server), [0] * PAGES, asyncio.Event()

    async def read(page: int) -> None:
        reader, writer = await asyncio.open_connection(server.host, server.node_port)
        try:
            writer.write(
                b"GET /console/now.events HTTP/1.1\r\nHost: localhost\r\n"
                b"Authorization: Bearer %b\r\n\r\n" % token.encode()
            )
            while line := await reader.readline():
                events[page] += line.startswith(b"event: now")
                if all(events):
                    began.set()
        finally:
            writer.close()

    reading = [asyncio.create_task(read(page)) for page in range(PAGES)]
    await asyncio.wait_for(began.wait(), 30)
    yield
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    if min(events) < seconds - 1:
        raise MismatchError(f"pages got {events} events in {seconds:g} s")


def _token(server: Server) -> str:
    words = [*server.command[:-1], "console-token", "--data", str(server.folder / "data")]
    return subprocess.run(words, capture_output=True, check=True, text=True).stdout.strip()
