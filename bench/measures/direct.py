"""Pushes to connected user agents, delivered and acked, with one VAPID token for all and with a new
token for each.
"""

import statistics

from bench.load import Load
from bench.report import Row, Sample
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
            sender, origin = load.fleet.sender, load.fleet.origin
            tokens = [sender.token(origin) for _ in range(sizes.tokens)]
            return await load.pushes(run, sizes.tokens, tokens)

        new = await run.floored(sizes.rounds, never_seen)
        await load.leave()
    verification = statistics.median(run.floor.verifications[-sizes.rounds :]) / 1000
    extra = (new.microseconds - repeated.microseconds) / verification
    name, more = f"direct push, {mode}", f"≤ the above + {MOST_VERIFICATIONS} ES256"
    note = f"the above {extra:+.2f} ES256"
    return [
        repeated.row(name, f"≤ {most_floors:g} floors", repeated.floors <= most_floors),
        new.row(f"{name}, new tokens", more, extra <= MOST_VERIFICATIONS, note),
    ]
