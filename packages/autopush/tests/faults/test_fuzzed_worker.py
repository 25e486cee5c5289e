"""A worker that serves millions of fuzzed frames and requests stays the process that it was: no
traceback, no growth, no descriptor left open, and it delivers as before.
"""

import asyncio
import contextlib
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from support import wire
from support.application_server import application_server
from support.bad_input import path_of
from support.fuzzed_traffic import FrameFuzzer, RequestFuzzer
from support.raw_client import RawClient, raw_client
from support.service import Service, service
from support.soak import times
from support.user_agent import UserAgent

FRAMES = int(os.environ.get("FUZZED_FRAMES", times(50_000, 10_000_000)))
REQUESTS = int(os.environ.get("FUZZED_REQUESTS", times(5_000, 1_000_000)))
SEED = int(os.environ.get("FUZZED_SEED", "1"))
BATCH = 250
"""Frames of one connection, at most."""
PIPELINED = 20
CLIENTS = 8
"""Connections at once."""
CLOSING_TIMEOUT = 90
MAX_GROWTH = 16 << 20
"""Bytes by which the worker may grow after the first tenth, in which its caches are filled."""
GONE = (OSError, asyncio.IncompleteReadError)
# What is refused by rates is not read; here everything is to be read.
OPTIONS = [f"--{name}-rate=none" for name in ("message", "registration", "endpoint")]


class Worker:
    """The process of a service with one worker, as the system sees it."""

    def __init__(self, running: Service) -> None:
        self._process = Path("/proc", str(running.pid))

    @property
    def memory(self) -> int:
        """Resident bytes."""
        pages = int((self._process / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        return len(list((self._process / "fd").iterdir()))

    async def closes_all_but(self, count: int) -> None:
        """Wait until no more descriptors are open; some connections end by a timeout."""
        began = time.monotonic()
        async with asyncio.timeout(CLOSING_TIMEOUT):
            while self.descriptors > count:  # noqa: ASYNC110 - another process closes them
                await asyncio.sleep(0.1)
        print(f"at most {count} descriptors after {time.monotonic() - began:.1f} s")


async def fuzz_frames(port: int, count: int, seed: int, ends: Counter[str]) -> int:
    """Send so many frames; returns how many the worker has certainly read."""
    fuzzer, read, left = FrameFuzzer(seed), 0, count
    while left > 0:
        batch = fuzzer.batch(min(BATCH, left))
        left -= len(batch)
        async with raw_client(port) as client:
            await client.hello()
            *open_frames, last = batch
            reading = asyncio.create_task(_read(client, ends))
            with contextlib.suppress(*GONE):
                data = b"".join([*open_frames, wire.frame(wire.PING, b"all read")])
                for piece in fuzzer.pieces(data):
                    client.send(piece)
                    await client.writer.drain()
                client.send(last + wire.close(1000))
                client.finish()
            read += len(batch) if await reading else 0
    return read


async def _read(client: RawClient, ends: Counter[str]) -> bool:
    """Read to the end; returns whether all frames were read."""
    all_read = False
    try:
        while True:
            opcode, payload = await client.frame()
            all_read = all_read or (opcode, payload) == (wire.PONG, b"all read")
            if opcode == wire.CLOSE:
                ends[f"close {int.from_bytes(payload[:2])}"] += 1
                return all_read
    except GONE as error:
        ends[type(error).__name__] += 1
        return all_read


async def fuzz_requests(
    port: int, count: int, seed: int, paths: list[str], answers: Counter[int]
) -> None:
    """Send requests until so many were answered."""
    fuzzer, left = RequestFuzzer(seed, paths), count
    while left > 0:
        batch = fuzzer.batch(PIPELINED)
        async with raw_client(port) as client:
            with contextlib.suppress(*GONE):
                client.send(b"".join(batch))
                await client.writer.drain()
                client.finish()
            for line in (await client.end()).split(b"HTTP/1.1 ")[1:]:
                answers[int(line[:3])] += 1
                left -= 1


async def delivers(running: Service, agent: UserAgent, endpoint: str) -> None:
    async with application_server(reconnecting=True) as server:
        answer = await server.push(endpoint)
    (message,) = await agent.receive(1, ack=True)
    assert message["version"] == answer.message_id


def grown(name: str, before: int, after: int) -> str:
    return f"{name}: {before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after"


@pytest.mark.slow
@pytest.mark.timeout(times(300, 4 * 3600))
async def test_fuzzed_frames_leave_nothing_behind(tmp_path: Path) -> None:
    ends: Counter[str] = Counter()

    async def fuzz(running: Service, count: int, seed: int) -> int:
        port, share = running.websocket_port, count // CLIENTS
        clients = (fuzz_frames(port, share, seed + n, ends) for n in range(CLIENTS))
        return sum(await asyncio.gather(*clients))

    async with service(tmp_path, *OPTIONS) as running:
        agent, worker = await running.connect(), Worker(running)
        _, endpoint = await agent.register()
        descriptors = worker.descriptors
        read = await fuzz(running, FRAMES // 10, SEED)
        memory = worker.memory
        read += await fuzz(running, FRAMES - FRAMES // 10, SEED + CLIENTS)
        await delivers(running, agent, endpoint)
        print(f"\n{FRAMES:,} frames sent, {read:,} certainly read, {dict(ends)}")
        print(grown("memory", memory, worker.memory))
        assert worker.memory - memory < MAX_GROWTH
        await worker.closes_all_but(descriptors)
        await agent.close()
    assert running.errors == []
    assert read > FRAMES / 2


@pytest.mark.slow
@pytest.mark.timeout(times(300, 4 * 3600))
async def test_fuzzed_requests_leave_nothing_behind(tmp_path: Path) -> None:
    answers: Counter[int] = Counter()
    async with service(tmp_path, *OPTIONS) as running:
        agent, worker = await running.connect(), Worker(running)
        endpoints = [(await agent.register())[1] for _ in range(4)]
        offline = await running.connect()
        endpoints += [(await offline.register())[1]]
        await offline.close()
        paths = [path_of(endpoint) for endpoint in endpoints]

        async def fuzz(count: int, seed: int) -> None:
            port, share = running.endpoint_port, count // CLIENTS
            await asyncio.gather(
                *(fuzz_requests(port, share, seed + n, paths, answers) for n in range(CLIENTS))
            )

        async def ack_all() -> None:
            while True:
                await agent.ack([await agent.notifications.get()])
                agent.received.clear()

        acking = asyncio.create_task(ack_all())
        descriptors = worker.descriptors
        await fuzz(REQUESTS // 10, SEED)
        memory = worker.memory
        await fuzz(REQUESTS - REQUESTS // 10, SEED + CLIENTS)
        acking.cancel()
        await asyncio.gather(acking, return_exceptions=True)
        print(f"\n{answers.total():,} requests answered: {dict(answers)}")
        print(grown("memory", memory, worker.memory))
        assert worker.memory - memory < MAX_GROWTH
        await worker.closes_all_but(descriptors)
        await agent.close()
    assert running.errors == []
    assert not {status for status in answers if status >= 500} - {501}
