"""A service of two workers that sends its metrics, and the port that reports on its memory."""

import asyncio
import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.application_server import application_server
from support.service import Service, new_subscriber, service
from support.sockets import unused_port
from support.user_agent import UserAgent


async def push_once(running: Service, agents: list[UserAgent]) -> None:

    _, endpoint = await new_subscriber(running, agents)
    async with application_server() as sender:
        assert (await sender.push(endpoint)).status == 201
    await agents[-1].notification()


async def test_statsd_gets_what_every_worker_counts(tmp_path: Path) -> None:
    agents: list[UserAgent] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(30)
        port = str(server.getsockname()[1])
        options = ("--workers", "2", "--statsd-host", "127.0.0.1", "--statsd-port", port)
        async with service(tmp_path, *options) as running:
            await push_once(running, agents)
            wanted = {b"autopush.notification.received:1|c", b"autopush.worker.ready:2|g"}
            while wanted:
                wanted -= {*(await asyncio.to_thread(server.recv, 65536)).split(b"\n")}
            for agent in agents:
                await agent.close()


async def test_the_memory_port_reports_on_this_machine_only(tmp_path: Path) -> None:
    port = unused_port()
    options = ("--host", "0.0.0.0", "--memusage-port", str(port))
    async with service(tmp_path, *options) as running:
        url = f"http://127.0.0.1:{port}/_memusage"

        def report(query: str = "") -> str:
            with urlopen(url + query, timeout=30) as response:
                return str(response.read().decode())

        text = await asyncio.to_thread(report)
        assert all(words in text for words in ("ru_maxrss=", "<malloc ", "RSS", "function "))
        assert "function " not in await asyncio.to_thread(report, "?objgraph=false")
        with pytest.raises(HTTPError, match="404"):
            await asyncio.to_thread(urlopen, f"{running.endpoint}/_memusage")
        listening = await asyncio.to_thread(Path("/proc/net/tcp").read_text, "ascii")
        assert f"0100007F:{port:04X}" in listening
        assert f"00000000:{port:04X}" not in listening
