"""What a POST of 4 KiB costs: our HTTP shell beside a bare httptools protocol.

    .venv/bin/python -m bench.http_post [--rounds N] [--requests N]

One server process on uvloop serves both, each on a port of its own; this process is the client of
each alternately, so both see the same machine in the same seconds. CPU is the server process's own,
user and system time together. The bare protocol reads the request into a dict of bytes and writes
one constant answer: no server built on httptools can do less.
"""

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys

import uvloop

from autopush.net.http_messages import Limits, Request, Response
from autopush.net.http_server import HttpServer
from autopush.net.timers import TimerWheel
from bench.floor_servers import Post
from bench.machine import cpu_ns

BODY = b"\x5a" * 4096
TOKEN = "gAAAAABl" + "x" * 180
REQUEST = (
    f"POST /wpush/v2/{TOKEN} HTTP/1.1\r\n"
    "Host: updates.push.example:8082\r\n"
    "User-Agent: python-requests/2.32.3\r\n"
    "Accept: */*\r\n"
    "Accept-Encoding: gzip, deflate\r\n"
    "TTL: 3600\r\n"
    "Content-Encoding: aes128gcm\r\n"
    f"Authorization: vapid t={'e' * 230},k={'B' * 87}\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY
CONNECTIONS = 8
LOCATION = "http://127.0.0.1/m/" + "A" * 160


def created(request: Request) -> Response:
    return Response(
        201, b"", (("location", LOCATION), ("ttl", request.headers["ttl"]), ("x-version", "1"))
    )


def on_crash(exc: Exception, request: Request) -> None:
    raise exc


async def serve() -> None:
    loop = asyncio.get_running_loop()
    shell = HttpServer(
        created,
        limits=Limits(max_body=8192),
        wheel=TimerWheel(loop),
        error_response=lambda status, reason: Response(status, reason.encode()),
        on_crash=on_crash,
    )
    ports = []
    for factory in (Post, shell.protocol):
        server = await loop.create_server(factory, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
    print(*ports, flush=True)
    await asyncio.Event().wait()


def connect(port: int) -> list[socket.socket]:
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for each in opened:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def post(connections: list[socket.socket], requests: int) -> None:
    for _ in range(requests // len(connections)):
        for each in connections:
            each.sendall(REQUEST)
        for each in connections:
            if not each.recv(4096).startswith(b"HTTP/1.1 201"):
                raise RuntimeError("not a 201")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=8000, help="per round and server")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve())
        return
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.http_post", "--serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        bare, ours = (connect(int(port)) for port in child.stdout.readline().split())
        figures: list[tuple[float, float]] = []
        for number in range(options.rounds + 1):
            costs = []
            for connections in (bare, ours):
                before = cpu_ns(child.pid)
                post(connections, options.requests)
                costs.append((cpu_ns(child.pid) - before) / options.requests / 1000)
            if number:  # the first round warms up
                figures.append((costs[0], costs[1]))
        for connections in (bare, ours):
            for each in connections:
                each.close()
    finally:
        child.terminate()
        child.wait()
    ratios = [cost / floor for floor, cost in figures]
    print(f"CPU per POST of {len(BODY)} bytes, {options.rounds} alternating rounds (medians)")
    print(f"  bare httptools  {statistics.median(floor for floor, _ in figures):6.1f} µs")
    print(f"  ours            {statistics.median(cost for _, cost in figures):6.1f} µs")
    print(
        f"  ours/bare       {statistics.median(ratios):6.2f}    "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
