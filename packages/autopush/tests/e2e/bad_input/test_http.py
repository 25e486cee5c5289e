"""Requests that are broken as HTTP, and methods and paths that do not exist."""

import json
from collections.abc import Awaitable, Callable, Sequence

import pytest

from autopush.webpush.syntax import encode_base64url
from support.application_server import ApplicationServer
from support.bad_input import CHANNEL, delivers_only, push_head
from support.node_caller import NodeCaller
from support.raw_client import RawClient, raw_client
from support.service import Service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]

ENCODED = "Content-Encoding: aes128gcm"


async def test_pipelined_pushes_are_answered_and_delivered_in_order(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    one = push_head(endpoint, ENCODED, "Content-Length: 3")
    http.send("".join(f"{one}{number:03}" for number in range(50)))
    sent = [(await http.answer()).message_id for _ in range(50)]
    got = await agent.receive(50)
    assert [message["version"] for message in got] == sent
    expected = [encode_base64url(b"%03d" % number) for number in range(50)]
    assert [message["data"] for message in got] == expected


async def test_a_refused_push_between_pipelined_ones_is_answered_in_its_place(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    good = push_head(endpoint, "Content-Length: 0")
    bad = push_head(endpoint, "Content-Length: 0", ttl="x")
    http.send(good + bad + good + good + bad)
    answers = [await http.answer() for _ in range(5)]
    assert [answer.status for answer in answers] == [201, 400, 201, 201, 400]
    taken = [answer.message_id for answer in answers if answer.status == 201]
    assert [message["version"] for message in await agent.receive(3)] == taken


BROKEN_HTTP: dict[str, tuple[Sequence[str], str, set[int]]] = {
    "both lengths": (("Content-Length: 4", "Transfer-Encoding: chunked"), "0\r\n\r\n", {400}),
    "length above the limit": (("Content-Length: 99999999",), "body", {413}),
    "chunk without its end": (("Transfer-Encoding: chunked",), "4\r\nbodyXX0\r\n\r\n", {400}),
    "chunks above the limit": (
        ("Transfer-Encoding: chunked",),
        f"10000\r\n{'b' * 65536}\r\n" * 3,
        {413},
    ),
    "another expectation": (("Expect: a miracle", "Content-Length: 0"), "", {417}),
    "folded header": (("X-Folded: a\r\n b", "Content-Length: 0"), "", {400}),
    "header block of 2 MB": (tuple(f"X-{n}: {'v' * 15_000}" for n in range(140)), "", {431}),
}
"""One of each kind; all of them are in the tests of `autopush.net`."""


@pytest.mark.parametrize(("lines", "body", "statuses"), BROKEN_HTTP.values(), ids=BROKEN_HTTP)
async def test_broken_http_is_refused_and_the_connection_closed(
    http: RawClient,
    target: tuple[UserAgent, str],
    sender: ApplicationServer,
    lines: Sequence[str],
    body: str,
    statuses: set[int],
) -> None:
    agent, endpoint = target
    http.send(push_head(endpoint, ENCODED, *lines) + body)
    answer = await http.answer()
    assert answer.status in statuses
    assert answer.document["code"] == answer.status
    assert answer.headers["connection"] == "close"
    assert await http.end() == b""
    await delivers_only(agent, sender, endpoint)


REQUEST_LINES: dict[str, set[int]] = {
    "TRACE / HTTP/1.1": {400, 405, 501},
    "GET * HTTP/1.1": {400},
    f"GET /{'a' * 200_000} HTTP/1.1": {414, 431},
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": {400},  # TLS
}


@pytest.mark.parametrize("port", ["endpoint_port", "websocket_port", "router_port"])
@pytest.mark.parametrize(("line", "statuses"), REQUEST_LINES.items(), ids=range(len(REQUEST_LINES)))
async def test_a_request_line_of_another_kind_is_refused(
    running: Service, line: str, statuses: set[int], port: str
) -> None:
    async with raw_client(getattr(running, port)) as client:
        client.send(f"{line}\r\nHost: h\r\n\r\n")
        assert (await client.answer()).status in statuses


@pytest.mark.parametrize("port", ["endpoint_port", "websocket_port"])
async def test_internal_routes_are_404_on_public_ports(
    running: Service, connect: Connect, target: tuple[UserAgent, str], port: str
) -> None:
    agent, _ = target
    body = json.dumps({"channelID": CHANNEL, "version": "forged", "ttl": 60, "timestamp": 1})
    statuses = {}
    async with raw_client(getattr(running, port)) as client:
        for line in (
            f"PUT /push/{agent.uaid}",
            f"PUT /notif/{agent.uaid}",
            f"DELETE /notif/{agent.uaid}/1",
            f"PUT //push/{agent.uaid}",
        ):
            client.send(f"{line} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}")
            statuses[line.split("/")[0] + line.split("/")[1]] = (await client.answer()).status
    assert set(statuses.values()) == {404}, statuses
    await agent.silence()


SIGNATURES = {
    "none": "",
    "of another scheme": "Bearer x",
    "empty": "autopush-node ",
    "malformed": "autopush-node ....",
    "of no session": f"autopush-node {'0' * 32}.1.{'0' * 32}",
    "no ASCII": "autopush-node \xe9.\xb2.\xe9",
    "long": f"autopush-node {'0.' * 4000}",
}


@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=SIGNATURES)
async def test_the_internal_port_does_nothing_for_a_stranger(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer, signature: str
) -> None:
    agent, endpoint = target
    node = await NodeCaller.of(sender, running.data, agent.uaid)
    body = json.dumps({"channelID": CHANNEL, "version": "forged", "ttl": 60, "timestamp": 1})
    header = f"Authorization: {signature}\r\n" if signature else ""
    async with raw_client(running.router_port) as client:
        for prefix in ("", node.base, "/i/x"):
            for line in (
                f"PUT {prefix}/push/{agent.uaid}",
                f"PUT {prefix}/notif/{agent.uaid}",
                f"DELETE {prefix}/notif/{agent.uaid}/1",
                *([f"GET {prefix}/session"] if prefix else []),
            ):
                head = f"{line} HTTP/1.1\r\nHost: h\r\n{header}Content-Length: {len(body)}"
                client.send(f"{head}\r\n\r\n{body}".encode("latin-1"))
                assert (await client.answer()).status == 401, line
    await delivers_only(agent, sender, endpoint)
