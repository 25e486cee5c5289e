"""Sentry, Firehose and the log check, with the workers of a real service."""

import json
from pathlib import Path

from autopush.telemetry.logs import WARNINGS_PER_SECOND
from support import wire
from support.collecting_servers import KEY, STREAM, FirehoseServer, SentryServer
from support.raw_client import get, raw_client
from support.service import service


async def test_what_clients_do_wrong_is_no_event_and_the_log_check_is(tmp_path: Path) -> None:
    with SentryServer() as sentry:
        async with service(tmp_path, "--workers", "2", SENTRY_DSN=sentry.dsn) as running:
            assert (await get(running.websocket_port, "/")).status == 200
            async with raw_client(running.websocket_port) as agent:
                await agent.upgrade()
                agent.send(wire.text(b"nonsense"))
                await agent.close_code()
            assert (await get(running.endpoint_port, "/wpush/v1/nonsense")).status == 405
            assert (await get(running.websocket_port, "/v1/err/crit")).status == 418
            sentry.wait(1)
            assert sentry.exceptions == [("LogCheckError", "LogCheck")]
            assert (await get(running.endpoint_port, "/__error__")).status == 418
            sentry.wait(3)
        found = {text for _, text in sentry.exceptions[1:]}
        assert found == {"LogCheck", "ERROR:Success"}
        assert len(sentry.events) == 3
        assert KEY not in sentry.text + "".join(running.output)


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
