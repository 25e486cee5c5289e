"""A TCP client for tests that sends any bytes, well-formed or not, to HTTP and WebSocket ports."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support import wire
from support.application_server import Answer

TIMEOUT = 60.0
"""Seconds a test waits for what must come."""


class RawClient:
    """One TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes | str) -> None:
        self.writer.write(data if isinstance(data, bytes) else data.encode("latin-1"))

    def finish(self) -> None:
        """Shut down the sending half of the socket."""
        self.writer.write_eof()

    def drop_connection(self) -> None:
        self.writer.transport.abort()

    async def answer(self) -> Answer:
        """The next HTTP answer."""
        async with asyncio.timeout(TIMEOUT):
            raw = await self.reader.readuntil(b"\r\n\r\n")
            status_line, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
            headers: dict[str, str] = {}
            for line in lines:
                name, colon, value = line.partition(": ")
                assert colon, raw
                key = name.lower()
                # Of what a service sends, only Connection may be a list of several lines.
                assert key == "connection" or key not in headers, raw
                headers[key] = f"{headers[key]}, {value}" if key in headers else value
            status = int(status_line.split(" ", 2)[1])
            length = 0 if status < 200 else int(headers.get("content-length", "0"))
            return Answer(status, headers, await self.reader.readexactly(length))

    async def end(self) -> bytes:
        """The bytes that arrive until the server closes."""
        async with asyncio.timeout(TIMEOUT):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    # ── WebSocket ────────────────────────────────────────────────────────────────────────────────

    async def upgrade(self) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        self.send(
            "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        )
        answer = await self.answer()
        assert answer.status == 101, answer

    async def hello(self) -> str:
        """Upgrade and say hello; returns the UAID."""
        await self.upgrade()
        self.send(wire.text(b'{"messageType":"hello","use_webpush":true}'))
        opcode, payload = await self.frame()
        assert opcode == wire.TEXT
        uaid = json.loads(payload)["uaid"]
        assert isinstance(uaid, str)
        return uaid

    async def frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame of the server."""
        async with asyncio.timeout(TIMEOUT):
            first, second = await self.reader.readexactly(2)
            assert first & 0x80, "the service sends whole messages"
            assert not second & 0x80, "a server does not mask"
            length = second
            if second > 125:
                length = int.from_bytes(await self.reader.readexactly(2 if second == 126 else 8))
            return first & 0x0F, await self.reader.readexactly(length)

    async def close_code(self) -> int:
        """The code of the close frame, which must be the next thing to come."""
        opcode, payload = await self.frame()
        assert opcode == wire.CLOSE, payload
        return int.from_bytes(payload[:2])


@asynccontextmanager
async def raw_client(port: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


async def get(port: int, path: str) -> Answer:
    """The answer to a GET on a connection of its own."""
    async with raw_client(port) as client:
        client.send(f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        return await client.answer()
