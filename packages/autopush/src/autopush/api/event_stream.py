"""Server-sent events, as the protocol of a connection after its request."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, cast

MAX_UNREAD: Final = 64 * 1024
"""Bytes that a client may leave unread."""
HEADERS: Final = (
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),
    ("Connection", "close"),
)


class EventStream(asyncio.Protocol):
    """Events to one client, which sends nothing more. One that does not read is disconnected.

    `run`: writes the events, as a task that ends with the connection. `on_lost`: called once, when
    the connection is lost.
    """

    def __init__(
        self,
        run: Callable[["EventStream"], Coroutine[Any, Any, None]],
        on_lost: Callable[[], object],
    ) -> None:
        self._run, self._on_lost = run, on_lost
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(MAX_UNREAD)
        self._task = asyncio.get_running_loop().create_task(self._run(self))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._on_lost()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
