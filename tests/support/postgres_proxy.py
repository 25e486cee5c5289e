"""A proxy in front of PostgreSQL that breaks connections, and loses answers.

A plan decides the fault of each request, by its number. (A request ends with the message Sync;
those that only prepare a statement count too.)
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from support.fault_proxy import ClientConnection, Listener
from support.sockets import unused_port

SYNC, READY, KEY_DATA = b"S", b"Z", b"K"


class Breakage(Enum):
    """What happens to a request."""

    NONE = "none"
    REFUSED = "the connection is reset; the server does not get it"
    LOST = "the server carries it out; the connection is reset in place of the answer"
    LEFT = "the connection is reset when the server has got it, who does not notice"
    DELAYED = "the answer is late"


Plan = Callable[[int], Breakage]


def no_breakage(_: int) -> Breakage:
    return Breakage.NONE


def next_one(breakage: Breakage) -> Plan:
    """That for the next request, then none."""
    left = [breakage]
    return lambda _: left.pop() if left else Breakage.NONE


def at_random(chances: Mapping[Breakage, float], *, seed: int) -> Plan:
    dice = random.Random(seed)
    kinds, weights = [*chances, Breakage.NONE], [*chances.values(), 1 - sum(chances.values())]
    return lambda _: dice.choices(kinds, weights)[0]


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """A message with its type and length. Raises IncompleteReadError at the end."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


@dataclass
class PostgresProxy:
    """Listens on a port of loopback, the same whenever it is up. `foreign_keys`: the server's
    process has another number than the client is told, as behind a connection pooler.
    """

    server_port: int
    plan: Plan = no_breakage
    seconds: float = 0.02
    port: int = field(default_factory=unused_port)
    foreign_keys: bool = False
    breakages: Counter[Breakage] = field(default_factory=Counter)
    broke: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by each request that is refused, lost or left."""
    requests: int = 0
    sent: int = 0
    """Bytes to the server."""
    received: int = 0

    _listener: Listener | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._listener = Listener(self.port, self._serve)

    async def stop(self) -> None:
        """Refuse connections and reset the present ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop()

    async def _serve(self, client: ClientConnection) -> None:
        connection = _Connection(self, client)
        try:
            await client.open()
            await connection.serve()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            connection.reset()

    def next_breakage(self) -> Breakage:
        breakage = self.plan(self.requests)
        self.requests += 1
        self.breakages[breakage] += 1
        return breakage


class _Connection:
    def __init__(self, proxy: PostgresProxy, client: ClientConnection) -> None:
        self._proxy, self._client = proxy, client
        self._breakage = Breakage.NONE
        self._server: asyncio.StreamWriter | None = None

    def reset(self) -> None:
        """Close it so that the client gets an RST."""
        self._client.reset()
        if self._breakage is not Breakage.LEFT and self._server is not None:
            self._server.close()

    async def serve(self) -> None:
        server_reader, self._server = await asyncio.open_connection(
            "127.0.0.1", self._proxy.server_port
        )
        length = await self._client.reader.readexactly(4)
        startup = length + await self._client.reader.readexactly(int.from_bytes(length) - 4)
        self._server.write(startup)
        is_ready = asyncio.Event()
        answers = asyncio.create_task(self._pass_answers(server_reader, is_ready))
        try:
            await is_ready.wait()
            while not answers.done():
                message = await read_message(self._client.reader)
                if message[:1] == SYNC:
                    self._breakage = self._proxy.next_breakage()
                    if self._breakage is Breakage.REFUSED:
                        self._proxy.broke.set()
                        raise ConnectionResetError
                self._server.write(message)
                self._proxy.sent += len(message)
                if self._breakage is Breakage.LEFT:
                    await self._server.drain()
                    self._proxy.broke.set()
                    self.reset()
                    await answers
                    return
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            self._server.close()

    async def _pass_answers(self, reader: asyncio.StreamReader, is_ready: asyncio.Event) -> None:
        assert self._server is not None
        try:
            while True:
                message = await read_message(reader)
                if self._breakage is Breakage.LEFT:
                    continue
                if self._breakage is Breakage.DELAYED:
                    await asyncio.sleep(self._proxy.seconds)
                    self._breakage = Breakage.NONE
                if self._breakage is Breakage.LOST:
                    if message[:1] == READY:
                        self._proxy.broke.set()
                        self.reset()
                        return
                    continue
                if message[:1] == KEY_DATA and self._proxy.foreign_keys:
                    message = message[:5] + (1).to_bytes(4) + message[9:]
                self._client.writer.write(message)
                self._proxy.received += len(message)
                if message[:1] == READY:
                    is_ready.set()
                    await self._client.writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self._client.close()
        finally:
            is_ready.set()
            self._server.close()
