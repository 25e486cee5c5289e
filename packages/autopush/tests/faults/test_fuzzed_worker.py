"""A worker that serves millions of fuzzed frames and requests stays the process that it was: no
traceback, no growth, no descriptor left open, and it delivers as before.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from support import wire
from support.application_server import application_server
from support.raw_client import RawClient, raw_client
from support.service import Service, service
from support.soak import each_number_of_workers, times

CHANNEL = "2f1e3d4c-5b6a-4789-8abc-0123456789ab"
VALUES: list[object] = [
    *(None, 0, -1.5, 10**30, [1, [2], {"a": "b"}], [], {"a": {"b": [None]}}, {}, True, False),
    *("A" * 60_000, "", "af1883%&!@#*(", "\0\r\n\x1b\x7f", "ünïcödé-\U0001f510-\u202e"),
    json.loads("[" * 200 + "]" * 200),
]
"""One of each kind that is no UUID, no key, no list of acks and no object of broadcasts."""
TYPES = ["hello", "register", "unregister", "ack", "nack", "broadcast_subscribe", "urgency"]
MEMBERS = ["channelID", "key", "updates", "version", "code", "uaid", "broadcasts", "use_webpush"]
BIG = 2000
"""Bytes of a value of which there are few."""
HEADERS = ["TTL", "Topic", "Urgency", "Content-Encoding", "Encryption", "Crypto-Key", "Prefer"]
HEADERS += ["Authorization", "X-Forwarded-For", "Content-Type", "Origin", "Accept"]
TOKENS = [b"\r\n", b"\n", b"\0", b" ", b":", b"Content-Length: 5\r\n", b"\xff", b"-1", b"a" * 400]
TOKENS += [b"Expect: 100-continue\r\n", b"Content-Length: 99999\r\n", "é".encode()]
TOKENS += [b"Transfer-Encoding: chunked\r\n", b"Host: h\r\n", b"HTTP/2.0", b"0\r\n\r\n"]


class FrameFuzzer:
    """Frames of user agents."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._small = [value for value in VALUES if len(str(value)) < BIG]

    def batch(self, count: int) -> list[bytes]:
        """So many frames, of which all but the last leave the connection open."""
        return [*(self._frame() for _ in range(count - 1)), self._last()]

    def pieces(self, data: bytes) -> list[bytes]:
        """The same bytes, cut anywhere."""
        cuts = sorted(self._dice.randrange(len(data)) for _ in range(self._dice.randrange(4)))
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _value(self) -> object:
        return self._dice.choice(VALUES if self._dice.random() < 0.02 else self._small)

    def _message(self) -> bytes:
        dice = self._dice
        members = {name: self._value() for name in dice.sample(MEMBERS, dice.randrange(4))}
        if dice.random() < 0.5:
            members["channelID"] = dice.choice([CHANNEL, CHANNEL.upper(), CHANNEL[:-1]])
        if dice.random() < 0.3:
            entry = {"channelID": self._value(), "version": self._value(), "code": self._value()}
            members["updates"] = [entry] * dice.randrange(5)
        return json.dumps({"messageType": dice.choice(TYPES), **members}).encode()

    def _frame(self) -> bytes:
        dice, number = self._dice, self._dice.random()
        key = bytes(4) if number < 0.9 else dice.randbytes(4)
        if number < 0.1:
            return wire.frame(dice.choice([wire.PING, wire.PONG]), dice.randbytes(99), key=key)
        payload = self._message()
        if number < 0.2:
            at = dice.randrange(len(payload))
            first = wire.frame(wire.TEXT, payload[:at], fin=False, key=key)
            ping = wire.frame(wire.PING, b"between", key=key)
            return first + ping + wire.frame(wire.CONTINUATION, payload[at:], key=key)
        return wire.frame(wire.TEXT, payload, key=key)

    def _last(self) -> bytes:
        """A frame with anything wrong: its bits, its length, its text, its type."""
        dice = self._dice
        payload = bytearray(self._message()[:BIG])
        match dice.randrange(6):
            case 0:
                return wire.frame(dice.randrange(16), dice.randbytes(dice.randrange(200)))
            case 1:
                return wire.frame(wire.TEXT, bytes(payload), rsv=dice.randrange(8))
            case 2:
                return wire.close(dice.randrange(5200), dice.randbytes(dice.randrange(120)))
            case 3:
                return wire.frame(wire.TEXT, b"{}", length=dice.randrange(2**40), length_bytes=8)
            case 4:
                return dice.randbytes(dice.randrange(1, 300))
            case _:
                for _ in range(dice.randrange(1, 4)):
                    payload[dice.randrange(len(payload))] = dice.randrange(256)
                return wire.text(bytes(payload))


class RequestFuzzer:
    """Requests to the endpoint: of all kinds, some broken, some good. `paths`: of endpoints."""

    def __init__(self, seed: int, paths: Sequence[str]) -> None:
        self._dice = random.Random(seed)
        self._paths = paths

    def batch(self, count: int) -> list[bytes]:
        """So many requests, of which all but the last leave the connection open."""
        kinds = self._dice.choices([self._push, self._other], k=count - 1)
        return [*(kind() for kind in kinds), self._broken()]

    def _push(self) -> bytes:
        dice = self._dice
        path = dice.choice(self._paths)
        if dice.random() < 0.3:
            at = dice.randrange(1, len(path))
            path = path[:at] + dice.choice(["", "A", "%00", "/"]) + path[at + 1 :]
        lines = {"TTL": dice.choice(["0", "0", "0", "-1", "", "99999999999", "x"])}
        for name in dice.sample(HEADERS, dice.randrange(4)):
            lines[name] = self._text()
        return self._bytes("POST", path, lines, dice.randbytes(dice.choice([0, 10, 3000])))

    def _other(self) -> bytes:
        dice = self._dice
        method = dice.choice(["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "POST"])
        uaid = dice.choice(["0" * 32, "x", "A" * 300])
        paths = ["/health", "/v1/fcm/app/registration", f"/v1/gcm/x/registration/{uaid}"]
        paths += [f"/m/{self._text()}", f"/v1/webpush/x/registration/{uaid}/subscription", "/"]
        path = quote(dice.choice(paths), safe="/%?&=+~")
        return self._bytes(method, path, {"TTL": "0"}, self._text().encode())

    def _broken(self) -> bytes:
        dice, data = self._dice, self._push()
        for _ in range(dice.randrange(1, 4)):
            at = dice.randrange(len(data))
            what = dice.choice([*TOKENS, data[at : at + 20] * 2, dice.randbytes(3)])
            data = data[:at] + what + data[at + dice.randrange(30) :]
        return data

    def _text(self) -> str:
        dice = self._dice
        letters = [chr(dice.randrange(0x20, 0x7F)) for _ in range(dice.randrange(1, 60))]
        return "".join(letters)

    def _bytes(self, method: str, path: str, lines: dict[str, str], body: bytes) -> bytes:
        head = [f"{method} {path} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in lines.items()]
        return "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + body


FRAMES = int(os.environ.get("FUZZED_FRAMES", times(20_000, 10_000_000)))
REQUESTS = int(os.environ.get("FUZZED_REQUESTS", times(5_000, 1_000_000)))
SEED = int(os.environ.get("FUZZED_SEED", "1"))
BATCH = 250
"""Frames of one connection, at most."""
PIPELINED = 20
CLIENTS = 8
"""Connections at once."""
CLOSING_TIMEOUT = 90
MAX_GROWTH = 16 << 20
"""Bytes by which each worker may grow after the first tenth, in which its caches are filled."""
GONE = (OSError, asyncio.IncompleteReadError)
# What is refused by rates is not read; here everything is to be read.
OPTIONS = [f"--{name}-rate=none" for name in ("message", "registration", "endpoint")]


class Workers:
    """The processes of a service, together, as the system sees them."""

    def __init__(self, running: Service) -> None:
        self._processes = [Path("/proc", str(pid)) for pid in (running.pid, *running.workers)]
        self._data = str(running.data)

    @property
    def memory(self) -> int:
        """Resident bytes."""
        pages = sum(int((each / "statm").read_text().split()[1]) for each in self._processes)
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        """Without those of the store, whose parts are opened when they are needed."""
        return sum(
            not target_of(descriptor).startswith(self._data)
            for process in self._processes
            for descriptor in (process / "fd").iterdir()
        )

    async def closes_all_but(self, count: int) -> None:
        """Wait until no more descriptors are open; some connections end by a timeout."""
        began = time.monotonic()
        async with asyncio.timeout(CLOSING_TIMEOUT):
            while self.descriptors > count:  # noqa: ASYNC110 - another process closes them
                await asyncio.sleep(0.1)
        print(f"at most {count} descriptors after {time.monotonic() - began:.1f} s")


def target_of(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # it is closed meanwhile
        return ""


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


@each_number_of_workers()
@pytest.mark.timeout(times(400, 4 * 3600))
async def test_fuzzed_frames_and_requests_leave_nothing_behind(
    tmp_path: Path, workers: int
) -> None:
    ends, answers, read = Counter[str](), Counter[int](), 0
    async with service(tmp_path, "--workers", str(workers), *OPTIONS) as running:
        agent, processes = await running.connect(), Workers(running)
        endpoints = [(await agent.register())[1] for _ in range(4)]
        offline = await running.connect()
        endpoints += [(await offline.register())[1]]
        await offline.close()
        paths = ["/" + endpoint.split("/", 3)[3] for endpoint in endpoints]

        async def fuzz(share: float, seed: int) -> int:
            frames, requests = (int(count * share / CLIENTS) for count in (FRAMES, REQUESTS))
            ports, seeds = (
                (running.websocket_port, running.endpoint_port),
                range(seed, seed + CLIENTS),
            )
            sent = (fuzz_frames(ports[0], frames, each, ends) for each in seeds)
            asked = (fuzz_requests(ports[1], requests, each, paths, answers) for each in seeds)
            read, _ = await asyncio.gather(asyncio.gather(*sent), asyncio.gather(*asked))
            return sum(read)

        async def ack_all() -> None:
            while True:
                await agent.ack([await agent.notifications.get()])
                agent.received.clear()

        acking = asyncio.create_task(ack_all())
        descriptors = processes.descriptors
        read += await fuzz(0.1, SEED)
        memory = processes.memory
        read += await fuzz(0.9, SEED + CLIENTS)
        acking.cancel()
        await asyncio.gather(acking, return_exceptions=True)
        async with application_server(reconnecting=True) as server:
            message_id = (await server.push(endpoints[0])).message_id
        (message,) = await agent.receive(1, ack=True)
        assert message["version"] == message_id
        growth = processes.memory - memory
        print(f"\n{FRAMES:,} frames sent, {read:,} certainly read, {dict(ends)}")
        print(f"{answers.total():,} requests answered: {dict(answers)}")
        print(f"memory: {memory / 2**20:.1f} MiB, then {growth / 2**20:.1f} MiB more")
        assert growth < workers * MAX_GROWTH
        await processes.closes_all_but(descriptors)
        await agent.close()
    assert running.errors == []
    assert read > FRAMES / 2
    assert not {status for status in answers if status >= 500} - {501}
