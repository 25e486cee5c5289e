"""A service whose store fails: what senders, user agents and the operator are told, and its end."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.application_server import ApplicationServer
from support.damaged_store import damage_log, damage_pages_with
from support.data_store import DataStore, uaid
from support.service import Service, new_subscriber
from support.small_disk import fill, small_disk
from support.soak import each_number_of_workers
from support.user_agent import UserAgent

pytestmark = pytest.mark.slow

CUT_SHORT = 1

HANGING = """
import os, sys, time
import keytables.sqlite.writer as writer, autopush.service.worker as worker
worker.SHUTDOWN_TIMEOUT = 4.0
commit = writer.Writer._commit
def hang(self):
    while os.path.exists(FLAG):
        time.sleep(0.05)
    return commit(self)
writer.Writer._commit = hang
from autopush.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A service whose commits do not end as long as a file exists."""


def fields(running: Service, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in running.output if line.startswith("{")]
    return [line["Fields"] for line in lines if line["Fields"]["message"] == event]


async def health(running: Service) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{running.endpoint}/health") as response,
    ):
        return response.status, await response.json()


@each_number_of_workers()
async def test_sigterm_ends_a_service_whose_store_hangs(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent], workers: int
) -> None:
    flag = tmp_path / "hang"
    script, options = HANGING.replace("FLAG", repr(str(flag))), ("--workers", str(workers))
    running = Service(
        tmp_path / "data", options, wrap=lambda words: [words[0], "-c", script, *words[3:]]
    )
    await running.start()
    agent, endpoint = await new_subscriber(running, agents)
    flag.touch()
    try:
        pushed = asyncio.ensure_future(sender.push(endpoint))
        assert (await agent.notification())["version"]
        began = time.monotonic()
        code = await running.stop()
        assert time.monotonic() - began < 10
        pushed.cancel()
    finally:
        flag.unlink()
    assert code == (CUT_SHORT if workers == 1 else 0)  # a supervisor has ended in order
    assert fields(running, "The shutdown did not end in time and is cut short")


async def test_a_damaged_page_is_an_error_line_and_health_is_not_ok(tmp_path: Path) -> None:
    store = DataStore(tmp_path)
    await asyncio.to_thread(store.add_users, range(2000))
    damage_pages_with(tmp_path / "autopush.sqlite", uaid(1000))
    running = Service(tmp_path, ())
    await running.start()
    assert (await health(running))[0] == 200
    agent = await UserAgent.connect(running.websocket)
    await agent.send(messageType="hello", use_webpush=True, uaid=uaid(1000))
    assert await agent.closed() == 1013
    status, document = await health(running)
    assert (status, document["status"]) == (503, "NOT OK")
    error = "The store is damaged: run autopush check"
    assert document["storage"] == {"status": "NOT OK", "error": error}
    assert await running.stop() == 0
    [line] = fields(running, "The store failed")
    assert (line["level"], line["kind"], line["failures"]) == ("error", "damaged", 1)


async def test_after_a_kill_the_store_is_checked_at_the_start(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    running = Service(tmp_path, ())
    await running.start()
    agent, endpoint = await new_subscriber(running, agents)
    await agent.close()
    assert (await sender.push(endpoint)).status == 201
    await running.kill()
    damage_log(tmp_path / "autopush.sqlite")
    await running.start()
    assert await running.stop() == 0
    [line] = fields(running, "The store is damaged")
    assert line["damage"].startswith("the log is damaged: of its ")
    await running.start()
    assert await running.stop() == 0
    assert len(fields(running, "The store is damaged")) == 1
    assert fields(running, "The store was not closed, and is not damaged") == []


@each_number_of_workers()
async def test_a_full_disk_refuses_new_messages_alone_and_heals_also_after_a_kill(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent], workers: int
) -> None:
    # Each part keeps 4 MiB in reserve.
    with small_disk(tmp_path / "disk", 28 + 4 * workers << 20) as disk:
        options = ("--min-free-space", str(8 << 20), "--workers", str(workers))
        running = Service(disk / "data", options)
        await running.start()
        agent, endpoint = await new_subscriber(running, agents)
        await agent.close()
        accepted, last = await fill_by_pushes(sender, endpoint)
        assert accepted > 200
        nearly_full = "The disk is nearly full: new messages are refused"
        for attempt in range(2):
            other = fill(disk)  # also what the log of the store took, which a start empties
            await running.logged(nearly_full, attempt + 1)
            async with asyncio.timeout(30):
                # Each worker looks at the disk by itself: another one may answer /health.
                while (answered := await sender.push(endpoint)).status == 201 or (
                    await health(running)
                )[0] == 200:
                    accepted += answered.status == 201
                    await asyncio.sleep(0.1)
            assert (answered.status, answered.document["errno"]) == (503, 205)
            agents.append(await running.connect(agent.uaid))
            received = await agents[-1].receive(30, ack=True)
            assert len(received) == 30
            await agents[-1].register()
            assert (await sender.delete(last)).status == 204
            await agents[-1].close()
            if not attempt:
                await running.kill()
                await running.start()
        other.unlink()
        left = accepted - 2 * 30 - 1
        async with asyncio.timeout(60):
            while (answered := await sender.push(endpoint)).status == 503:
                assert answered.document["errno"] == 205
                if not left:
                    await asyncio.sleep(0.1)  # it looks at the disk every second
                    continue
                agents.append(await running.connect(agent.uaid))
                some = min(left, accepted // 4)
                await agents[-1].receive(some, ack=True)
                await agents[-1].close()
                left -= some
        assert answered.status == 201
        assert await running.stop() == 0
    assert len(fields(running, nearly_full)) == 2
    assert "Traceback" not in "".join(running.output)


async def fill_by_pushes(sender: ApplicationServer, endpoint: str) -> tuple[int, str]:
    """Push until that is refused for want of space: how many were accepted, and the last one."""
    accepted, last = 0, ""
    while True:
        answers = await asyncio.gather(*(sender.push(endpoint, b"x" * 4000) for _ in range(16)))
        for answered in answers:
            if answered.status == 201:
                accepted, last = accepted + 1, answered.headers["Location"]
            else:
                assert (answered.status, answered.document["errno"]) == (503, 205)
        if any(answered.status == 503 for answered in answers):
            return accepted, last
