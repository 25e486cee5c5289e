"""An HTTP server whose responses are scripted, request by request.

A script is a list of steps, taken in the order in which requests come in over all connections; when
it is used up, the response is `{}`. A step is a coroutine function of the `Exchange`.
"""

import asyncio
import contextlib
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from support.stream_server import stream_server


@dataclass(frozen=True)
class ReceivedRequest:
    """A request. `connection`: the number of its connection, from 0."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    connection: int

    @property
    def operation(self) -> str:
        return self.headers["x-amz-target"].partition(".")[2]


@dataclass
class Exchange:
    """One request, and the connection to respond on."""

    server: "ScriptedServer"
    request: ReceivedRequest
    writer: asyncio.StreamWriter
    keep_alive: bool = True

    async def raw(self, data: bytes) -> None:
        """Write these bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def respond(
        self, body: bytes = b"{}", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        lines = {
            "Content-Type": "application/x-amz-json-1.0",
            "Content-Length": str(len(body)),
            "x-amz-crc32": str(zlib.crc32(body)),
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.raw(f"HTTP/1.1 {status} Reason\r\n{head}\r\n".encode() + body)

    def close(self) -> None:
        """Close the connection after this step."""
        self.keep_alive = False

    def reset(self) -> None:
        """Reset the connection now."""
        self.keep_alive = False
        self.writer.transport.abort()


Step = Callable[[Exchange], Awaitable[None]]


def ok(body: bytes = b"{}", **headers: str) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.respond(
            body, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )

    return step


def error(code: str, message: str = "", *, status: int = 400, **headers: str) -> Step:
    """An error in DynamoDB's form."""
    document = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}

    async def step(exchange: Exchange) -> None:
        await exchange.respond(json.dumps(document).encode(), status, headers)

    return step


def raw(data: bytes, *, close: bool = False) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.raw(data)
        if close:
            exchange.close()

    return step


async def close(exchange: Exchange) -> None:
    exchange.close()


async def reset(exchange: Exchange) -> None:
    exchange.reset()


class HeldStep:
    """A step that responds once `released` is set; `received` is set when its request has come."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.released = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.received.set()
        await self.released.wait()
        await exchange.respond()


@dataclass
class ScriptedServer:
    script: list[Step]
    port: int = 0
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    closed: int = 0
    """Connections that are closed."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def close_all(self) -> None:
        """Close every connection, as a server does with idle ones."""
        for writer in list(self._writers):
            writer.close()
        await self.until(lambda: not self._writers)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something about this server is true."""
        async with asyncio.timeout(30):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        self._writers.add(writer)
        self._changed.set()
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value
                    for name, value in (line.split(": ", 1) for line in head[1:-2])
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = head[0].split(" ")
                request = ReceivedRequest(method, path, headers, body, number)
                self.requests.append(request)
                self._changed.set()
                exchange = Exchange(self, request, writer)
                step = self.script.pop(0) if self.script else ok()
                await step(exchange)
                if not exchange.keep_alive:
                    return
        finally:
            self._writers.discard(writer)
            self.closed += 1
            self._changed.set()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        script: Iterable[Step] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncIterator[Self]:
        made = cls(list(script))
        async with stream_server(made.serve, host=host, port=port, tls=tls) as (_, made.port):
            yield made
