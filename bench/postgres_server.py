"""A PostgreSQL for `postgres`, with fsync, and a way to it that takes longer: prints the URL of the
one and of the other, and ends with its input. The data are in $TMPDIR.

    PYTHONPATH=tests python -m bench.postgres_server MILLISECONDS
"""

import asyncio
import sys
from collections import deque

from support.postgres_servers import PostgresServer


class _Delayed(asyncio.Protocol):
    """What comes in is written to `other` so many seconds later."""

    def __init__(self, seconds: float, port: int | None = None) -> None:
        self._seconds, self._port = seconds, port
        self._transport: asyncio.WriteTransport | None = None
        self._early: list[bytes] = []
        self._due: deque[bytes] = deque()
        self.other: _Delayed | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        for data in self._early:
            transport.write(data)
        if self._port is not None:
            self.other = _Delayed(self._seconds)
            self.other.other = self
            loop = asyncio.get_running_loop()
            other = self.other
            self._connecting = loop.create_task(
                loop.create_connection(lambda: other, "127.0.0.1", self._port)
            )

    def data_received(self, data: bytes) -> None:
        if not self._seconds or self._port is not None:  # only answers are late
            self._pass_on(data)
            return
        self._due.append(data)
        asyncio.get_running_loop().call_later(self._seconds, self._pass_next)

    def _pass_next(self) -> None:
        self._pass_on(self._due.popleft())

    def _pass_on(self, data: bytes) -> None:
        assert self.other is not None
        if self.other._transport is None:
            self.other._early.append(data)
        else:
            self.other._transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()


async def serve(server: PostgresServer, milliseconds: float) -> None:
    loop = asyncio.get_running_loop()
    proxy = await loop.create_server(
        lambda: _Delayed(milliseconds / 1000, server.port), "127.0.0.1", 0
    )
    port = proxy.sockets[0].getsockname()[1]
    print(server.url(), server.url(port=port), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    proxy.close()


if __name__ == "__main__":
    running = PostgresServer("shared_buffers=256MB", "max_wal_size=4GB")
    try:
        running.start()
        asyncio.run(serve(running, float(sys.argv[1])))
    finally:
        running.remove()
