"""WebSocket upgrades, frames and texts that are broken, or only unusual."""

import asyncio
import base64
import json

import pytest

from support import wire
from support.bad_input import CHANNEL, request
from support.raw_client import RawClient
from support.service import Service

MAX_MESSAGE = 65536

# ── frames ───────────────────────────────────────────────────────────────────────────────────────

CLOSING_FRAMES: dict[str, tuple[bytes, int]] = {
    "text: nothing": (wire.text(b""), 1008),
    "text: no JSON": (wire.text(b"hello"), 1008),
    "text: half an object": (wire.text(b'{"messageType":'), 1008),
    "text: two objects": (wire.text(b"{}{}"), 1008),
    "text: a list": (wire.text(b"[]"), 1008),
    "text: a string": (wire.text(b'"hello"'), 1008),
    "text: a number": (wire.text(b"1"), 1008),
    "text: null": (wire.text(b"null"), 1008),
    "text: NaN": (wire.text(b'{"messageType": NaN}'), 1008),
    "text: single quotes": (wire.text(b"{'messageType': 'ping'}"), 1008),
    "text: control character in a string": (wire.text(b'{"messageType": "pi\nng"}'), 1008),
    "text: lone surrogate": (wire.text(b'{"messageType": "\\ud800"}'), 1008),
    "text: very deep": (wire.text(b'{"a":' * 10_000 + b"1" + b"}" * 10_000), 1008),
    "text: deep list": (wire.text(b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}"), 1008),
    "text: not UTF-8": (wire.text(b'{"messageType": "\xff"}'), 1007),
    "text: cut UTF-8": (wire.text(b'{"messageType": "\xe2\x82'), 1007),
    "text: UTF-8 surrogate": (wire.text(b'"\xed\xa0\x80"'), 1007),
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
"""By what is sent: the frames, and the code of the close frame that responds."""


@pytest.mark.parametrize("after_hello", [False, True], ids=["before hello", "after hello"])
@pytest.mark.parametrize(("frames", "code"), CLOSING_FRAMES.values(), ids=CLOSING_FRAMES)
async def test_a_broken_frame_or_text_closes_the_connection_with_its_code(
    ws: RawClient, frames: bytes, code: int, after_hello: bool
) -> None:
    await (ws.hello() if after_hello else ws.upgrade())
    ws.send(frames)
    assert await ws.close_code() == code
    ws.finish()
    assert await ws.end() == b""


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
    "key beyond ASCII": ("GET / HTTP/1.1", {"Sec-WebSocket-Key": "\xe4" * 12}, {400}),
    "two keys": (
        "GET / HTTP/1.1",
        {"Sec-WebSocket-Key": None, "sec-websocket-key": "a\r\nSec-WebSocket-Key: b"},
        {400},
    ),
}


@pytest.mark.parametrize(("start", "changes", "statuses"), UPGRADES.values(), ids=UPGRADES)
async def test_a_wrong_upgrade_is_refused_with_a_4xx(
    ws: RawClient, start: str, changes: dict[str, str | None], statuses: set[int]
) -> None:
    ws.send(request(start, UPGRADE | changes))
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
    ws.send(request("GET /any/path?query HTTP/1.1", UPGRADE | changes))
    answer = await ws.answer()
    assert answer.status == 101
    assert "sec-websocket-extensions" not in answer.headers
    offered = changes.get("Sec-WebSocket-Protocol") or ""
    chosen = "push-notification" if "push-notification" in offered else None
    assert answer.headers.get("sec-websocket-protocol") == chosen


async def test_the_websocket_port_answers_a_browser_with_an_explanation(
    running: Service, ws: RawClient
) -> None:
    ws.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = await ws.answer()
    assert answer.status == 200
    assert running.websocket in answer.body.decode()
