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
from support.raw_client import raw_client
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


async def test_a_broken_frame_closes_the_connection_with_its_code(running: Service) -> None:
    for frame, code in (
        (wire.text(b"hello"), 1008),
        (wire.text(b'{"messageType": "\xff"}'), 1007),
        (wire.frame(wire.TEXT, length=2**62), 1009),
        (wire.frame(wire.TEXT, b"{}", key=None), 1002),
    ):
        async with raw_client(running.websocket_port) as client:
            await client.hello()
            client.send(frame)
            assert await client.close_code() == code
            client.finish()
            assert await client.end() == b""


async def test_a_large_notification_of_a_homeserver_is_reduced_and_delivered(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent = await connect()
    _, endpoint = await agent.register()
    event = {"event_id": "$1", "room_id": "!1:example.org", "content": {"body": "x" * 400_000}}
    body = json.dumps({"notification": event | {"devices": [{"pushkey": endpoint}]}}).encode()
    path = "/_matrix/push/v1/notify"
    answer = await sender.request("POST", running.endpoint + path, body=body)
    assert (answer.status, answer.document) == (200, {"rejected": []})
    (message,) = await agent.receive(1)
    reduced = json.loads(decode_base64url(message["data"]))
    assert reduced == {"notification": {"event_id": "$1", "room_id": "!1:example.org"}}
    async with raw_client(running.endpoint_port) as client:
        client.send(f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n")
        assert (await client.answer()).status == 413
