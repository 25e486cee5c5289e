"""What an idle connection costs in memory.

Rule: every connection counted has said hello and registered once, is alive at the end, and still
gets its messages.
"""

from bench.fleet import Fleet
from bench.report import Row, row
from bench.run import POSTERS, Run

MOST_KIB = 3.0


async def memory(run: Run) -> list[Row]:
    sizes = run.sizes
    async with run.server("store-first") as server:
        fleet = Fleet(server.host, server.port, sizes.held)
        await fleet.subscribe_all(sizes.held_before)
        await server.wait_until_idle()
        before = server.memory()
        await fleet.subscribe_all(sizes.held // 2 - sizes.held_before)
        await server.wait_until_idle()
        half = server.memory()
        await fleet.subscribe_all()
        await server.wait_until_idle()
        after = server.memory()

        await fleet.barrier()  # all are alive
        await fleet.reach(min(1000, sizes.held), POSTERS, sizes.limit)
        await fleet.leave()
    each = (after.resident - before.resident) / (sizes.held - sizes.held_before) / 1024
    second_half = (after.resident - half.resident) / (sizes.held - sizes.held // 2) / 1024
    note = f"second half {second_half:.2f} KiB; process {after.resident / 2**20:.0f} MiB"
    return [row(f"RSS per idle connection, {sizes.held:,} held", each, "KiB", MOST_KIB, note)]
