"""The service gets its certificate from a directory, and serves whatever happens there."""

import asyncio
import json
import os
import signal
import ssl
from pathlib import Path
from typing import Any, cast

from aiohttp import ClientSession
from websockets.asyncio.client import connect

from support.certificates import LOOPBACK
from support.pebble import Pebble
from support.service import Service, service
from support.sockets import unused_port
from support.user_agent import UserAgent

NAMES = ("push.example", "other.example")


def options(pebble: Pebble) -> list[str]:
    words = ["--acme-directory", pebble.url, "--acme-ca", str(pebble.ca), "--host", LOOPBACK]
    for name in NAMES:
        words += ["--domain", name]
    return [*words, "--http-port", str(pebble.http_port)]


async def connected(running: Service, tls: ssl.SSLContext, name: str = NAMES[0]) -> UserAgent:
    socket = await connect(
        f"wss://{name}:{running.websocket_port}/", host=LOOPBACK, ssl=tls, ping_interval=None
    )
    return UserAgent(socket)


def serial(agent: UserAgent) -> str:
    tls = cast(ssl.SSLObject, agent.socket.transport.get_extra_info("ssl_object"))
    return str(cast(dict[str, Any], tls.getpeercert())["serialNumber"])


async def health(running: Service, tls: ssl.SSLContext | bool) -> dict[str, Any]:
    url = f"https://{LOOPBACK}:{running.websocket_port}/health"
    async with (
        ClientSession() as session,
        session.get(url, ssl=tls, server_hostname=NAMES[0]) as answer,
    ):
        assert answer.status == 200
        document: dict[str, Any] = await answer.json()
        return document


def pid_of(running: Service, event: str) -> int:
    """Of the process that logged it last."""
    line = next(line for line in reversed(running.output) if event in line)
    return int(json.loads(line)["Pid"])


async def test_the_first_certificate_and_its_renewal_under_open_connections(
    tmp_path: Path, agents: list[UserAgent]
) -> None:
    with Pebble(tmp_path, unused_port()).running() as pebble:
        async with service(tmp_path / "data", *options(pebble), "--workers", "2") as running:
            await running.logged("A certificate was read again", 2)
            tls = pebble.issued()
            agents += [await connected(running, tls, name) for name in NAMES]
            await agents[0].hello()
            assert (await health(running, tls))["certificate"]["days_left"] == 89
            async with ClientSession() as session:
                url = f"http://{LOOPBACK}:{pebble.http_port}/errors"
                async with session.get(url, allow_redirects=False) as answer:
                    assert answer.status == 301
                    assert answer.headers["Location"] == f"{running.endpoint}/errors"

            # It is told to renew at once, and its process is killed.
            state = tmp_path / "data" / "acme" / "state.json"
            while (document := json.loads(state.read_text()))["suggested"] is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # a file of another process
            state.write_text(json.dumps(document | {"suggested": 0.0}))
            os.kill(pid_of(running, "A certificate was issued"), signal.SIGKILL)
            await running.logged("The process of the certificate ended and is restarted")
            await running.logged("A certificate was read again", 4)
            await agents[0].register()  # on the connection of before
            agents.append(await connected(running, tls))
            assert serial(agents[-1]) != serial(agents[0])


async def test_without_a_directory_it_serves_and_says_why(tmp_path: Path) -> None:
    pebble = Pebble(tmp_path, unused_port())
    async with service(tmp_path / "data", *options(pebble)) as running:
        await running.logged("No certificate was issued; what is there is served on")
        found = (await health(running, tls=False))["certificate"]
        assert found["status"] == "NOT OK"
        assert found["failure"].endswith("cannot be reached (Connection refused)")
