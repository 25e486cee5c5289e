"""Pushes to connected user agents, delivered and acked, with one VAPID token for all and with a new
token for each.
"""

import statistics

from bench.load import Load
from bench.report import Row, Sample, cost_row
from bench.run import Run

MOST_VERIFICATIONS = 1.3


async def direct_push(run: Run, *, mode: str, most_floors: float) -> list[Row]:
    sizes = run.sizes
    async with run.server(mode) as server:
        load = await Load.on(server)
        await load.pushes(run, sizes.warm_up)
        repeated = await run.floored(sizes.rounds, lambda: load.pushes(run, sizes.pushes))

        async def never_seen() -> Sample:
            run.floor.verification(sizes.verifications)
            tokens = load.fleet.sender.tokens(load.fleet.origin, sizes.tokens)
            return await load.pushes(run, sizes.tokens, tokens)

        new = await run.floored(sizes.rounds, never_seen)
        await load.leave()
    verification = statistics.median(run.floor.verifications[-sizes.rounds :]) / 1000
    extra = (new.microseconds - repeated.microseconds) / verification
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
        ),
    ]
