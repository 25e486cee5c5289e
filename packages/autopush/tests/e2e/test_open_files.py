"""A service whose file descriptors are used up, in a process with few of them."""

import asyncio
import os
import resource
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException

from support.service import Service

pytestmark = pytest.mark.slow

LIMIT = 80
LINE = "No file descriptor is left"
FEW = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {0}))"
PERIOD = 6.0
"""Seconds of the shortage: longer than from one look at the process to the next."""


def with_few_files(words: Sequence[str]) -> list[str]:
    program = f"{FEW.format(LIMIT)}; os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", program, *words]


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


async def test_a_service_without_descriptors_says_so_once_rests_and_recovers(
    tmp_path: Path, clients: ExitStack
) -> None:
    """Clients never get so far, as connections are bounded: the limit is lowered here."""
    running = Service(tmp_path, ["--open-handshake-timeout=60"], wrap=with_few_files)
    await running.start()
    try:
        used_now = len(os.listdir(f"/proc/{running.pid}/fd"))
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (used_now, LIMIT))
        address = ("127.0.0.1", running.endpoint_port)
        logged = asyncio.create_task(running.logged(LINE))
        while not logged.done():  # the service may close files that it had at its start
            clients.enter_context(socket.create_connection(address))
            await asyncio.wait([logged], timeout=0.2)
        await logged
        used, began = cpu_seconds(running.pid), time.monotonic()
        while time.monotonic() - began < PERIOD:  # clients that come again and again
            with socket.create_connection(address):
                await asyncio.sleep(0.2)
        used = (cpu_seconds(running.pid) - used) / (time.monotonic() - began)
        clients.close()
        resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        async with asyncio.timeout(30):
            await reconnect(running)
    finally:
        code = await running.stop()
    assert code == 0
    text = "".join(running.output)
    assert text.count(LINE) == 1, text
    assert f'"limit":{used_now}' in text or f"limit={used_now}" in text
    assert "Traceback" not in text
    assert used < 0.2, "of a core: it does not spin"


async def reconnect(running: Service) -> None:
    """Connect as soon as the service has descriptors again."""
    while True:
        with suppress(OSError, WebSocketException):
            agent = await running.connect()
            await agent.close()
            return
        await asyncio.sleep(0.1)
