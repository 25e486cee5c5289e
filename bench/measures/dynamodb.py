"""Store operations over DynamoDB: our client against aiobotocore. Both are measured alternately in
one process that does nothing else, against a server with prepared answers.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections import Counter

from bench.dynamodb_costs import LANES
from bench.dynamodb_server import CannedServer
from bench.ledger import MismatchError
from bench.report import Row
from bench.run import Run
from bench.server import spawn

LEAST_RATIO = 10.0
_OPERATIONS = {
    "get": "GetItem",
    "put": "PutItem",
    "conditional update": "UpdateItem",
    "delete": "DeleteItem",
    "query of 10": "Query",
    "batch put of 25": "BatchWriteItem",
    "batch delete of 25": "BatchWriteItem",
}


async def dynamodb(run: Run) -> list[Row]:
    count = max(LANES, run.sizes.stored // 20 // LANES * LANES)
    server = CannedServer()
    await server.start()
    try:
        costs = await _costs(run, f"http://127.0.0.1:{server.port}", count)
    finally:
        server.stop()
    each = 2 * count * (run.sizes.rounds + 1)
    for operation, kinds in Counter(_OPERATIONS.values()).items():
        if (seen := server.calls[operation]) != kinds * each:
            raise MismatchError(f"{operation} came {seen} times, not {kinds * each}")
    return [_row(what, costs["ours"][what], costs["aiobotocore"][what]) for what in _OPERATIONS]


async def _costs(run: Run, url: str, count: int) -> dict[str, dict[str, list[float]]]:
    process = spawn(
        [sys.executable, "-m", "bench.dynamodb_costs", url, str(run.sizes.rounds), str(count)],
        {run.cores.server},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        environment={
            **os.environ,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
        },
    )
    try:
        output, complaints = await asyncio.wait_for(
            asyncio.to_thread(process.communicate), run.sizes.limit * 2
        )
    except TimeoutError:
        raise MismatchError("the clients did not end in time") from None
    finally:
        process.kill()
    if process.returncode:
        raise MismatchError(f"the clients ended with {process.returncode}: {complaints.decode()}")
    found: dict[str, dict[str, list[float]]] = json.loads(output)
    return found


def _row(what: str, ours: list[float], theirs: list[float]) -> Row:
    ratio = statistics.median(other / own for own, other in zip(ours, theirs, strict=True))
    us, other_us = statistics.median(ours) / 1000, statistics.median(theirs) / 1000
    return Row(
        f"DynamoDB client, {what}",
        f"{us:.1f} µs",
        "",
        f"≤ 1/{LEAST_RATIO:g} of aiobotocore",
        ratio >= LEAST_RATIO,
        note=f"1/{ratio:.1f} of aiobotocore's {other_us:,.0f} µs",
        values={
            "cpu_us_per_operation": us,
            "aiobotocore_us_per_operation": other_us,
            "ratio": ratio,
            "rounds": [list(pair) for pair in zip(ours, theirs, strict=True)],
        },
    )
