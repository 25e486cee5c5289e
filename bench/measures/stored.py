"""Pushes to user agents that are not connected, and the drain when they connect again.

Rule: what was answered 201 while they were away is delivered once, and what was acked is never
delivered again.
"""

import asyncio
from itertools import repeat

from bench.load import Load
from bench.push_client import ClosedLoop
from bench.report import Row, Sample
from bench.run import AGENTS, Run, Stopwatch

MOST_STORED_US = 150.0
MOST_DRAIN_US = 100.0


async def stored(run: Run) -> list[Row]:
    sizes = run.sizes
    async with run.server("store-first") as server:
        load = await Load.on(server)
        fleet, ledger = load.fleet, load.fleet.ledger
        await fleet.leave()

        async def push(count: int) -> Sample:
            await server.wait_until_idle()
            ledger.begin(count)
            watch = Stopwatch(server)
            ClosedLoop(load.posters, fleet.pushes(repeat(load.token), count), ledger)
            await ledger.all_answered(sizes.limit)
            watch.traffic_ended()
            await server.wait_until_idle()
            return watch.sample(count)

        async def drain() -> Sample:
            watch = Stopwatch(server)
            await asyncio.gather(fleet.reconnect_all(), ledger.all_delivered(sizes.limit))
            watch.traffic_ended()
            await fleet.barrier()
            await server.wait_until_idle()
            sample = watch.sample(ledger.pushes)
            await fleet.leave()
            await fleet.reconnect_all()  # nothing is left: whatever comes now is a duplicate
            await server.wait_until_idle()
            await fleet.barrier()
            ledger.close_round()
            await fleet.leave()
            return sample

        await push(AGENTS)
        await drain()
        drains: list[Sample] = []

        async def away_then_back() -> Sample:
            pushed = await push(sizes.stored)
            drains.append(await drain())
            return pushed

        pushes = await run.floored(sizes.rounds, away_then_back)
        await load.leave()
    drained = pushes.with_samples(drains)
    aim, is_reached = f"≤ {MOST_STORED_US:g} µs", pushes.microseconds <= MOST_STORED_US
    more, is_drained = f"≤ {MOST_DRAIN_US:g} µs, none twice", drained.microseconds <= MOST_DRAIN_US
    return [
        pushes.row("stored push, client away, fsync", aim, is_reached),
        drained.row("drain with acks, per message", more, is_drained, "0 came twice"),
    ]
