"""Sentry, Firehose and the log check, with the workers of a real service."""

import json
from pathlib import Path

from autopush.telemetry.logs import WARNINGS_PER_SECOND
from support.collecting_servers import STREAM, FirehoseServer
from support.raw_client import get
from support.service import service


async def test_the_lines_of_all_workers_reach_firehose(tmp_path: Path) -> None:
    with FirehoseServer() as firehose:
        variables = firehose.variables | {"STREAM_NAME": STREAM, "AUTOPUSH_LOG_CHECK_RATE": "none"}
        async with service(tmp_path, "--workers", "2", "--debug", **variables) as running:
            pids = set(running.workers)
            for _ in range(WARNINGS_PER_SECOND):
                for page in ("/v1/err", "/v1/err/crit"):
                    assert (await get(running.endpoint_port, page)).status == 418
        lines = [record.removeprefix(b"\x1e") for record in firehose.records]
        assert set(lines) <= {line.encode() for line in running.output}
        checks = [json.loads(line) for line in lines if b"Test " in line]
        assert len(checks) == 2 * WARNINGS_PER_SECOND
        assert {check["Pid"] for check in checks} == pids
