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
    "no JSON": (wire.text(b"hello"), 1008),
    "a list": (wire.text(b"[]"), 1008),
    "very deep": (wire.text(b'{"a":' * 10_000 + b"1" + b"}" * 10_000), 1008),
    "deep list": (wire.text(b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}"), 1008),
    "not UTF-8": (wire.text(b'{"messageType": "\xff"}'), 1007),
    "binary": (wire.frame(wire.BINARY, b"{}"), 1003),
    "above the limit": (wire.text(b" " * (MAX_MESSAGE + 1)), 1009),
    "2^62 bytes announced": (wire.frame(wire.TEXT, length=2**62), 1009),
    "not masked": (wire.frame(wire.TEXT, b"{}", key=None), 1002),
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
    "version 12": ("GET / HTTP/1.1", {"Sec-WebSocket-Version": "12"}, {426}),
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
        {"Connection": "keep-alive, upgrade", "Origin": "https://elsewhere.example"},
        {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"},
        {"Sec-WebSocket-Protocol": "chat, push-notification"},
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
