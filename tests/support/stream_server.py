"""A server on asyncio's streams that leaves no task and no socket behind."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from support.sockets import unused_port

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def stream_server(
    serve: Serve, *, host: str = LOOPBACK, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.Server, int]]:
    """The server, and its port, an unused one. A connection is closed when `serve` returns or the
    client goes away; in the end those that are left are aborted. Other errors of `serve` are raised
    there.
    """
    connections: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections[writer] = task
        try:
            # asyncio would log that it was cancelled.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            writer.close()

    port = port or unused_port()
    server = await asyncio.start_server(serve_one, host, port, ssl=tls)
    try:
        yield server, port
    finally:
        server.close()
        for task in connections.values():
            task.cancel()
        await asyncio.gather(*connections.values())
        for writer in connections:
            with suppress(AttributeError):  # Python 3.11.2, of TLS that is closed already
                writer.transport.abort()
        await server.wait_closed()
