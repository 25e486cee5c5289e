"""Broken frames, messages and requests: one of each kind, on the ports of a running service.

All others are in the tests of `autopush.net`, `autopush.protocol` and `autopush.webpush`, and in
`packages/autopush/tests/faults/test_fuzzed_worker.py`.

Rule: after each test a bystander that was connected all the time gets what is sent to it, exactly
once, and the service has logged no error.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from autopush.api.matrix import MAX_BODY
from autopush.webpush.syntax import decode_base64url
from support import wire
from support.application_server import ApplicationServer, application_server
from support.bad_input import CHANNEL, VALUES, path_of
from support.raw_client import RawClient, raw_client
from support.service import Service, running_service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("bad-input")
    with running_service(data) as service:
        yield service


@pytest.fixture(autouse=True)
async def bystander(running: Service) -> AsyncIterator[None]:
    """Another user agent, which must not notice anything."""
    agent = await running.connect()
    _, endpoint = await agent.register()
    yield
    async with application_server() as server:
        answer = await server.push(endpoint, b"still there")
        first, again = await agent.notification(), await server.push(endpoint, b"again")
        assert first["version"] == answer.message_id
        assert (await agent.notification())["version"] == again.message_id
    assert agent.notifications.empty()
    await agent.close()
    assert running.errors == []


@pytest.fixture
async def http(running: Service) -> AsyncIterator[RawClient]:
    """A connection to the public port."""
    async with raw_client(running.endpoint_port) as client:
        yield client


@pytest.fixture
async def target(connect: Connect) -> tuple[UserAgent, str]:
    """A user agent and an endpoint of its."""
    agent = await connect()
    _, endpoint = await agent.register()
    return agent, endpoint


CLOSING_FRAMES: dict[str, tuple[bytes, int]] = {
    "no JSON": (wire.text(b"hello"), 1008),
    "not UTF-8": (wire.text(b'{"messageType": "\xff"}'), 1007),
    "2^62 bytes announced": (wire.frame(wire.TEXT, length=2**62), 1009),
    "not masked": (wire.frame(wire.TEXT, b"{}", key=None), 1002),
}
"""By what is sent: the frame, and the code of the close frame that responds."""


@pytest.mark.parametrize(("frame", "code"), CLOSING_FRAMES.values(), ids=CLOSING_FRAMES)
async def test_a_broken_frame_closes_the_connection_with_its_code(
    http: RawClient, frame: bytes, code: int
) -> None:
    await http.hello()
    http.send(frame)
    assert await http.close_code() == code
    http.finish()
    assert await http.end() == b""


async def test_messages_with_values_of_any_kind_are_passed_over_or_refused(
    connect: Connect, sender: ApplicationServer, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    answer = await sender.push(endpoint)
    (kept,) = await agent.receive(1)
    for value in VALUES.values():
        await agent.send(messageType="ack", updates=value)
        await agent.send(messageType="ack", updates=[value, kept | {"channelID": CHANNEL}])
        await agent.send(messageType="nack", version=value)
        await agent.send(messageType="register", channelID=value)
        assert (await agent.reply())["status"] == 401
    await agent.register()
    await agent.close()
    agent = await connect(agent.uaid)
    assert (await agent.notification())["version"] == answer.message_id


async def test_broken_http_is_refused_and_the_connection_closed(
    http: RawClient, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    head = f"POST {path_of(endpoint)} HTTP/1.1\r\nHost: h\r\nTTL: 60\r\n"
    http.send(f"{head}Transfer-Encoding: chunked\r\n\r\n4\r\nbodyXX0\r\n\r\n")
    answer = await http.answer()
    assert (answer.document["code"], answer.headers["connection"]) == (400, "close")
    assert await http.end() == b""
    sent = await sender.push(endpoint)
    assert (await agent.notification())["version"] == sent.message_id, "nothing came before"


NO_REQUESTS: dict[str, tuple[bytes, int, str]] = {
    "TLS": (b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(190), 400, "TLS"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), 400, "HTTP/2"),
    "another method": (b"FETCH / HTTP/1.1\r\nHost: h\r\n\r\n", 400, '"FETCH"'),
    "too large": (b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n", 413, "9999999"),
    "a long header": (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 90_000, 431, "bytes"),
}
"""By what is sent: the bytes, the status, and what the answer names."""


@pytest.mark.parametrize("port", ["endpoint_port", "router_port"])
@pytest.mark.parametrize(("sent", "status", "said"), NO_REQUESTS.values(), ids=NO_REQUESTS)
async def test_what_is_no_request_is_named_and_web_pages_may_read_that(
    running: Service, port: str, sent: bytes, status: int, said: str
) -> None:
    async with raw_client(getattr(running, port)) as client:
        client.send(sent)
        answer = await client.answer()
        assert answer.status == status
        assert said in answer.document["message"]
        is_public_api = port == "endpoint_port"
        assert ("access-control-allow-origin" in answer.headers) is is_public_api
        assert ("access-control-expose-headers" in answer.headers) is is_public_api


@pytest.mark.parametrize("size", [70_000, 400_000])
async def test_a_large_notification_of_a_homeserver_is_reduced_and_delivered(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer, size: int
) -> None:
    agent, endpoint = target
    event = {"event_id": "$1", "room_id": "!1:example.org", "content": {"body": "x" * size}}
    body = json.dumps({"notification": event | {"devices": [{"pushkey": endpoint}]}}).encode()
    url = f"{running.endpoint}/_matrix/push/v1/notify"
    answer = await sender.request("POST", url, body=body)
    assert (answer.status, answer.document) == (200, {"rejected": []})
    (message,) = await agent.receive(1)
    reduced = json.loads(decode_base64url(message["data"]))
    assert reduced == {"notification": {"event_id": "$1", "room_id": "!1:example.org"}}
    async with raw_client(running.endpoint_port) as client:
        path = url.removeprefix(running.endpoint)
        client.send(f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n")
        assert (await client.answer()).status == 413
