"""What a WebSocket message and an idle WebSocket cost: ours beside picows, a C extension.

    .venv/bin/python -m bench.websocket_echo

One server process serves both echo servers; this process is the client of each alternately. CPU is
the server process's own, user and system time together. The kernel's part is the same for both, so
the ratio falls when system calls are slow: it says something only with its range. Memory is what
the RSS of a second server process grows by while thousands of connections are opened and left idle.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import cast

import picows
import uvloop

from autopush.net.frames import answer_handshake
from autopush.net.timers import TimerWheel
from autopush.net.websocket import WebSocketProtocol

REQUEST = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


# --- the servers --------------------------------------------------------------------------------


class Echo(WebSocketProtocol):
    __slots__ = ()

    def text_received(self, payload: bytes) -> None:
        self.send_text(payload)


class Shell(asyncio.Protocol):
    """Answers the one request a connection begins with."""

    __slots__ = ("transport", "wheel")

    def __init__(self, wheel: TimerWheel) -> None:
        self.wheel = wheel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        lines = data.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        answer = answer_handshake("GET", "1.1", {name.lower(): value for name, _, value in pairs})
        assert answer.accepted
        head = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        self.transport.write(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode())
        protocol = Echo(self.wheel)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)


class PicowsEcho(picows.WSListener):
    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        transport.send(frame.msg_type, frame.get_payload_as_bytes())


async def serve() -> None:
    loop = asyncio.get_running_loop()
    wheel = TimerWheel(loop)
    ours = await loop.create_server(lambda: Shell(wheel), "127.0.0.1", 0, backlog=1000)
    theirs = await picows.ws_create_server(lambda _: PicowsEcho(), "127.0.0.1", 0)
    ports = [server.sockets[0].getsockname()[1] for server in (ours, theirs)]
    print(json.dumps(ports), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the client is done


@contextlib.contextmanager
def server_process() -> Iterator[tuple[int, int, int]]:
    """Process id, our port, picows' port."""
    command = [sys.executable, "-m", "bench.websocket_echo", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ours, theirs = json.loads(process.stdout.readline())
        try:
            yield process.pid, ours, theirs
        finally:
            process.stdin.close()
            process.wait(10)


# --- the client ---------------------------------------------------------------------------------


def cpu_of(pid: int) -> float:
    """Seconds of CPU the process has used, by its own clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def rss_of(pid: int) -> int:
    """Resident bytes of the process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def masked(payload: bytes) -> bytes:
    key = b"\x12\x34\x56\x78"
    length = len(payload)
    head = bytes((0x81, 0x80 | length)) if length < 126 else b"\x81\xfe" + length.to_bytes(2)
    return head + key + bytes(byte ^ key[i & 3] for i, byte in enumerate(payload))


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += sock.recv(4096)
    assert answer.startswith(b"HTTP/1.1 101 ")
    return sock


class Client(asyncio.Protocol):
    """Sends a message, awaits its echo, sends it again."""

    echoes = 0
    stopped = False

    def __init__(self, frame: bytes, answer_size: int) -> None:
        self.frame = frame
        self.answer_size = answer_size
        self.missing = 0
        self.idle = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        self.idle.clear()
        self.missing = self.answer_size
        self.transport.write(self.frame)

    def data_received(self, data: bytes) -> None:
        self.missing -= len(data)
        if self.missing == 0:
            Client.echoes += 1
            if Client.stopped:
                self.idle.set()
            else:
                self.send()


async def one_round(pid: int, clients: list[Client], seconds: float) -> float:
    """Seconds of the server's CPU per echo."""
    Client.stopped = False
    before, echoes = cpu_of(pid), Client.echoes
    for client in clients:
        client.send()
    await asyncio.sleep(seconds)
    Client.stopped = True
    for client in clients:
        await client.idle.wait()
    return (cpu_of(pid) - before) / (Client.echoes - echoes)


async def echo(size: int, connections: int, rounds: int, seconds: float) -> None:
    payload = (b'{"messageType":"ack","updates":[' + b"x" * size)[:size]
    frame, answer_size = masked(payload), size + (2 if size < 126 else 4)
    loop = asyncio.get_running_loop()
    with server_process() as (pid, *ports):
        servers: list[list[Client]] = []
        for port in ports:
            servers.append([])
            for _ in range(connections):
                _, client = await loop.create_connection(
                    lambda: Client(frame, answer_size), sock=connect(port)
                )
                servers[-1].append(client)
            await one_round(pid, servers[-1], seconds / 2)  # warm up
        pairs = [
            (await one_round(pid, servers[0], seconds), await one_round(pid, servers[1], seconds))
            for _ in range(rounds)
        ]
        for clients in servers:
            for client in clients:
                client.transport.abort()
    ours, theirs = (statistics.median(times) * 1e6 for times in zip(*pairs, strict=True))
    ratios = sorted(mine / other for mine, other in pairs)
    print(
        f"echo of {size} bytes, {connections} connections: ours / picows = "
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {rounds} pairs; "
        f"{ours:.1f} / {theirs:.1f} µs of CPU)"
    )


def idle(connections: int) -> None:
    message = masked(b"x" * 200)
    with server_process() as (pid, port, _):
        sockets = [connect(port) for _ in range(200)]  # what the first ones cost once is not theirs
        before = rss_of(pid)
        for _ in range(connections):
            sockets.append(connect(port))
            sockets[-1].sendall(message)
            sockets[-1].recv(4096)
        grown = rss_of(pid) - before
        for sock in sockets:
            sock.close()
    kept = grown / connections
    print(
        f"idle connection: {kept:.0f} bytes of RSS each, {kept / 1536:.2f} of the 1.5 KiB allowed "
        f"({connections} connections after one echo each)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--serve", action="store_true", help="be the server process")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.25, help="length of a round")
    parser.add_argument("--idle", type=int, default=5000, help="idle connections to open")
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve())
        return
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs")
    for size, connections in ((200, 1), (200, 50), (350, 50)):
        uvloop.run(echo(size, connections, options.rounds, options.seconds))
    idle(options.idle)


if __name__ == "__main__":
    main()
