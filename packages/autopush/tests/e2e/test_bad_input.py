"""Whatever is sent, the answer is the documented one, and the service goes on as before.

Rule: after each test a bystander that was connected all the time gets what is sent to it, exactly
once, and the service has logged no error.
"""

import asyncio
import base64
import json
import socket
import struct
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from itertools import product

import pytest

from autopush.webpush import base64url
from autopush.webpush.keyring import KeyRing, new_key
from support import wire
from support.application_server import (
    AES128GCM,
    Answer,
    ApplicationServer,
    application_server,
    claims,
    draft_1,
)
from support.raw_client import RawClient, raw_client
from support.senders import Sender
from support.service import Service, running_service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]

CHANNEL = "2f1e3d4c-5b6a-4789-8abc-0123456789ab"
MAX_MESSAGE = 65536
HEAD_TIMEOUT = 10.0
HELLO_TIMEOUT = 6.0

HUGE = "A" * 60_000
VALUES: dict[str, object] = {
    "null": None,
    "zero": 0,
    "number": -1.5,
    "big number": 10**30,
    "list": [1, [2], {"a": "b"}],
    "empty list": [],
    "object": {"a": {"b": [None]}},
    "empty object": {},
    "true": True,
    "false": False,
    "huge string": HUGE,
    "empty string": "",
    "wrong form": "af1883%&!@#*(",
    "control characters": "\0\r\n\x1b\x7f",
    "beyond ASCII": "ünïcödé-\U0001f510-\u202e",
    "deep list": json.loads("[" * 200 + "]" * 200),
}
"""One value of each kind that is no UUID, no key, no list of acks and no object of broadcasts."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("bad-input")
    with running_service(data, "--hello-timeout", str(HELLO_TIMEOUT)) as service:
        yield service


@pytest.fixture(autouse=True)
async def bystander(running: Service) -> AsyncIterator[None]:
    """Somebody else, who must not notice anything."""
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
    """A connection to the endpoint port."""
    async with raw_client(running.endpoint_port) as client:
        yield client


@pytest.fixture
async def ws(running: Service) -> AsyncIterator[RawClient]:
    """A connection to the WebSocket port, not upgraded yet."""
    async with raw_client(running.websocket_port) as client:
        yield client


@pytest.fixture
async def target(connect: Connect) -> tuple[UserAgent, str]:
    """A user agent and an endpoint of its."""
    agent = await connect()
    _, endpoint = await agent.register()
    return agent, endpoint


def path_of(endpoint: str) -> str:
    return "/" + endpoint.split("/", 3)[3]


def is_error(answer: Answer, status: int, errno: int) -> bool:
    """The documented JSON shape, with this status and number."""
    document = answer.document
    assert answer.headers["Content-Type"] == "application/json"
    assert {"code", "errno", "error", "message", "more_info"} <= document.keys()
    assert document["code"] == answer.status
    return (answer.status, document["errno"]) == (status, errno)


async def only(agent: UserAgent, server: ApplicationServer, endpoint: str) -> None:
    """Nothing was delivered before this good push."""
    answer = await server.push(endpoint)
    assert (await agent.notification())["version"] == answer.message_id


# ── messages of a user agent ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_hello_takes_any_value_of_any_member_and_gives_a_new_uaid(
    knock: Connect, value: object
) -> None:
    for member in (
        "uaid",
        "channelIDs",
        "broadcasts",
        "wakeup_host",
        "mobilenetwork",
        "unheard_of",
    ):
        agent = await knock()
        await agent.send(**{"messageType": "hello", "use_webpush": True, member: value})
        reply = await agent.reply()
        assert (reply["messageType"], reply["status"]) == ("hello", 200), member
        assert uuid.UUID(reply["uaid"]).hex == reply["uaid"]
        await agent.close()


@pytest.mark.parametrize(
    "spelling",
    [str.upper, lambda uaid: str(uuid.UUID(uaid)), lambda uaid: f" {uaid}", lambda uaid: uaid[:-1]],
    ids=["upper case", "dashed", "space", "short"],
)
async def test_another_spelling_of_a_uaid_is_not_that_user(
    connect: Connect, spelling: Callable[[str], str]
) -> None:
    agent = await connect()
    await agent.register()
    other = await connect(spelling(agent.uaid))
    assert other.uaid != agent.uaid
    assert other.uaid == uuid.UUID(other.uaid).hex


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_register_says_401_to_anything_that_is_no_channel(
    connect: Connect, value: object
) -> None:
    agent = await connect()
    await agent.send(messageType="register", channelID=value)
    reply = await agent.reply()
    assert (reply["messageType"], reply["status"]) == ("register", 401)
    assert reply["reason"] == "Invalid UUID specified"
    assert reply.get("channelID") == (value if isinstance(value, str) else None)
    await agent.register()


@pytest.mark.parametrize(
    ("spelling", "reason"),
    [
        (CHANNEL.upper(), "Bad UUID format, use lower case, dashed format"),
        (CHANNEL.replace("-", ""), "Bad UUID format, use lower case, dashed format"),
        (CHANNEL[:-1], "Invalid UUID specified"),
        (f"{CHANNEL}\n", "Invalid UUID specified"),
        (CHANNEL[:-1] + "g", "Invalid UUID specified"),
        (CHANNEL[:-1] + "٣", "Invalid UUID specified"),
    ],
)
async def test_register_takes_one_spelling_of_a_channel(
    connect: Connect, spelling: str, reason: str
) -> None:
    agent = await connect()
    await agent.send(messageType="register", channelID=spelling)
    reply = await agent.reply()
    assert (reply["status"], reply["reason"], reply["channelID"]) == (401, reason, spelling)


async def test_register_without_a_channel_is_401_without_a_reason(connect: Connect) -> None:
    agent = await connect()
    await agent.send(messageType="register")
    reply = await agent.reply()
    assert (reply["messageType"], reply["status"]) == ("register", 401)
    assert not {"reason", "channelID"} & reply.keys()


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_register_says_400_to_a_key_that_is_no_base64url(
    connect: Connect, value: object
) -> None:
    agent = await connect()
    await agent.send(messageType="register", channelID=CHANNEL, key=value)
    reply = await agent.reply()
    assert (reply["messageType"], reply["channelID"]) == ("register", CHANNEL)
    # Absent, and base64url of whatever length, is all right.
    assert reply["status"] == (200 if value in (None, "", HUGE) else 400)
    await agent.register()


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_unregister_says_401_to_anything_that_is_no_channel(
    connect: Connect, value: object
) -> None:
    agent = await connect()
    await agent.send(messageType="unregister", channelID=value)
    reply = await agent.reply()
    assert (reply["messageType"], reply["status"]) == ("unregister", 401)
    assert reply["reason"] == "Invalid ChannelID"
    await agent.send(messageType="unregister", channelID=CHANNEL, code=value)
    expected = {"messageType": "unregister", "channelID": CHANNEL, "status": 200}
    assert await agent.reply() == expected


@pytest.mark.parametrize("spelling", [CHANNEL.upper(), CHANNEL.replace("-", "")])
async def test_unregister_takes_any_spelling_and_echoes_it(
    connect: Connect, sender: ApplicationServer, spelling: str
) -> None:
    agent = await connect()
    _, endpoint = await agent.register(CHANNEL)
    reply = await agent.unregister(spelling)
    assert (reply["channelID"], reply["status"]) == (spelling, 200)
    assert (await sender.push(endpoint)).status == 410


async def test_unregister_without_a_channel_is_401(connect: Connect) -> None:
    agent = await connect()
    await agent.send(messageType="unregister")
    reply = await agent.reply()
    assert (reply["status"], reply["reason"]) == (401, "Missing ChannelID")


async def test_ack_skips_what_it_cannot_use_and_takes_the_rest(
    connect: Connect, sender: ApplicationServer, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    sent = [(await sender.push(endpoint)).message_id for _ in range(2)]
    kept, acked = await agent.receive(2)
    for value in VALUES.values():
        await agent.send(messageType="ack", updates=value)
        await agent.send(messageType="ack", updates=[value])
        await agent.send(messageType="ack", updates=[kept | {"channelID": value}])
        await agent.send(messageType="ack", updates=[kept | {"version": value}])
    await agent.send(messageType="ack")
    await agent.ack([kept | {"channelID": str(uuid.uuid4())}])
    good = {"channelID": acked["channelID"], "version": acked["version"]}
    mixed = [*VALUES.values(), good | {"code": VALUES["object"]}, None]
    mixed.remove(HUGE)
    await agent.send(messageType="ack", updates=mixed)
    await agent.register()  # it is still open, and nothing of that was answered
    assert agent.replies.empty()
    await agent.close()
    agent = await connect(agent.uaid)
    assert (await agent.notification())["version"] == kept["version"] == sent[0]
    await agent.silence()


async def test_nack_and_broadcast_subscribe_take_any_value_of_any_member(connect: Connect) -> None:
    agent = await connect()
    for value in VALUES.values():
        await agent.send(messageType="nack", version=value)
        await agent.send(messageType="nack", version="unknown", code=value)
        if not (isinstance(value, dict) and value):
            await agent.send(messageType="broadcast_subscribe", broadcasts=value)
    await agent.send(messageType="broadcast_subscribe", broadcasts={"a/b": ["v"], "": None})
    assert await agent.reply() == {
        "messageType": "broadcast",
        "broadcasts": {"errors": {"a/b": "Broadcast not found", "": "Broadcast not found"}},
    }
    await agent.register()


@pytest.mark.parametrize("value", [*VALUES.values(), "Hello", "hello ", "notification", "error"])
async def test_an_unknown_message_type_closes_the_connection(
    connect: Connect, value: object
) -> None:
    agent = await connect()
    await agent.send(messageType=value)
    if value is None:
        # A null is as good as no member, but not an empty object, which is the ping.
        assert await agent.closed() in (1008, 4774)
    else:
        assert await agent.closed() == 1008


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"messageType": "ping"},
        {"messageType": "register", "channelID": CHANNEL},
        {"messageType": "unregister", "channelID": CHANNEL},
        {"messageType": "ack", "updates": []},
        {"messageType": "nack", "version": "v"},
        {"messageType": "broadcast_subscribe", "broadcasts": {}},
        {"messageType": "nonsense"},
    ],
)
async def test_before_hello_every_other_message_closes_the_connection(
    knock: Connect, message: dict[str, object]
) -> None:
    agent = await knock()
    await agent.send(**message)
    assert await agent.closed() == 1008
    assert agent.received == []


async def test_a_second_hello_is_401_and_the_session_goes_on(
    connect: Connect, sender: ApplicationServer, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    for uaid in (agent.uaid, uuid.uuid4().hex, None):
        await agent.send(messageType="hello", use_webpush=True, uaid=uaid)
        reply = await agent.reply()
        assert (reply["messageType"], reply["status"]) == ("hello", 401)
        assert (reply["reason"], reply["uaid"]) == ("duplicate hello", agent.uaid)
    await only(agent, sender, endpoint)


# ── frames ───────────────────────────────────────────────────────────────────────────────────────


TEXTS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 1008),
    "no JSON": (b"hello", 1008),
    "half an object": (b'{"messageType":', 1008),
    "two objects": (b"{}{}", 1008),
    "a list": (b"[]", 1008),
    "a string": (b'"hello"', 1008),
    "a number": (b"1", 1008),
    "null": (b"null", 1008),
    "NaN": (b'{"messageType": NaN}', 1008),
    "single quotes": (b"{'messageType': 'ping'}", 1008),
    "control character in a string": (b'{"messageType": "pi\nng"}', 1008),
    "lone surrogate": (b'{"messageType": "\\ud800"}', 1008),
    "very deep": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, 1008),
    "deep list": (b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}", 1008),
    "not UTF-8": (b'{"messageType": "\xff"}', 1007),
    "cut UTF-8": (b'{"messageType": "\xe2\x82', 1007),
    "UTF-8 surrogate": (b'"\xed\xa0\x80"', 1007),
}


@pytest.mark.parametrize("identified", [False, True], ids=["before hello", "after hello"])
@pytest.mark.parametrize(("text", "code"), TEXTS.values(), ids=TEXTS)
async def test_a_text_that_is_no_json_object_closes_the_connection(
    ws: RawClient, text: bytes, code: int, identified: bool
) -> None:
    await (ws.hello() if identified else ws.upgrade())
    ws.send(wire.text(text))
    assert await ws.close_code() == code


@pytest.mark.parametrize(
    "text",
    [
        '{"messageType":"register","channelID":"\\ud800"}',
        '{"messageType":"unregister","channelID":"\\ud800\\udfff\\udc00"}',
        '{"messageType":"register","channelID":"' + CHANNEL + '","key":"\\ud800"}',
        '{"messageType":"broadcast_subscribe","broadcasts":{"\\ud800":"v"}}',
        '{"messageType":"ack","updates":[{"channelID":"\\ud800","version":"\\udc00"}]}',
        '{"messageType":"register","channelID":1e999}',
        '{"messageType":"register","channelID":' + "9" * 5000 + "}",
        '{"messageType":"register","messageType":"unregister","channelID":1}',
        '{"messageType":"register","channelID":' + "[" * 900 + "]" * 900 + "}",
    ],
)
async def test_json_at_its_edges_is_answered_or_closes_the_connection_cleanly(
    ws: RawClient, text: str
) -> None:
    await ws.hello()
    ws.send(wire.text(text.encode()))
    ws.send(wire.frame(wire.PING, b"after"))
    opcode, payload = await ws.frame()
    if opcode == wire.CLOSE:
        assert int.from_bytes(payload[:2]) in (1007, 1008)
        return
    if opcode == wire.TEXT:
        reply = json.loads(payload)
        assert reply["messageType"] in ("register", "unregister", "broadcast")
        opcode, payload = await ws.frame()
    assert (opcode, payload) == (wire.PONG, b"after")


FRAMES: dict[str, tuple[bytes, int]] = {
    "binary": (wire.frame(wire.BINARY, b"{}"), 1003),
    "binary, announced only": (wire.frame(wire.BINARY, b"", length=60_000), 1003),
    "first fragment of binary": (wire.frame(wire.BINARY, b"{}", fin=False), 1003),
    "above the limit": (wire.text(b" " * (MAX_MESSAGE + 1)), 1009),
    "above the limit, announced only": (wire.frame(wire.TEXT, length=MAX_MESSAGE + 1), 1009),
    "2^62 bytes announced": (wire.frame(wire.TEXT, length=2**62), 1009),
    "fragments above the limit together": (
        wire.text(b" " * 40_000, fin=False) + wire.frame(wire.CONTINUATION, b" " * 40_000),
        1009,
    ),
    "not masked": (wire.frame(wire.TEXT, b"{}", key=None), 1002),
    "RSV1 (compressed)": (wire.frame(wire.TEXT, b"{}", rsv=4), 1002),
    "RSV3": (wire.frame(wire.PING, rsv=1), 1002),
    "reserved opcode": (wire.frame(3, b"{}"), 1002),
    "reserved control opcode": (wire.frame(11), 1002),
    "long control frame": (wire.frame(wire.PING, b"x" * 126), 1002),
    "fragmented control frame": (wire.frame(wire.PING, b"x", fin=False), 1002),
    "continuation of nothing": (wire.frame(wire.CONTINUATION, b"{}"), 1002),
    "message within a message": (wire.text(b"{", fin=False) + wire.text(b"}"), 1002),
    "length not in its shortest form": (wire.frame(wire.TEXT, b"{}", length_bytes=8), 1002),
    "close with half a code": (wire.frame(wire.CLOSE, b"\x03"), 1002),
    "close with a code that must not be sent": (wire.close(1005), 1002),
    "close with code 0": (wire.close(0), 1002),
    "close with a reason that is not UTF-8": (wire.close(1000, b"\xff"), 1007),
    "close": (wire.close(1000), 1000),
    "close with a code of one's own": (wire.close(4000, "tschüß".encode()), 4000),
}


@pytest.mark.parametrize("identified", [False, True], ids=["before hello", "after hello"])
@pytest.mark.parametrize(("frames", "code"), FRAMES.values(), ids=FRAMES)
async def test_a_broken_frame_closes_the_connection_with_its_code(
    ws: RawClient, frames: bytes, code: int, identified: bool
) -> None:
    await (ws.hello() if identified else ws.upgrade())
    ws.send(frames)
    assert await ws.close_code() == code
    ws.finish()
    assert await ws.end() == b""


async def test_a_message_of_the_limit_is_taken_whole_or_in_fragments(ws: RawClient) -> None:
    hello = b'{"messageType":"hello","use_webpush":true}'
    padded = hello + b" " * (MAX_MESSAGE - len(hello))
    await ws.upgrade()
    ws.send(wire.text(padded[:1], fin=False))
    ws.send(wire.frame(wire.PING, b"between"))
    for at in range(1, 60_001, 10_000):
        ws.send(wire.frame(wire.CONTINUATION, padded[at : at + 10_000], fin=at > 60_000))
    ws.send(wire.frame(wire.CONTINUATION, padded[60_001:]))
    assert await ws.frame() == (wire.PONG, b"between")
    assert json.loads((await ws.frame())[1])["status"] == 200
    ws.send(wire.text(padded))
    assert json.loads((await ws.frame())[1])["reason"] == "duplicate hello"


async def test_a_ping_frame_is_answered_before_and_after_hello(ws: RawClient) -> None:
    await ws.upgrade()
    ws.send(wire.frame(wire.PING, b"before"))
    assert await ws.frame() == (wire.PONG, b"before")
    ws.send(wire.frame(wire.PONG, b"unasked"))
    ws.send(wire.text(b'{"messageType":"hello","use_webpush":true}'))
    assert (await ws.frame())[0] == wire.TEXT
    ws.send(wire.frame(wire.PING, b"after"))
    assert await ws.frame() == (wire.PONG, b"after")


async def test_frames_may_come_byte_by_byte_and_many_at_once(ws: RawClient) -> None:
    register = {"messageType": "register", "channelID": CHANNEL}
    await ws.upgrade()
    for byte in wire.text(b'{"messageType":"hello","use_webpush":true}'):
        ws.send(bytes((byte,)))
        await asyncio.sleep(0)
    assert (await ws.frame())[0] == wire.TEXT
    ws.send(wire.text(json.dumps(register).encode()) * 20)
    for _ in range(20):
        assert json.loads((await ws.frame())[1])["status"] == 200


# ── upgrades ─────────────────────────────────────────────────────────────────────────────────────

UPGRADE: dict[str, str | None] = {
    "Host": "h",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
}
UPGRADES: dict[str, tuple[str, dict[str, str | None], set[int]]] = {
    "POST": ("POST / HTTP/1.1", {"Content-Length": "0"}, {400}),
    "HTTP/1.0": ("GET / HTTP/1.0", {}, {400, 426, 200}),  # RFC 9110: Upgrade is ignored there
    "no Host": ("GET / HTTP/1.1", {"Host": None}, {400}),
    "no Connection": ("GET / HTTP/1.1", {"Connection": None}, {426, 400}),
    "Connection: close": ("GET / HTTP/1.1", {"Connection": "close"}, {426, 400}),
    "another protocol": ("GET / HTTP/1.1", {"Upgrade": "h2c"}, {426}),
    "no version": ("GET / HTTP/1.1", {"Sec-WebSocket-Version": None}, {426}),
    "version 12": ("GET / HTTP/1.1", {"Sec-WebSocket-Version": "12"}, {426}),
    "version in words": ("GET / HTTP/1.1", {"Sec-WebSocket-Version": "new"}, {426}),
    "no key": ("GET / HTTP/1.1", {"Sec-WebSocket-Key": None}, {400}),
    "empty key": ("GET / HTTP/1.1", {"Sec-WebSocket-Key": ""}, {400}),
    "short key": ("GET / HTTP/1.1", {"Sec-WebSocket-Key": "c2hvcnQ="}, {400}),
    "key that is no base64": ("GET / HTTP/1.1", {"Sec-WebSocket-Key": "!" * 24}, {400}),
    "key beyond ASCII": ("GET / HTTP/1.1", {"Sec-WebSocket-Key": "\xe4" * 24}, {400}),
    "two keys": (
        "GET / HTTP/1.1",
        {"Sec-WebSocket-Key": None, "sec-websocket-key": "a\r\nSec-WebSocket-Key: b"},
        {400},
    ),
}


def head(start: str, headers: dict[str, str | None]) -> str:
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join((start, *lines, "", ""))


@pytest.mark.parametrize(("start", "changes", "statuses"), UPGRADES.values(), ids=UPGRADES)
async def test_a_wrong_upgrade_is_refused_with_a_4xx(
    ws: RawClient, start: str, changes: dict[str, str | None], statuses: set[int]
) -> None:
    ws.send(head(start, UPGRADE | changes))
    answer = await ws.answer()
    assert answer.status in statuses
    assert answer.body
    if answer.status == 426:
        assert answer.headers["upgrade"] == "websocket"
        if "Sec-WebSocket-Version" in changes:
            assert answer.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize(
    "changes",
    [
        {"Upgrade": "WebSocket"},
        {"Connection": "keep-alive, upgrade"},
        {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"},
        {"Sec-WebSocket-Protocol": "chat, push-notification"},
        {"Sec-WebSocket-Protocol": "chat"},
        {"Origin": "https://elsewhere.example"},
    ],
)
async def test_an_unusual_upgrade_is_taken_without_extensions(
    ws: RawClient, changes: dict[str, str | None]
) -> None:
    ws.send(head("GET /any/path?query HTTP/1.1", UPGRADE | changes))
    answer = await ws.answer()
    assert answer.status == 101
    assert "sec-websocket-extensions" not in answer.headers
    offered = changes.get("Sec-WebSocket-Protocol") or ""
    chosen = "push-notification" if "push-notification" in offered else None
    assert answer.headers.get("sec-websocket-protocol") == chosen


async def test_the_websocket_port_explains_itself_to_a_browser(
    running: Service, ws: RawClient
) -> None:
    ws.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = await ws.answer()
    assert answer.status == 200
    assert running.websocket in answer.body.decode()


# ── pushes: endpoint, TTL, topic, encoding ───────────────────────────────────────────────────────


async def test_a_broken_or_foreign_token_is_404(
    target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    base, _, token = endpoint.rpartition("/")
    foreign = KeyRing([new_key()]).encrypt(bytes(32)).rstrip("=")
    broken = {
        "garbage": "garbage",
        "cut": token[:-4],
        "one character": "A",
        "changed in the middle": token[:60] + ("B" if token[60] == "A" else "A") + token[61:],
        "changed at the end": token[:-2] + ("BB" if token[-2:] != "BB" else "AA"),
        "doubled": token + token,
        "of another key": foreign,
        "long": "A" * 8000,
        "percent-encoded garbage": "%00%ff%C3%BC",
        "beyond ASCII": "%E4%B8%96",
    }
    for name, text in broken.items():
        assert is_error(await sender.push(f"{base}/{text}"), 404, 102), name
    await only(agent, sender, endpoint)


async def test_a_push_to_a_path_that_is_none_is_404_in_json(
    running: Service, http: RawClient, target: tuple[UserAgent, str]
) -> None:
    _, endpoint = target
    path = path_of(endpoint)
    statuses = {}
    for wrong in ("/wpush", "/wpush/", "/wpush/v1/", f"{path}/more", f"{path}/", f"/{path}", "/m"):
        http.send(f"POST {wrong} HTTP/1.1\r\nHost: h\r\nTTL: 1\r\nContent-Length: 0\r\n\r\n")
        answer = await http.answer()
        assert answer.headers["content-type"] == "application/json"
        statuses[wrong] = answer.status
    assert set(statuses.values()) == {404}, statuses


async def test_padding_of_the_token_and_its_absent_version_are_tolerated(
    target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    token = endpoint.rpartition("/")[2]
    padded = endpoint + "=" * (-len(token) % 4)
    for url in (padded, endpoint.replace("/v1/", "/"), f"{endpoint}?query=1"):
        answer = await sender.push(url)
        assert (await agent.notification())["version"] == answer.message_id


async def test_a_token_counts_only_under_its_own_version(
    connect: Connect, sender: ApplicationServer
) -> None:
    server = Sender()
    agent = await connect()
    _, v1 = await agent.register()
    _, v2 = await agent.register(key=server.key_text)
    signed = {"Authorization": server.vapid(claims(v1))}
    expected: list[tuple[str, dict[str, str], int, int]] = [
        (v1.replace("/v1/", "/v2/"), {}, 401, 109),
        (v1.replace("/v1/", "/v2/"), signed, 404, 102),
        (v1.replace("/v1/", "/v3/"), {}, 404, 102),
        (v1.replace("/v1/", "/v0/"), signed, 404, 102),
        (v1.replace("/v1/", "/V1/"), {}, 404, 102),
        (v2.replace("/v2/", "/v1/"), {}, 404, 102),
        (v2.replace("/v2/", "/v1/"), signed, 404, 102),
        (v2.replace("/v2/", "/"), signed, 404, 102),
        (v2, {}, 401, 109),
    ]
    for url, headers, status, errno in expected:
        answer = await sender.push(url, crypto=headers)
        assert is_error(answer, status, errno), (url, headers, answer.body)
    await agent.silence()


async def test_a_message_id_is_no_endpoint_and_an_endpoint_no_message_id(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    answer = await sender.push(endpoint)
    assert is_error(await sender.push(f"{running.endpoint}/wpush/v1/{answer.message_id}"), 404, 102)
    token = endpoint.rpartition("/")[2]
    for text in (token, "garbage", "%00", "A" * 8000, answer.message_id[:-8], "%E4%B8%96"):
        assert is_error(await sender.delete(f"{running.endpoint}/m/{text}"), 400, 102), text
    assert (await agent.notification())["version"] == answer.message_id


TTLS: dict[str, tuple[str, int | None]] = {
    "0": ("0", 0),
    "1": ("1", 1),
    "leading zeros": ("007", 7),
    "the cap": ("2592000", 2592000),
    "above the cap": ("9999999999", 2592000),
    "outer spaces": ("  60  ", 60),
    "empty": ("", None),
    "negative": ("-1", None),
    "minus zero": ("-0", None),
    "plus": ("+60", None),
    "fraction": ("1.5", None),
    "exponent": ("1e3", None),
    "hexadecimal": ("0x10", None),
    "underscore": ("6_0", None),
    "words": ("never", None),
    "null": ("null", None),
    "inner space": ("6 0", None),
    "list": ("60, 60", None),
    "other digits": ("\u0663", None),
    "superscript": ("\xb2", None),
}


@pytest.mark.parametrize(("text", "applied"), TTLS.values(), ids=TTLS)
async def test_a_ttl_is_a_number_in_digits(
    http: RawClient, target: tuple[UserAgent, str], text: str, applied: int | None
) -> None:
    agent, endpoint = target
    http.send(f"POST {path_of(endpoint)} HTTP/1.1\r\nHost: h\r\nTTL: ".encode())
    http.send(text.encode() + b"\r\nContent-Length: 0\r\n\r\n")
    answer = await http.answer()
    if applied is None:
        assert (answer.status, answer.document["errno"]) == (400, 112)
        assert agent.notifications.empty()
    else:
        assert (answer.status, answer.headers["ttl"]) == (201, str(applied))
        assert (await agent.notification())["version"] == answer.message_id


@pytest.mark.parametrize("digits", [19, 20, 100, 5000])
async def test_a_ttl_of_absurd_length_is_capped_or_refused(
    target: tuple[UserAgent, str], sender: ApplicationServer, digits: int
) -> None:
    _, endpoint = target
    answer = await sender.push(endpoint, ttl="9" * digits)
    if answer.status == 201:
        assert answer.headers["TTL"] == "2592000"
    else:
        assert (answer.status, answer.document["errno"]) == (400, 112)


@pytest.mark.parametrize(
    ("topic", "good"),
    [
        ("a", True),
        ("A-Z_09", True),
        ("a" * 32, True),
        ("", True),
        ("a" * 33, False),
        ("a" * 8000, False),
        ("inbox=", False),
        ("in box", False),
        ("in/box", False),
        ("in+box", False),
        ("in:box", False),
        ("inböx", False),
        ("one, two", False),
    ],
)
async def test_a_topic_is_32_characters_of_its_alphabet(
    target: tuple[UserAgent, str], sender: ApplicationServer, topic: str, good: bool
) -> None:
    agent, endpoint = target
    answer = await sender.push(endpoint, topic=topic)
    if good:
        assert (await agent.notification())["version"] == answer.message_id
    else:
        assert (answer.status, answer.document["errno"]) == (400, 113)


BODIES: dict[str, tuple[dict[str, str], int, int]] = {
    "no encoding": ({}, 400, 110),
    "unknown encoding": ({"Content-Encoding": "gzip"}, 400, 110),
    "two encodings": ({"Content-Encoding": "aes128gcm, aesgcm"}, 400, 110),
    "aes128gcm with salt": (AES128GCM | {"Encryption": "salt=abc"}, 400, 110),
    "aes128gcm with dh": (AES128GCM | {"Crypto-Key": "dh=abc"}, 400, 110),
    "aes128gcm, Crypto-Key in words": (AES128GCM | {"Crypto-Key": "nonsense"}, 400, 110),
    "aesgcm alone": ({"Content-Encoding": "aesgcm"}, 400, 111),
    "aesgcm without Crypto-Key": (
        {"Content-Encoding": "aesgcm", "Encryption": "salt=abc"},
        400,
        111,
    ),
    "aesgcm without Encryption": ({"Content-Encoding": "aesgcm", "Crypto-Key": "dh=abc"}, 400, 111),
    "aesgcm without salt": (
        {"Content-Encoding": "aesgcm", "Encryption": "rs=1", "Crypto-Key": "dh=abc"},
        400,
        110,
    ),
    "aesgcm, salt no base64": (
        {"Content-Encoding": "aesgcm", "Encryption": "salt=a!c", "Crypto-Key": "dh=abc"},
        400,
        110,
    ),
    "aesgcm, Encryption beyond ASCII": (
        {"Content-Encoding": "aesgcm", "Encryption": "salt=ä", "Crypto-Key": "dh=abc"},
        400,
        110,
    ),
    "aesgcm with Encryption-Key": (
        {
            "Content-Encoding": "aesgcm",
            "Encryption": "salt=abc",
            "Crypto-Key": "dh=abc",
            "Encryption-Key": "dh=abc",
        },
        400,
        110,
    ),
}


@pytest.mark.parametrize(("headers", "status", "errno"), BODIES.values(), ids=BODIES)
async def test_a_body_that_no_user_agent_could_decrypt_is_refused(
    target: tuple[UserAgent, str],
    sender: ApplicationServer,
    headers: dict[str, str],
    status: int,
    errno: int,
) -> None:
    agent, endpoint = target
    assert is_error(await sender.push(endpoint, b"body", crypto=headers), status, errno)
    await only(agent, sender, endpoint)


async def test_a_body_above_the_limit_is_413_however_large(
    target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    for size in (4097, 65_536, 65_537, 200_000):
        answer = await sender.push(endpoint, bytes(size))
        assert is_error(answer, 413, 104), size
    await only(agent, sender, endpoint)


# ── pushes: VAPID ────────────────────────────────────────────────────────────────────────────────

NOW = "now"
CLAIMS: dict[str, tuple[dict[str, object], bool]] = {
    "good": ({}, True),
    "exp with a fraction": ({"exp": 3600.5}, True),
    "exp in 24 hours less a minute": ({"exp": 86_340}, True),
    "without sub": ({"sub": None}, True),
    "sub of another type": ({"sub": ["a"]}, True),
    "more claims": ({"nbf": "x", "iat": {}, "jti": [1]}, True),
    "expired": ({"exp": -1}, False),
    "expired by a fraction": ({"exp": -0.1}, False),
    "exp in 25 hours": ({"exp": 90_000}, False),
    "exp in a thousand years": ({"exp": 10**11}, False),
    "exp beyond floats": ({"exp": 10**400}, False),
    "exp missing": ({"exp": None}, False),
    "aud missing": ({"aud": None}, False),
    "aud of another host": ({"aud": "https://push.example"}, False),
    "aud without scheme": ({"aud": "127.0.0.1"}, False),
    "aud empty": ({"aud": ""}, False),
    "aud a number": ({"aud": 1}, False),
    "aud an object": ({"aud": {"a": "b"}}, False),
    "aud an empty list": ({"aud": []}, False),
    "aud with impossible port": ({"aud": "http://127.0.0.1:99999999"}, False),
    "aud not a host": ({"aud": "http://[::1"}, False),
}


@pytest.mark.parametrize(("changes", "good"), CLAIMS.values(), ids=CLAIMS)
async def test_the_claims_of_a_token_are_judged(
    target: tuple[UserAgent, str],
    sender: ApplicationServer,
    changes: dict[str, object],
    good: bool,
) -> None:
    agent, endpoint = target
    exp = changes.get("exp")
    if isinstance(exp, int | float):  # seconds from now
        changes = changes | {"exp": int(exp) if exp == 10**400 else time.time() + exp}
    server = Sender()
    token = server.token(claims(endpoint, **changes))
    for crypto in (
        draft_1(server, token),
        AES128GCM | {"Authorization": f"vapid t={token},k={server.key_text}"},
    ):
        answer = await sender.push(endpoint, b"body", crypto=crypto)
        if good:
            assert (await agent.notification())["version"] == answer.message_id
        else:
            assert is_error(answer, 401, 109)
            assert answer.headers["WWW-Authenticate"] == "vapid"


@pytest.mark.parametrize(
    "exp", ["4102444800", "@", "", ["@"], {}, True, False, [], "2100-01-01", float("nan")]
)
async def test_exp_of_another_type_is_401(
    target: tuple[UserAgent, str], sender: ApplicationServer, exp: object
) -> None:
    _, endpoint = target
    server = Sender()
    authorization = server.vapid(claims(endpoint, exp=exp))
    assert is_error(await sender.push(endpoint, Authorization=authorization), 401, 109)


async def test_an_expired_token_is_refused_though_it_was_good_before(
    target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    _, endpoint = target
    expires = time.time() + 0.6
    authorization = Sender().vapid(claims(endpoint, exp=expires))
    assert (await sender.push(endpoint, Authorization=authorization)).status == 201
    await asyncio.sleep(expires - time.time() + 0.05)
    assert is_error(await sender.push(endpoint, Authorization=authorization), 401, 109)


async def test_what_is_no_token_of_this_key_is_401(
    connect: Connect, sender: ApplicationServer
) -> None:
    server, other = Sender(), Sender()
    agent = await connect()
    _, anonymous = await agent.register()
    _, restricted = await agent.register(key=server.key_text)
    good = claims(anonymous)
    token, key = server.token(good), server.key_text
    head_part, claims_part, signature = token.split(".")
    unsigned = base64url.encode(json.dumps({"typ": "JWT", "alg": "none"}).encode())
    compressed = base64url.encode(bytes([2]) + server.point[1:33])
    off_curve = base64url.encode(server.point[:-1] + bytes([server.point[-1] ^ 1]))
    wrong = {
        "empty": "",
        "scheme alone": "vapid",
        "Basic": "Basic dXNlcjpwYXNz",
        "Bearer alone": "Bearer ",
        "Bearer without Crypto-Key": f"Bearer {token}",
        "without k": f"vapid t={token}",
        "without t": f"vapid k={key}",
        "k empty": f"vapid t={token},k=",
        "t empty": f"vapid t=,k={key}",
        "words": "vapid t=one,k=two",
        "k no base64": f"vapid t={token},k=!!!",
        "k of another": f"vapid t={token},k={other.key_text}",
        "k compressed": f"vapid t={token},k={compressed}",
        "k not on the curve": f"vapid t={token},k={off_curve}",
        "k huge": f"vapid t={token},k={'A' * 8000}",
        "signed by another": f"vapid t={other.token(good)},k={key}",
        "alg none": f"vapid t={unsigned}.{claims_part}.,k={key}",
        "alg none, old signature": f"vapid t={unsigned}.{claims_part}.{signature},k={key}",
        "alg HS256": f"vapid t={server.token(good, header={'alg': 'HS256'})},k={key}",
        "alg es256": f"vapid t={server.token(good, header={'alg': 'es256'})},k={key}",
        "alg a list": f"vapid t={server.token(good, header={'alg': ['ES256']})},k={key}",
        "no alg": f"vapid t={server.token(good, header={'typ': 'JWT'})},k={key}",
        "header a list": f"vapid t={server.token(good, header=['ES256'])},k={key}",
        "claims a list": f"vapid t={server.token([good])},k={key}",
        "claims a string": f"vapid t={server.token('claims')},k={key}",
        "claims null": f"vapid t={server.token(None)},k={key}",
        "two parts": f"vapid t={head_part}.{claims_part},k={key}",
        "four parts": f"vapid t={token}.{signature},k={key}",
        "cut signature": f"vapid t={token[:-10]},k={key}",
        "no signature": f"vapid t={head_part}.{claims_part}.,k={key}",
        "signature of zeros": f"vapid t={head_part}.{claims_part}.{'A' * 86},k={key}",
        "changed claims": f"vapid t={head_part}.{claims_part[:-4]}AAAA.{signature},k={key}",
        "deep header": f"vapid t={base64url.encode(b'[' * 3000)}.{claims_part}.{signature},k={key}",
    }
    for endpoint, (name, authorization) in product((anonymous, restricted), wrong.items()):
        answer = await sender.push(endpoint, b"body", Authorization=authorization)
        assert is_error(answer, 401, 109), (name, endpoint, answer.body)
    answer = await sender.push(restricted, Authorization=other.vapid(good))
    assert is_error(answer, 401, 109)
    for crypto_key in ("nonsense", "p256ecdsa", "ä=b", ";;;"):
        headers = {"Authorization": f"Bearer {token}", "Crypto-Key": crypto_key}
        assert is_error(await sender.push(anonymous, crypto=headers), 400, 110), crypto_key
    assert (await sender.push(anonymous, Authorization=server.vapid(good))).status == 201
    await agent.notification()
    await agent.silence()


async def test_other_forms_of_a_right_key_and_signature_are_taken(
    target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    server = Sender()
    good = claims(endpoint)
    token = server.token(good)
    standard = base64.b64encode(server.point).decode()
    for authorization in (
        f"vapid t={server.token(good, der_signature=True)},k={server.key_text}",
        f"vapid t={token},k={base64url.encode(server.point[1:])}",
        f"vapid t={token},k={base64url.encode(server.der)}",
        f"vapid t={token},k={standard}",
        f"VAPID  k={server.key_text} ,  t={token}",
        f"vapid t={token},k={server.key_text},x=y",
    ):
        answer = await sender.push(endpoint, Authorization=authorization)
        assert answer.status == 201, (authorization, answer.body)
        assert (await agent.notification())["version"] == answer.message_id


# ── HTTP itself ──────────────────────────────────────────────────────────────────────────────────


def push_head(endpoint: str, *lines: str, version: str = "1.1", ttl: str = "60") -> str:
    return "\r\n".join(
        (f"POST {path_of(endpoint)} HTTP/{version}", "Host: h", f"TTL: {ttl}", *lines, "", "")
    )


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
    expected = [base64url.encode(b"%03d" % number) for number in range(50)]
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


async def test_expect_100_continue_is_granted_before_the_body(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    http.send(push_head(endpoint, ENCODED, "Content-Length: 4", "Expect: 100-continue"))
    assert (await http.answer()).status == 100
    http.send("body")
    answer = await http.answer()
    assert (await agent.notification())["version"] == answer.message_id


async def test_expect_100_continue_is_refused_for_a_body_that_is_too_large(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    _, endpoint = target
    http.send(push_head(endpoint, ENCODED, "Content-Length: 999999", "Expect: 100-continue"))
    assert (await http.answer()).status == 413


async def test_a_chunked_body_is_put_together(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    http.send(push_head(endpoint, ENCODED, "Transfer-Encoding: chunked"))
    for chunk in ("1\r\nb\r\n", "2;ext=1\r\nod\r\n", "001\r\ny\r\n", "0\r\nTrailer: t\r\n\r\n"):
        http.send(chunk)
        await asyncio.sleep(0)
    answer = await http.answer()
    message = await agent.notification()
    assert (message["version"], message["data"]) == (answer.message_id, base64url.encode(b"body"))


BROKEN_HTTP: dict[str, tuple[Sequence[str], str, set[int]]] = {
    "both lengths": (("Content-Length: 4", "Transfer-Encoding: chunked"), "0\r\n\r\n", {400}),
    "both lengths, other order": (
        ("Transfer-Encoding: chunked", "Content-Length: 4"),
        "0\r\n\r\n",
        {400},
    ),
    "two lengths": (("Content-Length: 4", "Content-Length: 5"), "body", {400}),
    "negative length": (("Content-Length: -4",), "body", {400}),
    "length in words": (("Content-Length: four",), "body", {400}),
    "length with plus": (("Content-Length: +4",), "body", {400}),
    "length of 5,000 digits": ((f"Content-Length: {'9' * 5000}",), "body", {400, 413}),
    "length above the limit": (("Content-Length: 99999999",), "body", {413}),
    "chunk size in words": (("Transfer-Encoding: chunked",), "x\r\nbody\r\n0\r\n\r\n", {400}),
    "chunk size too large": (("Transfer-Encoding: chunked",), f"{'f' * 20}\r\nbody", {400, 413}),
    "chunk without its end": (("Transfer-Encoding: chunked",), "4\r\nbodyXX0\r\n\r\n", {400}),
    "chunks above the limit": (
        ("Transfer-Encoding: chunked",),
        f"10000\r\n{'b' * 65536}\r\n" * 3,
        {413},
    ),
    "other transfer coding": (("Transfer-Encoding: gzip",), "", {400, 501}),
    "two transfer codings": (("Transfer-Encoding: gzip, chunked",), "0\r\n\r\n", {400, 501}),
    "identity": (("Transfer-Encoding: identity",), "", {400, 501}),
    "another expectation": (("Expect: a miracle", "Content-Length: 0"), "", {417}),
    "two hosts": (("Host: two", "Content-Length: 0"), "", {400}),
    "space before the colon": (("TTL : 60", "Content-Length: 0"), "", {400}),
    "folded header": (("X-Folded: a\r\n b", "Content-Length: 0"), "", {400}),
    "header without colon": (("nonsense", "Content-Length: 0"), "", {400}),
    "NUL in a header": (("X-Nul: a\0b", "Content-Length: 0"), "", {400}),
    "bare CR in a header": (("X-CR: a\rb", "Content-Length: 0"), "", {400}),
    "101 headers": ((*(f"X-{n}: v" for n in range(99)), "Content-Length: 0"), "", {431}),
    "10,000 headers": (tuple(f"X-{n}: v" for n in range(10_000)), "", {431}),
    "header line of 20 KB": ((f"X-Long: {'v' * 20_000}", "Content-Length: 0"), "", {431}),
    "header name of 20 KB": ((f"X-{'n' * 20_000}: v", "Content-Length: 0"), "", {431}),
    "header block of 80 KB": (
        (*(f"X-{n}: {'v' * 8000}" for n in range(10)), "Content-Length: 0"),
        "",
        {431},
    ),
    "header block of 2 MB": (tuple(f"X-{n}: {'v' * 15_000}" for n in range(140)), "", {431}),
}


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
    await only(agent, sender, endpoint)


REQUEST_LINES: dict[str, set[int]] = {
    "BREW / HTTP/1.1": {400, 405, 501},
    "TRACE / HTTP/1.1": {400, 405, 501},
    "CONNECT h:80 HTTP/1.1": {400, 405, 501},
    "PRI * HTTP/2.0": {400, 505},
    "get / HTTP/1.1": {400, 405, 501},
    "GET / HTTP/3.0": {400, 505},
    "GET / HTTP/1.9": {400, 505},
    "GET / FTP/1.1": {400},
    "GET /": {400},
    "GET": {400},
    "GET  HTTP/1.1": {400},
    "GET / HTTP/1.1 more": {400},
    "GET ftp://h/ HTTP/1.1": {400},
    "GET * HTTP/1.1": {400},
    "GET /\x01 HTTP/1.1": {400, 404},
    f"GET /{'a' * 20_000} HTTP/1.1": {414, 431},
    f"GET /{'a' * 200_000} HTTP/1.1": {414, 431},
    f"{'G' * 100_000} / HTTP/1.1": {400, 431, 501},
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": {400},  # TLS
    "\x05\x01\x00": {400},  # SOCKS
}


@pytest.mark.parametrize("port", ["endpoint_port", "websocket_port", "router_port"])
@pytest.mark.parametrize(("line", "statuses"), REQUEST_LINES.items(), ids=range(len(REQUEST_LINES)))
async def test_a_request_line_of_another_kind_is_refused(
    running: Service, line: str, statuses: set[int], port: str
) -> None:
    async with raw_client(getattr(running, port)) as client:
        client.send(f"{line}\r\nHost: h\r\n\r\n")
        assert (await client.answer()).status in statuses


async def test_http_1_0_is_answered_and_closed(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    http.send(push_head(endpoint, ENCODED, "Content-Length: 4", version="1.0") + "body")
    answer = await http.answer()
    assert (await agent.notification())["version"] == answer.message_id
    assert await http.end() == b""


async def test_http_1_0_may_keep_its_connection_but_not_send_chunks(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    lines = ("Connection: keep-alive", "Content-Length: 0")
    http.send(push_head(endpoint, *lines, version="1.0") * 2)
    sent = [(await http.answer()).message_id for _ in range(2)]
    assert [message["version"] for message in await agent.receive(2)] == sent
    http.send(push_head(endpoint, "Transfer-Encoding: chunked", version="1.0") + "0\r\n\r\n")
    assert (await http.answer()).status == 400
    assert await http.end() == b""


PATHS = (
    "/",
    "/wpush/v1/token",
    "/wpush/token",
    "/m/message",
    "/v1/err",
    "/v1/webpush/app/registration",
    "/status",
    "/health",
    "/__version__",
    "/__heartbeat__",
    "/__lbheartbeat__",
    "/nowhere/at/all",
    "/%00%ff",
    "//",
    "/" + "a" * 8000,
)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
async def test_head_and_options_of_every_path_are_200_and_empty(
    http: RawClient, method: str
) -> None:
    for path in PATHS:
        http.send(f"{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = await http.answer(head=method == "HEAD")
        assert (answer.status, answer.body) == (200, b""), path
        assert answer.headers["access-control-allow-origin"] == "*"
    http.send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
    assert (await http.answer()).status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "POST"])
async def test_a_wrong_method_is_405_or_404_and_has_no_effect(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer, method: str
) -> None:
    agent, endpoint = target
    message = (await sender.push(endpoint)).headers["Location"]
    await agent.receive(1)
    urls = [running.endpoint + path for path in ("/status", "/health", "/nowhere", "/push/x")]
    urls += [endpoint] if method != "POST" else [message]
    urls += [message] if method not in ("DELETE", "POST") else []
    for url in urls:
        if method == "GET" and url.endswith(("/status", "/health")):
            continue
        answer = await sender.request(method, url, headers={"TTL": "60"})
        assert answer.status in (404, 405), (method, url)
        if answer.status == 405:
            assert "POST" in answer.headers["Allow"] or "DELETE" in answer.headers["Allow"]
    await agent.silence()


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


INTERNAL: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"nonsense",
    "a list": b"[]",
    "an empty object": b"{}",
    "no version": b'{"channelID":"%s","ttl":60}' % CHANNEL.encode(),
    "wrong types": b'{"channelID":1,"version":[],"ttl":"x","timestamp":{},"data":1}',
    "channel that is none": b'{"channelID":"x","version":"v","ttl":60,"timestamp":1}',
    "headers a list": b'{"channelID":"%s","version":"v","ttl":60,"timestamp":1,"data":"a",'
    b'"headers":[1]}' % CHANNEL.encode(),
    "not UTF-8": b'{"channelID":"\xff"}',
}


@pytest.mark.parametrize("body", INTERNAL.values(), ids=INTERNAL)
async def test_the_internal_port_refuses_what_is_no_notification(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer, body: bytes
) -> None:
    agent, endpoint = target
    answer = await sender.request("PUT", f"{running.node_api}/push/{agent.uaid}", body=body)
    assert answer.status == 400
    await only(agent, sender, endpoint)


async def test_the_internal_port_knows_only_connected_users(
    running: Service, sender: ApplicationServer
) -> None:
    for uaid in (uuid.uuid4().hex, "nonsense", "%00", "A" * 8000):
        for method, path in (("PUT", "push"), ("PUT", "notif")):
            answer = await sender.request(method, f"{running.node_api}/{path}/{uaid}", body=b"{}")
            assert answer.status == 404, (path, uaid)
        for connected_at in ("1", "x", "-1", "9" * 5000):
            url = f"{running.node_api}/notif/{uaid}/{connected_at}"
            assert (await sender.request("DELETE", url)).status == 200


# ── sockets ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_sender_that_shut_its_half_still_gets_its_answers(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    http.send(push_head(endpoint, "Content-Length: 0") * 3)
    http.finish()
    sent = [(await http.answer()).message_id for _ in range(3)]
    assert [message["version"] for message in await agent.receive(3)] == sent
    assert await http.end() == b""


async def test_half_a_request_has_no_effect(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    whole = push_head(endpoint, ENCODED, "Content-Length: 10") + "0123456789"
    for end in ("finish", "vanish"):
        for length in (1, 20, len(whole) - 12, len(whole) - 1):
            async with raw_client(running.endpoint_port) as client:
                client.send(whole[:length])
                await asyncio.sleep(0)
                getattr(client, end)()
                await client.end()
    await only(agent, sender, endpoint)


async def test_a_websocket_that_vanishes_or_shuts_its_half_is_cleaned_up(
    running: Service, sender: ApplicationServer
) -> None:
    async def clients() -> int:
        count = (await sender.request("GET", f"{running.endpoint}/health")).document["clients"]
        assert isinstance(count, int)
        return count

    before = await clients()
    async with AsyncExitStack() as stack:
        for number in range(6):
            client = await stack.enter_async_context(raw_client(running.websocket_port))
            await (client.upgrade() if number < 2 else client.hello())
            if number % 2:
                client.send(wire.text(b'{"messageType":"reg')[:-3])
                client.finish()
                await client.end()
            else:
                linger = struct.pack("ii", 1, 0)  # an RST instead of a FIN
                sock = client.writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.vanish()
    for _ in range(250):
        if await clients() == before:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("sockets are left over")


async def test_a_sender_that_reads_no_answers_does_not_hold_up_others(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    async with raw_client(running.endpoint_port) as client:
        sock = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.writer.transport.set_write_buffer_limits(high=1 << 20)
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 2000)
        await only(agent, sender, endpoint)


Outcome = Future[tuple[float, bytes]]
"""After how many seconds something came, and what."""


class SlowClients:
    """Clients that begin something and never end it, in the background of the whole module."""

    def __init__(self, service: Service) -> None:
        request = b"GET / HTTP/1.1\r\nHost: h\r\n"
        upgrade = head("GET / HTTP/1.1", UPGRADE).encode()
        self.drips = [
            self._begin(port, request, b"X-Slow: 1\r\n")
            for port in (service.endpoint_port, service.websocket_port)
        ]
        self.mute = self._begin(service.websocket_port, upgrade, b"")

    def _begin(self, port: int, first: bytes, more: bytes) -> Outcome:
        outcome: Outcome = Future()
        threading.Thread(target=self._run, args=(port, first, more, outcome), daemon=True).start()
        return outcome

    @staticmethod
    def _run(port: int, first: bytes, more: bytes, outcome: Outcome) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as sock:
                began = time.monotonic()
                sock.sendall(first)
                sock.settimeout(0.5)
                data = b""
                while not data and time.monotonic() - began < HEAD_TIMEOUT + 5:
                    try:
                        data = sock.recv(65536)
                        if data.startswith(b"HTTP/1.1 101"):
                            data = data.partition(b"\r\n\r\n")[2]
                    except TimeoutError:
                        sock.sendall(more)
            outcome.set_result((time.monotonic() - began, data))
        except OSError as error:
            outcome.set_exception(error)


@pytest.fixture(scope="module", autouse=True)
def slow_clients(running: Service) -> SlowClients:
    return SlowClients(running)


# Last, as by now most of the time has passed.


async def test_a_connection_without_hello_is_closed_in_time(slow_clients: SlowClients) -> None:
    seconds, data = await asyncio.wrap_future(slow_clients.mute)
    assert data[:2] == bytes((0x80 | wire.CLOSE, len(data) - 2))
    assert int.from_bytes(data[2:4]) == 1008
    assert HELLO_TIMEOUT - 1 < seconds < HELLO_TIMEOUT + 3


async def test_a_head_that_comes_by_drips_is_cut_off_with_408(slow_clients: SlowClients) -> None:
    for outcome in slow_clients.drips:
        seconds, data = await asyncio.wrap_future(outcome)
        assert data.startswith(b"HTTP/1.1 408 ")
        assert HEAD_TIMEOUT - 1 < seconds < HEAD_TIMEOUT + 3
