"""How long a push takes to a connected user agent while a bridge is out of order.

Pushes through a bridge come at a steady rate beside the others. Their provider, a server of the
load's own, works, takes requests and stays silent, or ends every connection. The figure is the
99th percentile of the other pushes, as a ratio to the rounds in which the provider works: an
outage must cost them nothing. In further rounds nothing goes to a bridge.
"""

import asyncio
import json
import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Final, cast

import aiohttp
import httptools

from bench.ledger import MismatchError, TimedLedger
from bench.load import Load
from bench.open_loop import Metronome, poisson
from bench.push_client import Poster, PushRequest
from bench.report import Row, percentile
from bench.run import Run

BEHAVIOURS: Final = ("works", "silent", "ends")
"""Of the provider; each is an application of its own, told apart by its key."""
UNUSED: Final = "unused"
"""Rounds in which nothing goes to a bridge."""
SHARE_OF_FULL_LOAD: Final = 4
BRIDGED_PER_SECOND: Final = 100
BRIDGE_POSTERS: Final = 400
"""As many as are sent while a silent provider lets its first requests time out."""
MOST_TIMES: Final = 1.3
_SENT: Final = b'{"success":1,"failure":0,"results":[{"message_id":"1"}]}'


class Provider(asyncio.Protocol):
    """GCM, as far as a message is accepted."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._transport = cast(asyncio.Transport, None)
        self._key = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._key = value.removeprefix(b"key=")

    def on_message_complete(self) -> None:
        if self._key == b"works":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            self._transport.write(head + b"%d\r\n\r\n" % len(_SENT) + _SENT)
        elif self._key == b"ends":
            self._transport.abort()


class BridgeLoad:
    """Pushes to one endpoint behind a bridge, and how often each status was the answer."""

    def __init__(self, posters: list[Poster], request: bytes) -> None:
        self.statuses: Counter[bytes] = Counter()
        self.skipped = 0
        self._idle = list(posters)
        self._request = request
        for poster in posters:
            poster.answered = self._answered

    def send(self, due: int) -> None:
        if not self._idle:
            self.skipped += 1
            return
        self._idle.pop().transport.write(self._request)

    def _answered(self, poster: Poster, status: bytes, version: bytes) -> None:
        self.statuses[status] += 1
        self._idle.append(poster)


async def bridge_outage(run: Run) -> list[Row]:
    sizes = run.sizes
    loop = asyncio.get_running_loop()
    provider = await loop.create_server(Provider, "127.0.0.1", 0)
    port = provider.sockets[0].getsockname()[1]
    options = {
        "--senderid-list": json.dumps({name: {"auth": name} for name in BEHAVIOURS}),
        "--gcm-endpoint": f"http://127.0.0.1:{port}/gcm/send",
    }
    rounds = (UNUSED, *BEHAVIOURS)
    p99s: dict[str, list[float]] = {name: [] for name in rounds}
    answers: dict[str, Counter[bytes]] = {name: Counter() for name in rounds}
    async with run.server("store-first", **options) as server:
        load = await Load.on(server, TimedLedger())
        fleet = load.fleet
        await load.pushes(run, sizes.warm_up)
        full = (await load.pushes(run, sizes.pushes)).rate
        endpoints = {name: await _register(fleet.origin, name) for name in BEHAVIOURS}
        endpoints[UNUSED] = endpoints["works"]
        for name in rounds * sizes.rounds:
            body = fleet.identities[0].body[:2048]
            request = PushRequest(endpoints[name], fleet.sender.key, body)
            bridge_posters = await fleet.posters(BRIDGE_POSTERS)
            bridged = BridgeLoad(bridge_posters, request.signed(load.token))
            seconds = sizes.seconds_at_half_load
            due = [] if name == UNUSED else poisson(BRIDGED_PER_SECOND, seconds)
            beats = Metronome(due, bridged.send)
            traffic = await load.at_rate(run, full / SHARE_OF_FULL_LOAD)
            await beats.done
            p99s[name].append(percentile(traffic.latencies(), 99))
            answers[name] += bridged.statuses
            for poster in bridge_posters:
                poster.close()
            await server.wait_until_idle()
        await load.leave()
    provider.close()
    # On a busy machine some may find too many others under way.
    if not answers["works"][b"201"] or answers["works"].keys() - {b"201", b"502", b"503"}:
        raise MismatchError(f"the working bridge answered {dict(answers['works'])}")
    medians = {name: statistics.median(p99s[name]) for name in rounds}
    return [_row(name, medians, answers[name]) for name in ("silent", "ends")]


def _row(name: str, p99s: Mapping[str, float], answers: Counter[bytes]) -> Row:
    p99, works, unused = p99s[name], p99s["works"], p99s[UNUSED]
    times = p99 / works
    said = ", ".join(
        f"{count} times {status.decode()}" for status, count in sorted(answers.items())
    )
    return Row(
        f"p99 POST to client, bridge {name}",
        f"{p99:.2f} ms",
        "",
        f"≤ {MOST_TIMES:g} times that with a working bridge",
        times <= MOST_TIMES,
        note=(
            f"{times:.2f} times {works:.2f} ms; {unused:.2f} ms without a bridge;"
            f" its own pushes: {said}"
        ),
        values={
            "p99_ms": p99,
            "times": times,
            "p99_ms_bridge_works": works,
            "p99_ms_without_bridge": unused,
        },
    )


async def _register(origin: str, name: str) -> str:
    """The endpoint of a new device of that application."""
    url = f"{origin}/v1/gcm/{name}/registration"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"token": "device-1"}) as answer,
    ):
        document = await answer.json()
        if answer.status != 200:
            raise MismatchError(f"a registration was answered {answer.status}")
    return str(document["endpoint"])
