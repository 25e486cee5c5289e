"""An HTTP server that answers as it is told, request by request.

A script is a list of steps, taken in the order requests come in, over all connections; when it is
used up, everything is answered `{}`. A step is a coroutine function of the `Exchange`.
"""

import asyncio
import contextlib
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True)
class Asked:
    """A request as it came. `connection`: the number of its connection, from 0."""

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
    """One request, and the way to answer it."""

    server: "ScriptedServer"
    asked: Asked
    writer: asyncio.StreamWriter
    keep: bool = True

    async def raw(self, data: bytes) -> None:
        """Write these bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
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
        """End the connection in order."""
        self.keep = False

    def reset(self) -> None:
        """End the connection at once."""
        self.keep = False
        self.writer.transport.abort()


Step = Callable[[Exchange], Awaitable[None]]


def ok(body: bytes = b"{}", **headers: str) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.answer(
            body, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )

    return step


def error(code: str, message: str = "", *, status: int = 400, **headers: str) -> Step:
    """An error as DynamoDB says it."""
    document = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}

    async def step(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(document).encode(), status, headers)

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


class Held:
    """A step that answers only once it is let go; `asked` is set when its request has come."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.asked.set()
        await self.let_go.wait()
        await exchange.answer()


@dataclass
class ScriptedServer:
    script: list[Step]
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    ended: int = 0
    """Connections that are over."""
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def close_all(self) -> None:
        """End every connection in order, as for having been idle."""
        for writer in list(self._writers):
            writer.close()
        await self.until(lambda: not self._writers)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something about this server to come true."""
        async with asyncio.timeout(10):
            while not holds():
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
                asked = Asked(method, path, headers, body, number)
                self.asked.append(asked)
                self._changed.set()
                exchange = Exchange(self, asked, writer)
                step = self.script.pop(0) if self.script else ok()
                await step(exchange)
                if not exchange.keep:
                    return
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            self._writers.discard(writer)
            self.ended += 1
            self._changed.set()
            writer.close()

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
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            with contextlib.suppress(asyncio.CancelledError):  # asyncio would complain of it
                await made.serve(reader, writer)

        server = await asyncio.start_server(serve, host, port, ssl=tls)
        made.port = server.sockets[0].getsockname()[1]
        try:
            yield made
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.wait_closed()
