"""`autopush senders`: the report of a running service, and of none."""

import asyncio
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from support.application_server import ApplicationServer, claims
from support.senders import Sender
from support.service import run_command, service
from support.sockets import unused_port

SENDER = Sender()


async def senders(*words: str) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(run_command, ["senders", *words])


async def test_the_command_prints_who_ignores_that_endpoints_are_gone_in_all_workers(
    tmp_path: Path, sender: ApplicationServer
) -> None:
    async with service(tmp_path, "--workers", "2") as running:
        for _ in range(4):  # user agents, of either worker
            agent = await running.connect()
            channel, endpoint = await agent.register()
            await agent.unregister(channel)
            first = SENDER.vapid(claims(endpoint))
            assert (await sender.push(endpoint, b"x", Authorization=first)).status == 410
            for _ in range(2):
                assert (await sender.push(endpoint, b"x")).status == 410
        for _ in range(3):  # over one connection, so at one worker
            assert (await sender.push(f"{endpoint[:-4]}AAAA", b"x")).status == 404
        done = await senders("--router-port", str(running.router_port))
        assert (done.returncode, done.stderr) == (0, "")
        assert [line.split() for line in done.stdout.splitlines()] == [
            ["thumbprint", "key", "sent", "delayed", "refused"],
            ["without", "VAPID", "10", "0", "0"],
        ]
        again = SENDER.vapid(claims(endpoint))
        assert (await sender.push(endpoint, b"x", Authorization=again)).status == 410
        done = await senders("--router-port", str(running.router_port))
        thumbprint = sha256(SENDER.point).hexdigest()[:16]
        assert f"{thumbprint}  {SENDER.key_text[:12]}…          1          0" in done.stdout
        assert running.errors == []


@pytest.mark.slow
async def test_without_a_service_the_command_says_where_it_has_asked() -> None:
    port = unused_port()
    done = await senders("--router-port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"autopush: http://127.0.0.1:{port}/senders: ")
    done = await senders("--router-port", "0")
    assert (done.returncode, done.stdout) == (3, "")
    assert "router_port" in done.stderr
