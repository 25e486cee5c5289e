"""What a request to a provider of a bridge costs: our HTTP/2 client beside httpx.

    PYTHONPATH=tests .venv/bin/python -m bench.http2_request [--rounds N] [--concurrency N]

One server process answers both over TLS and HTTP/2; this process is each client in turn, so both
see the same machine in the same seconds. CPU is this process's own, user and system time together.
The request is a message as the bridge to FCM sends it, with an access token as long as Google's;
both clients read the whole response. A stall is the longest time for which the event loop could not
run anything else.
"""

import argparse
import asyncio
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import uvloop

from autopush.net.http2_client import Http2Client
from autopush.net.http_client import ClientLimits
from bench.machine import cpu_ns
from support.certificates import self_signed
from support.provider_server import ProviderExchange, ProviderServer

PATH = "/v1/projects/example-1a2b3/messages:send"
BODY = (
    b'{"message":{"token":"' + b"t" * 160 + b'","android":{"data":{"body":"%s"}}}}' % (b"Z" * 2700)
)
HEADERS = {
    "content-type": "application/json",
    "content-length": str(len(BODY)),
    "authorization": "Bearer ya29." + "aB3_-xYz" * 125,
}
TICK = 0.005

Send = Callable[[], Awaitable[int]]


async def serve(certificate: str) -> None:
    async def answer(exchange: ProviderExchange) -> None:
        await exchange.respond_json(200, {"name": "projects/example-1a2b3/messages/0:15000"})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    print(await ProviderServer(answer).start(context), flush=True)
    await asyncio.Event().wait()


async def stall(longest: list[float]) -> None:
    """Record how much later than asked for this task runs, until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK
        await asyncio.sleep(TICK)
        longest[0] = max(longest[0], loop.time() - due)


async def run(send: Send, requests: int, concurrency: int) -> tuple[float, float]:
    """CPU microseconds of one request, and the longest stall in milliseconds."""
    left = iter(range(requests))

    async def one_after_the_other() -> None:
        for _ in left:
            if await send() != 200:
                raise RuntimeError("not a 200")

    longest = [0.0]
    watch = asyncio.create_task(stall(longest))
    before = cpu_ns(os.getpid())
    await asyncio.gather(*(one_after_the_other() for _ in range(concurrency)))
    cost = (cpu_ns(os.getpid()) - before) / requests / 1000
    watch.cancel()
    return cost, longest[0] * 1000


async def measure(port: int, certificate: str, options: argparse.Namespace) -> None:
    context = ssl.create_default_context(cafile=certificate)
    url = f"https://127.0.0.1:{port}{PATH}"
    library = httpx.AsyncClient(http2=True, verify=context)
    own_context = ssl.create_default_context(cafile=certificate)
    own_context.set_alpn_protocols(["h2"])
    client = Http2Client(url, own_context, ClientLimits(max_connections=4))
    headers = [(name, text) for name, text in HEADERS.items() if name != "content-length"]

    async def by_library() -> int:
        response = await library.post(url, headers=HEADERS, content=BODY)
        return response.status_code if response.http_version == "HTTP/2" else 0

    async def by_ours() -> int:
        return (await client.request("POST", url, headers, BODY)).status

    print(
        f"CPU per request of {len(BODY)} bytes, {options.concurrency} at the same time, "
        f"{options.rounds} alternating rounds (medians)"
    )
    rounds = []
    for number in range(options.rounds + 1):
        figures = [
            await run(send, options.requests, options.concurrency) for send in (by_library, by_ours)
        ]
        if number:  # the first round opens the connections
            rounds.append(figures)
    await library.aclose()
    await client.close()
    for name, column in (("httpx", 0), ("Http2Client", 1)):
        cost = statistics.median(each[column][0] for each in rounds)
        longest = statistics.median(each[column][1] for each in rounds)
        print(f"  {name:17} {cost:7.0f} µs    longest stall {longest:5.1f} ms")
    ratios = [library_figures[0] / ours[0] for library_figures, ours in rounds]
    print(
        f"  {'httpx/Http2Client':17} {statistics.median(ratios):7.1f}       "
        f"({min(ratios):.1f} to {max(ratios):.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000, help="per round and client")
    parser.add_argument("--concurrency", type=int, default=20)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        certificate = str(self_signed(Path(folder) / "server.pem"))
        child = subprocess.Popen(
            [sys.executable, "-m", "bench.http2_request", "--serve", certificate],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert child.stdout is not None
            uvloop.run(measure(int(child.stdout.readline()), certificate, options))
        finally:
            child.terminate()
            child.wait()


if __name__ == "__main__":
    main()
