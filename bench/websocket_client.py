"""A WebSocket client that costs little: the user agents' half of the load.

Rule: nothing is computed per frame that could be prepared once, so that a measure sees the server
and not the load.

Text frames of a server that does not fragment, pings and closes are understood; anything else is a
`MismatchError`.
"""

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

from bench.ledger import MismatchError

TEXT, CLOSE, PING, PONG = 0x81, 0x88, 0x89, 0x8A

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
_KEY = base64.b64encode(b"autopush's bench")
_ACCEPT = base64.b64encode(hashlib.sha1(_KEY + _GUID, usedforsecurity=False).digest())
_MASK = bytes(byte or 0xA5 for byte in os.urandom(4))


def frame(first: int, payload: bytes) -> bytes:
    """A masked frame whose first byte (FIN and opcode) is `first`."""
    length = len(payload)
    head, mask = _prepared(first, length)
    return head + (int.from_bytes(payload, "little") ^ mask).to_bytes(length, "little")


@cache
def _prepared(first: int, length: int) -> tuple[bytes, int]:
    if length < 126:
        size = bytes((0x80 | length,))
    elif length < 65536:
        size = b"\xfe" + length.to_bytes(2, "big")
    else:
        size = b"\xff" + length.to_bytes(8, "big")
    mask = (_MASK * (length // 4 + 1))[:length]
    return bytes((first,)) + size + _MASK, int.from_bytes(mask, "little")


def upgrade_request(*headers: str) -> bytes:
    """The opening handshake for the path `/`."""
    lines = [
        "GET / HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {_KEY.decode()}",
        "Sec-WebSocket-Version: 13",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


class WebSocketClient(asyncio.Protocol):
    """To be subclassed: `text_received`, `opened`, `ended`."""

    __slots__ = (
        "_pongs",
        "_rest",
        "close_code",
        "closing",
        "gone",
        "is_open",
        "request",
        "transport",
    )

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.transport = cast(asyncio.Transport, None)
        self.is_open = False
        self.closing = False
        self.close_code: int | None = None
        self.gone = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._pongs: asyncio.Future[None] | None = None

    def opened(self) -> None:
        """Called when the server accepted the handshake."""

    def text_received(self, payload: bytes) -> None:
        """Called with each text message."""

    def ended(self, reason: str) -> None:
        """Called once, when the connection is gone without having been closed from this side."""

    def close(self, code: int = 1000) -> None:
        """Start the closing handshake; `gone` is done when the server has ended the connection."""
        self.closing = True
        self.transport.write(frame(CLOSE, code.to_bytes(2, "big")))

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    async def barrier(self) -> None:
        """Wait until the server has handled everything sent so far: a ping and its pong."""
        self._pongs = asyncio.get_running_loop().create_future()
        self.transport.write(frame(PING, b""))
        await self._pongs

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self.request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if self._pongs and not self._pongs.done():
            self._pongs.set_exception(MismatchError("the connection ended before the pong"))
            self._pongs.exception()
        if not self.closing:
            self.ended(
                f"close code {self.close_code}" if self.close_code else str(exc or "end of file")
            )

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if not self.is_open:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self._rest = data
                return
            if not data.startswith(b"HTTP/1.1 101") or _ACCEPT not in data[:end]:
                self._refuse(f"the handshake was answered {data[:60]!r}")
                return
            self.is_open = True
            self.opened()
            data = data[end + 4 :]
        at, size = 0, len(data)
        while size - at >= 2:
            first, length, start = data[at], data[at + 1], at + 2
            if length == 126:
                if size - at < 4:
                    break
                length, start = (data[at + 2] << 8) | data[at + 3], at + 4
            elif length == 127:
                if size - at < 10:
                    break
                length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            end = start + length
            if end > size:
                break
            at = end
            if first == TEXT:
                self.text_received(data[start:end])
            else:
                self._control(first, data[start:end])
        if at < size:
            self._rest = data[at:]

    def _control(self, first: int, payload: bytes) -> None:
        if first == PING:
            self.transport.write(frame(PONG, payload))
        elif first == PONG:
            if self._pongs and not self._pongs.done():
                self._pongs.set_result(None)
        elif first == CLOSE:
            self.close_code = int.from_bytes(payload[:2], "big") if payload else 1005
            if not self.closing:
                self.transport.write(frame(CLOSE, payload[:2]))
            self.transport.close()
        else:
            self._refuse(f"a frame that begins with {first:#x}")

    def _refuse(self, reason: str) -> None:
        self.closing = True
        self.transport.abort()
        self.ended(reason)


Client = TypeVar("Client", bound=WebSocketClient)


async def connect(
    make: Callable[[], Client], host: str, port: int, source: str | None = None
) -> Client:
    """Open the TCP connection, from the address `source` if given; the handshake is on its way."""
    local = None if source is None else (source, 0)
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(make, host, port, local_addr=local)
    return client
