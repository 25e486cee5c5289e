"""What one request of each kind costs the service at its dearest, as a stranger may send it.

    PYTHONPATH=tests .venv/bin/python -m bench.request_costs [--quick]

Prints the table of the page on security. CPU is that of the service, a single worker on the
embedded store, as a multiple of a push with a known token in the same run. A stall is the longest
time for which another client waited for an empty answer meanwhile, in the calmest of three runs.
Memory is what the service grows by for each that is held open.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from bench.machine import cpu_ns, memory
from support.application_server import ApplicationServer, application_server
from support.raw_client import RawClient
from support.senders import Sender
from support.service import Service, service
from support.user_agent import UserAgent

LONG: Final = 16_000
"""Characters: a header line may have 16,384."""
ROUNDS: Final = 200
HELD: Final = 200
CALM_OF: Final = 3
"""Runs, of which the one counts that was disturbed least by other processes."""


@dataclass(frozen=True)
class Kind:
    """`request`: of a number, the bytes of a request. `held`: it is left open, and not answered.
    `share`: of the rounds, for one that takes long.
    """

    name: str
    limit: str
    request: Callable[["Target", int], bytes]
    held: bool = False
    share: float = 1.0


@dataclass
class Target:
    """A service with a user agent, and 100 messages that wait for an outcome."""

    running: Service
    sender: Sender
    endpoint: str
    receipts: str
    message: str

    @property
    def origin(self) -> str:
        return self.running.endpoint

    def __post_init__(self) -> None:
        self.known = self.new_token()

    def new_token(self, **claims: object) -> str:
        """An Authorization header; each call signs another one."""
        expires = int(time.time()) + 3600
        return self.sender.vapid({"aud": self.origin, "exp": expires} | claims)


def http(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = {"Host": "localhost", **headers, "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def push(target: Target, headers: dict[str, str], body: bytes = b"x" * 4096) -> bytes:
    common = {"TTL": "0", "Content-Encoding": "aes128gcm"}
    return http("POST", target.endpoint, common | headers, body)


def new_audiences(target: Target, _: int) -> bytes:
    """As many as are read, in a header of the greatest length."""
    audiences = [f"https://{'ä' * 9}{each}.example" for each in range(16)]
    return push(target, {"Authorization": target.new_token(aud=audiences)})


def parameters(target: Target, _: int) -> bytes:
    many = ",".join(f"p{each}={'y' * 240}" for each in range(60))
    crypto = {"Encryption": f"salt=a,{many}", "Crypto-Key": f"dh=a,{many}"}
    return push(target, {"Content-Encoding": "aesgcm"} | crypto)


def matrix(target: Target, _: int) -> bytes:
    devices = [{"pushkey": f"{target.origin}{target.endpoint}?{each}"} for each in range(100)]
    body = json.dumps({"notification": {"event_id": "$a", "devices": devices}}).encode()
    return http("POST", "/_matrix/push/v1/notify", {}, body)


def upgrade(_: Target, __: int) -> bytes:
    return http(
        "GET",
        "/",
        {
            "Upgrade": "websocket",
            "Connection": ",".join(["a"] * (LONG // 2)) + ",upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "User-Agent": "Android " * (LONG // 8),
        },
    )


FORM: Final = b"version=1&data=" + b"%41" * 4096
ROUTER_DATA: Final = json.dumps(
    {"token": "success-1", **{f"m{each}": "v" * 40 for each in range(250)}}
).encode()

KINDS: Final = (
    Kind(
        "a push of 4 KiB, its token known",
        "`endpoint_rate`, `sender_rate`",
        lambda target, _: push(target, {"Authorization": target.known}),
    ),
    Kind(
        "… with a new token",
        "the same; user agents take turns",
        lambda target, _: push(target, {"Authorization": target.new_token()}),
    ),
    Kind(
        "… with 16 audiences that are not ASCII",
        "4,096 characters; what is not our own name is not converted",
        new_audiences,
    ),
    Kind("… with 16 KiB of `Encryption` and `Crypto-Key`", "64 parameters", parameters),
    Kind(
        "… with 16 KiB of `Link` and `Prefer`",
        "32 members are read; `receipt_rate`",
        lambda target, _: push(
            target,
            {
                "Authorization": target.known,
                "Link": "<>;" * (LONG // 3),
                "Prefer": "respond-async" + ",a" * (LONG // 2 - 10),
            },
        ),
    ),
    Kind(
        "… to a text of 16 KiB in place of an endpoint",
        "`gone_rate`",
        lambda _, number: http("POST", f"/wpush/v2/{number}{'a' * LONG}", {"TTL": "0"}, b"x"),
    ),
    Kind(
        "a Matrix notification for 100 devices of one endpoint",
        "each pushkey once; `endpoint_rate`",
        matrix,
        share=0.2,
    ),
    Kind(
        "a version of SimplePush, with a form of 12 KiB",
        "`endpoint_rate`; 4,096 bytes of data",
        lambda target, _: http("PUT", target.endpoint.replace("wpush", "spush"), {}, FORM),
    ),
    Kind(
        "receipts of 100 messages that are pending",
        "1,200/min of an address; eight reads at once, which give way",
        lambda target, _: http("GET", target.receipts, {}),
        share=0.2,
    ),
    Kind(
        "… a stream of them",
        "250 of an address, 1,000 in a worker; one read for all",
        lambda target, _: http("GET", target.receipts, {"Accept": "text/event-stream"}),
        held=True,
    ),
    Kind(
        "… a request that waits for them",
        "the same",
        lambda target, _: http("GET", target.receipts, {"Prefer": "wait=60"}),
        held=True,
    ),
    Kind(
        "the state of a message",
        "`max_requests`",
        lambda target, _: http("GET", target.message, {}),
    ),
    Kind(
        "the deletion of a message",
        "`endpoint_rate`",
        lambda target, _: http("DELETE", target.message, {}),
    ),
    Kind(
        "a registration over HTTP with 12 KiB of router data",
        "`new_user_agents_rate`",
        lambda _, __: http("POST", "/v1/stub/app/registration", {}, ROUTER_DATA),
    ),
    Kind(
        "an upgrade to a WebSocket with heads of 16 KiB, and no hello",
        "`connection_rate`, `hello_timeout`",
        upgrade,
        held=True,
    ),
)


async def prepared(running: Service, app: ApplicationServer) -> tuple[Target, UserAgent]:
    agent = await running.connect()
    _, endpoint = await agent.register()
    answer = await app.push(endpoint, b"x", ttl=600, Prefer="respond-async")
    link = answer.headers["Link"]
    for _ in range(99):
        answer = await app.push(endpoint, b"x", ttl=600, Prefer="respond-async", Link=link)
    target = Target(
        running,
        SENDER,
        endpoint.removeprefix(running.endpoint),
        link.partition(">")[0].partition(running.endpoint)[2],
        answer.headers["Location"].removeprefix(running.endpoint),
    )
    return target, agent


SENDER: Final = Sender()


async def connect(running: Service, kind: Kind) -> RawClient:
    is_websocket = kind.request is upgrade
    port = running.websocket_port if is_websocket else running.endpoint_port
    return RawClient(*await asyncio.open_connection("127.0.0.1", port))


async def stalls(running: Service, longest: list[float]) -> None:
    """Record how long an empty answer takes, until it is cancelled."""
    client = RawClient(*await asyncio.open_connection("127.0.0.1", running.endpoint_port))
    try:
        while True:
            began = time.perf_counter()
            client.send(http("GET", "/__lbheartbeat__", {}))
            await client.answer()
            longest[0] = max(longest[0], time.perf_counter() - began)
            await asyncio.sleep(0.001)
    finally:
        client.drop_connection()


@dataclass(frozen=True)
class Cost:
    """`cpu`: seconds; `stall`: seconds; `grown`: bytes of each that is held, 0 for others."""

    cpu: float
    stall: float
    grown: int
    statuses: frozenset[int]


async def sent(
    target: Target, kind: Kind, rounds: int, numbers: Iterator[int], *, is_watched: bool = False
) -> Cost:
    """`is_watched`: the memory is not looked at, for which the kernel stops the service."""
    running = target.running
    requests = [kind.request(target, next(numbers)) for _ in range(rounds)]
    clients = [await connect(running, kind)]
    statuses = set[int]()
    grown, cpu = 0 if is_watched else -memory(running.pid).resident, -cpu_ns(running.pid)
    for request in requests:
        if kind.held:
            clients.append(await connect(running, kind))
        clients[-1].send(request)
        if not kind.held:
            statuses.add((await clients[-1].answer()).status)
    if kind.held:
        await asyncio.sleep(3)  # several polls
    cpu += cpu_ns(running.pid)
    grown += 0 if is_watched else memory(running.pid).resident
    for client in clients:
        client.drop_connection()
    return Cost(cpu / 1e9 / rounds, 0.0, grown // rounds if kind.held else 0, frozenset(statuses))


async def measured(target: Target, kind: Kind, rounds: int) -> Cost:
    numbers = count(1)
    await sent(target, kind, min(20, rounds), numbers)  # warms up
    cost = await sent(target, kind, rounds, numbers)
    calmest = float("inf")
    for _ in range(CALM_OF):
        longest = [0.0]
        watching = asyncio.create_task(stalls(target.running, longest))
        await asyncio.sleep(0.1)
        longest[0] = 0.0
        await sent(target, kind, rounds, numbers, is_watched=True)
        watching.cancel()
        calmest = min(calmest, longest[0])
    return replace(cost, stall=calmest)


def row(kind: Kind, cost: Cost, floor: float) -> str:
    held = f"{cost.grown / 1024:.0f} KiB" if kind.held else "-"
    multiple = cost.cpu / floor
    shown = f"{multiple:.0f}" if multiple >= 10 else f"{multiple:.1f}"
    return f"| {kind.name} | {shown} | {cost.stall * 1000:.0f} ms | {held} | {kind.limit} |"


HEAD: Final = """\
| request | CPU, in pushes | longest stall | held open | limit |
|---|---|---|---|---|"""


async def run(rounds: int) -> None:
    options = (
        "--receipts",
        "--stub-router",
        *(
            word
            for name in ("endpoint", "connection", "receipt", "new-user-agents", "gone")
            for word in (f"--{name}-rate", "1000000/s")
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        async with (
            service(Path(folder), *options) as running,
            application_server() as app,
        ):
            target, agent = await prepared(running, app)
            print(HEAD)
            floor = 0.0
            for kind in KINDS:
                number = HELD if kind.held else max(5, int(rounds * kind.share))
                cost = await measured(target, kind, min(number, rounds) if kind.held else number)
                floor = floor or cost.cpu
                print(row(kind, cost, floor), flush=True)
                if os.environ.get("VERBOSE"):
                    print(cost)
            await agent.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds: whether it works")
    rounds = 20 if parser.parse_args().quick else ROUNDS
    asyncio.run(run(rounds))


if __name__ == "__main__":
    main()
