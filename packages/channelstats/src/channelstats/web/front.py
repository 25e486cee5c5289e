"""The way in to the dashboard: how many connections there may be, and how long one may take to say
what it wants.

Rule: a connection gets a handler when the head of its first request is there. Until then it may be
closed for another one: so whoever sends half a request keeps nobody out.

    accepted ─▶ waiting (HEADER_TIMEOUT, at most HEADER_BYTES) ─▶ handed over to aiohttp
                  │ the oldest is closed when there are MAX_CONNECTIONS; if none waits, the new one
"""

import asyncio
import errno
import logging
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

MAX_CONNECTIONS: Final = 1_000
HEADER_TIMEOUT: Final = 10.0
"""Seconds that the head of the first request may take."""

HEADER_BYTES: Final = 64 * 1024
"""Bytes after which aiohttp decides on what has come."""

_RESERVED: Final = 100
"""Descriptors that are kept for the store and its files."""

_MOST_DESCRIPTORS: Final = 65_536
_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOG_AGAIN: Final = 600.0
"""Seconds after which it is logged again that no connection can be accepted."""

_log: Final = logging.getLogger("channelstats.web")


def raise_descriptor_limit() -> int:
    """Have as many descriptors as the system lets this process have; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # less than the system says, as on macOS
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def most_connections(descriptors: int) -> int:
    """How many connections there may be with so many descriptors."""
    return max(min(MAX_CONNECTIONS, descriptors - _RESERVED), 10)


class Front:
    """Makes a protocol for each connection that is accepted for the ``server`` of aiohttp; ``most``
    connections there may be at a time.
    """

    def __init__(self, server: web.Server, most: int, timeout: float = HEADER_TIMEOUT) -> None:
        self._server, self._most, self.timeout = server, most, timeout
        self._waiting: dict[_Waiting, None] = {}

    def __call__(self) -> asyncio.Protocol:
        return _Waiting(self)

    @property
    def connections(self) -> int:
        return len(self._waiting) + len(self._server.connections)

    def admit(self, connection: "_Waiting") -> bool:
        """Count a new connection; whether it may stay. Another one may have to go for it."""
        if self.connections >= self._most:
            oldest = next(iter(self._waiting), None)
            if oldest is None:
                return False
            oldest.drop()
        self._waiting[connection] = None
        return True

    def forget(self, connection: "_Waiting") -> None:
        self._waiting.pop(connection, None)

    def handler(self) -> asyncio.Protocol:
        return self._server()

    def close(self) -> None:
        for connection in list(self._waiting):
            connection.drop()


class _Waiting(asyncio.Protocol):
    """A connection whose first request is not there yet."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._front.admit(self):
            self._timer = asyncio.get_running_loop().call_later(self._front.timeout, self.drop)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        begin = max(len(self._head) - 3, 0)
        self._head += data
        if b"\r\n\r\n" in self._head[begin:] or len(self._head) > HEADER_BYTES:
            self._hand_over()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - of the interface
        self._leave()

    def drop(self) -> None:
        """Close it, as nothing came of it."""
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def _hand_over(self) -> None:
        transport = self._transport
        assert transport is not None
        self._leave()
        handler = self._front.handler()
        transport.set_protocol(handler)
        handler.connection_made(transport)
        handler.data_received(bytes(self._head))

    def _leave(self) -> None:
        self._front.forget(self)
        if self._timer is not None:
            self._timer.cancel()


def log_accept_errors_once(loop: asyncio.AbstractEventLoop) -> None:
    """Have it logged once, and not for each attempt, that a connection cannot be accepted."""
    last: float | None = None

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        error = context.get("exception")
        if "socket" not in context or getattr(error, "errno", None) not in _NO_RESOURCES:
            loop.default_exception_handler(context)
        elif last is None or loop.time() > last + _LOG_AGAIN:
            last = loop.time()
            _log.error("no further connection can be accepted: %s", error)

    loop.set_exception_handler(handle)


async def listen(front: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Accept connections. Raises OSError."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(front, host, port, backlog=128)
