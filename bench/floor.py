"""The floor: what the same work costs without a service around it.

One floor = a bare picows echo of 200 bytes plus a bare httptools POST of 4 KiB, each in its own
process on the server's core, under the same number of connections and driven by the same load code
as the service; CPU time per operation, summed.

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

from cryptography.hazmat.primitives.asymmetric import ec
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from bench import machine
from bench.ledger import Ledger
from bench.push_client import ES256, ClosedLoop, Poster, open_posters
from bench.server import spawn

ECHO_BYTES = 200
POST_BYTES = 4096


@dataclass(frozen=True)
class FloorSample:
    """CPU nanoseconds per operation."""

    echo: float
    post: float

    @property
    def total(self) -> float:
        return self.echo + self.post


class _EchoClient(WSListener):
    """Sends the same frame again whenever it came back, as long as any are left to send."""

    def __init__(self, run: "_EchoRun") -> None:
        self.run = run

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.run.came_back(transport)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.run.failed()


class _EchoRun:
    """Counts echoes over all clients of a round."""

    def __init__(self) -> None:
        self.to_send = self.to_come = 0
        self.done: asyncio.Future[None] | None = None
        self._text = b"x" * ECHO_BYTES

    def begin(self, clients: list[WSTransport], echoes: int) -> asyncio.Future[None]:
        self.done = asyncio.get_running_loop().create_future()
        self.to_send = self.to_come = echoes
        for client in clients[:echoes]:
            self.to_send -= 1
            client.send(WSMsgType.TEXT, self._text)
        return self.done

    def came_back(self, client: WSTransport) -> None:
        self.to_come -= 1
        if self.to_send:
            self.to_send -= 1
            client.send(WSMsgType.TEXT, self._text)
        elif not self.to_come and self.done is not None:
            self.done.set_result(None)

    def failed(self) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(ConnectionError("the bare echo server ended a connection"))


class Floor:
    """The bare servers, started once and measured many times. `samples` keeps what `take` saw."""

    def __init__(self, core: int, *, clients: int, posters: int, echoes: int, posts: int) -> None:
        self.samples: list[FloorSample] = []
        self.verifications: list[float] = []
        self._core = core
        self._sizes = (clients, posters)
        self._echoes, self._posts = echoes, posts
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._echo = _EchoRun()
        self._clients: list[WSTransport] = []
        self._posters: list[Poster] = []

    async def start(self) -> None:
        for kind in ("echo", "post"):
            self._processes[kind] = spawn(
                [sys.executable, "-m", "bench.floor_servers", kind],
                {self._core},
                stdout=subprocess.PIPE,
            )
        clients, posters = self._sizes
        url = f"ws://127.0.0.1:{int(await self._line('echo'))}/"
        self._clients = [
            (await ws_connect(lambda: _EchoClient(self._echo), url))[0] for _ in range(clients)
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
        await asyncio.wait_for(self._echo.begin(self._clients, echoes), 60)
        echo = machine.cpu_ns(pid) - before
        pid = self._processes["post"].pid
        before = machine.cpu_ns(pid)
        ledger = Ledger()
        ledger.begin(posts)
        ClosedLoop(self._posters, repeat(_post_request(), posts), ledger)
        await ledger.all_answered(60)
        post = machine.cpu_ns(pid) - before
        return FloorSample(echo / echoes, post / posts)

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
        if stdout is None:
            raise RuntimeError("not started")
        return await asyncio.to_thread(stdout.readline)

    def stop(self) -> None:
        for client in self._clients:
            client.disconnect()
        for poster in self._posters:
            poster.close()
        for process in self._processes.values():
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _post_request() -> bytes:
    head = (
        f"POST /wpush/v2/{'t' * 240} HTTP/1.1\r\nHost: 127.0.0.1:8082\r\n"
        "TTL: 3600\r\nUrgency: normal\r\n"
        "Content-Type: application/octet-stream\r\nContent-Encoding: aes128gcm\r\n"
        f"Content-Length: {POST_BYTES}\r\nAuthorization: vapid t={'a' * 260}, k={'k' * 87}\r\n\r\n"
    )
    return head.encode() + b"b" * POST_BYTES
