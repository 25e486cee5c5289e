"""The floor: what the same work costs without a service around it.

One floor = a bare picows echo of 200 bytes plus a bare httptools POST of 4 KiB, each in its own
process on the server's core (`python -m bench.floor echo|post`), under the same number of
connections and driven by the same load code as the service; CPU time per operation, summed. Each
does the least that its library allows; no server built on these parts can cost less.

It is measured again between the measures, so that the drift of a shared machine cancels in the
ratio.
"""

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import repeat
from typing import cast

import httptools
import uvloop
from cryptography.hazmat.primitives.asymmetric import ec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect, ws_create_server

from bench import machine
from bench.ledger import Ledger
from bench.push_client import ES256, ClosedLoop, Poster, open_posters
from bench.server import spawn

_TEXT = b"x" * 200
POST_BYTES = 4096
_CREATED = (
    b"HTTP/1.1 201 Created\r\nLocation: http://127.0.0.1/m/"
    + b"A" * 160
    + b"\r\nTTL: 3600\r\nContent-Length: 0\r\n\r\n"
)


@dataclass(frozen=True)
class FloorSample:
    """CPU nanoseconds per operation."""

    echo: float
    post: float

    @property
    def total(self) -> float:
        return self.echo + self.post


class _Echo(WSListener):
    """The server's side: sends each message back."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        transport.send(frame.msg_type, frame.get_payload_as_bytes())


class _Post(asyncio.Protocol):
    """Reads a request to its end, as a server has to, and answers 201."""

    __slots__ = ("body", "headers", "parser", "transport", "url")

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.transport = cast(asyncio.Transport, None)
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.transport.write(_CREATED)
        self.headers = {}
        self.body = b""


async def _serve(kind: str) -> None:
    """Prints its port."""
    server: asyncio.Server
    if kind == "echo":
        server = await ws_create_server(lambda _: _Echo(), "127.0.0.1", 0, backlog=1024)
    else:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Post, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class _EchoClient(WSListener):
    """Sends the same frame again whenever it came back, as long as any are left to send."""

    def __init__(self, floor: "Floor") -> None:
        self.floor = floor

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.floor.came_back(transport)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.floor.echo_lost()


class Floor:
    """The bare servers, started once and measured many times. `samples` keeps what `take` saw."""

    def __init__(self, core: int, *, clients: int, posters: int, echoes: int, posts: int) -> None:
        self.samples: list[FloorSample] = []
        self.verifications: list[float] = []
        self._core = core
        self._sizes = (clients, posters)
        self._echoes, self._posts = echoes, posts
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._to_send = self._to_come = 0
        self._echoed: asyncio.Future[None] | None = None
        self._clients: list[WSTransport] = []
        self._posters: list[Poster] = []

    async def start(self) -> None:
        for kind in ("echo", "post"):
            command = [sys.executable, "-m", "bench.floor", kind]
            self._processes[kind] = spawn(command, {self._core})
        clients, posters = self._sizes
        url = f"ws://127.0.0.1:{int(await self._line('echo'))}/"
        self._clients = [
            (await ws_connect(lambda: _EchoClient(self), url))[0] for _ in range(clients)
        ]
        self._posters = await open_posters("127.0.0.1", int(await self._line("post")), posters)
        await self._take(self._echoes // 4, self._posts // 4)

    async def take(self) -> FloorSample:
        """Measure it now."""
        sample = await self._take(self._echoes, self._posts)
        self.samples.append(sample)
        return sample

    async def _take(self, echoes: int, posts: int) -> FloorSample:
        pid = self._processes["echo"].pid
        before = machine.cpu_ns(pid)
        self._echoed = asyncio.get_running_loop().create_future()
        self._to_come, self._to_send = echoes, max(0, echoes - len(self._clients))
        for client in self._clients[:echoes]:
            client.send(WSMsgType.TEXT, _TEXT)
        await asyncio.wait_for(self._echoed, 60)
        echo = machine.cpu_ns(pid) - before
        pid = self._processes["post"].pid
        before = machine.cpu_ns(pid)
        ledger = Ledger()
        ledger.begin(posts)
        ClosedLoop(self._posters, repeat(_post_request(), posts), ledger)
        await ledger.all_answered(60)
        post = machine.cpu_ns(pid) - before
        return FloorSample(echo / echoes, post / posts)

    def came_back(self, client: WSTransport) -> None:
        self._to_come -= 1
        if self._to_send:
            self._to_send -= 1
            client.send(WSMsgType.TEXT, _TEXT)
        elif not self._to_come and self._echoed is not None:
            self._echoed.set_result(None)

    def echo_lost(self) -> None:
        if self._echoed is not None and not self._echoed.done():
            self._echoed.set_exception(ConnectionError("the bare echo server ended a connection"))

    def verification(self, count: int) -> None:
        """Measure ES256 verifications by `cryptography`, on the same core."""
        private = ec.generate_private_key(ec.SECP256R1())
        public, text = private.public_key(), b"x" * 200
        signature = private.sign(text, ES256)
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._core})
        before = time.thread_time_ns()
        for _ in range(count):
            public.verify(signature, text, ES256)
        self.verifications.append((time.thread_time_ns() - before) / count)
        os.sched_setaffinity(0, mine)

    async def _line(self, kind: str) -> bytes:
        stdout = self._processes[kind].stdout
        assert stdout is not None
        return await asyncio.to_thread(stdout.readline)

    def stop(self) -> None:
        for client in self._clients:
            client.disconnect()
        for poster in self._posters:
            poster.close()
        for process in self._processes.values():
            process.kill()
            process.communicate()


def _post_request() -> bytes:
    head = (
        f"POST /wpush/v2/{'t' * 240} HTTP/1.1\r\nHost: 127.0.0.1:8082\r\n"
        "TTL: 3600\r\nUrgency: normal\r\n"
        "Content-Type: application/octet-stream\r\nContent-Encoding: aes128gcm\r\n"
        f"Content-Length: {POST_BYTES}\r\nAuthorization: vapid t={'a' * 260}, k={'k' * 87}\r\n\r\n"
    )
    return head.encode() + b"b" * POST_BYTES


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
