"""Pushes to connected user agents, delivered and acked, with one VAPID token for all and with a new
token for each.

Rule: a push counts when it was answered 201, delivered once and its ack was read.
"""

import statistics
from collections.abc import Iterable
from itertools import repeat

from bench.fleet import Fleet
from bench.ledger import Ledger
from bench.push_client import ClosedLoop, Poster
from bench.report import Row, Sample, cost_row
from bench.run import AGENTS, POSTERS, Run, Stopwatch

MOST_VERIFICATIONS = 1.3


async def direct_push(run: Run, *, mode: str, most_floors: float) -> list[Row]:
    sizes = run.sizes
    async with run.server(mode) as server:
        fleet = Fleet(server, Ledger(), AGENTS)
        await fleet.subscribe_all()
        posters = await fleet.posters(POSTERS)
        token = fleet.sender.token(fleet.origin)
        await push_round(run, fleet, posters, repeat(token), sizes.warm_up)
        repeated = await run.floored(
            sizes.rounds, lambda: push_round(run, fleet, posters, repeat(token), sizes.pushes)
        )

        async def never_seen() -> Sample:
            if run.floor:
                await run.floor.verification(sizes.verifications)
            tokens = fleet.sender.tokens(fleet.origin, sizes.tokens)
            return await push_round(run, fleet, posters, tokens, sizes.tokens)

        new = await run.floored(sizes.rounds, never_seen)
        for poster in posters:
            poster.close()
        await fleet.leave()
    verification = (
        statistics.median(run.floor.verifications[-sizes.rounds :]) / 1000 if run.floor else 0.0
    )
    extra = (new.microseconds - repeated.microseconds) / verification if verification else 0.0
    return [
        cost_row(
            f"direct push, {mode}",
            repeated,
            f"≤ {most_floors:g} floors",
            repeated.floors <= most_floors,
        ),
        cost_row(
            f"direct push, {mode}, new tokens",
            new,
            f"≤ the above + {MOST_VERIFICATIONS} ES256",
            extra <= MOST_VERIFICATIONS,
            note=f"the above {extra:+.2f} ES256",
            extra_verifications=extra,
            verification_us=verification,
        ),
    ]


async def push_round(
    run: Run, fleet: Fleet, posters: list[Poster], tokens: Iterable[bytes], count: int
) -> Sample:
    """Send this many as fast as the server takes them, and check that it balances."""
    ledger = fleet.ledger
    ledger.begin(count)
    watch = Stopwatch(fleet.server)
    ClosedLoop(posters, fleet.pushes(tokens, count), ledger)
    await ledger.all_answered(run.sizes.limit)
    await ledger.all_delivered(run.sizes.limit)
    watch.traffic_ended()
    await fleet.barrier()
    await fleet.server.wait_until_idle()
    sample = watch.sample(count)
    ledger.close_round()
    return sample
