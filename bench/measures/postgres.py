"""What a store operation on PostgreSQL costs our process, against bare asyncpg. (Pushes over it:
`direct-store-first` with `--server-option=--store=URL`.)
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys

from bench.ledger import MismatchError
from bench.report import Row
from bench.run import Run
from bench.server import spawn

MOST_RATIO = 1.5


async def postgres(run: Run) -> list[Row]:
    count = max(80, run.sizes.stored // 5)
    process = spawn(
        [sys.executable, "-m", "bench.postgres_costs", str(run.sizes.rounds), str(count)],
        {run.cores.server},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        environment={**os.environ, "PYTHONPATH": "tests", "TMPDIR": str(run.data_root)},
    )
    try:
        output, complaints = await asyncio.wait_for(
            asyncio.to_thread(process.communicate), run.sizes.limit * 5
        )
    except TimeoutError:
        raise MismatchError("the clients did not end in time") from None
    finally:
        process.kill()
    if process.returncode:
        raise MismatchError(f"the clients ended with {process.returncode}: {complaints.decode()}")
    costs: dict[str, list[list[float]]] = json.loads(output)
    return [_row(name, pairs) for name, pairs in costs.items()]


def _row(name: str, pairs: list[list[float]]) -> Row:
    ratio = statistics.median(own / bare for own, bare in pairs)
    us, bare_us = (statistics.median(each) / 1000 for each in zip(*pairs, strict=True))
    return Row(
        f"PostgreSQL, {name}",
        f"{us:.1f} µs",
        f"≤ {MOST_RATIO:g} of asyncpg",
        ratio <= MOST_RATIO,
        note=f"{ratio:.2f} of asyncpg's {bare_us:,.1f} µs",
    )
