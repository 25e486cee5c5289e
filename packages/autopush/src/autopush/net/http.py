"""The HTTP server: what its connections share, and their orderly end.

The rule: a client never sees more of a fault than the answer made by `error_response`; the fault
itself goes to `on_crash`.
"""

import asyncio
import time
from collections.abc import Callable

from autopush.net.http_connection import HttpConnection
from autopush.net.http_messages import (
    Handler,
    HeaderBlock,
    Limits,
    Request,
    Response,
    Upgrade,
    header_block,
)
from autopush.net.http_reader import slice_length
from autopush.net.http_render import date_line
from autopush.net.timers import TimerWheel

__all__ = [
    "Handler",
    "HeaderBlock",
    "HttpServer",
    "Limits",
    "Request",
    "Response",
    "Upgrade",
    "header_block",
]


class HttpServer:
    """Serves `handler` on every connection whose protocol comes from `protocol`.

    `handler` is run by `begin`: it may answer without suspending. `error_response(status, reason)`
    makes the answers of the shell itself; `reason` is a few words about what was wrong. `clock`
    (seconds since the epoch) is for the Date header.
    """

    __slots__ = (
        "_clock",
        "_connections",
        "_date",
        "_date_until",
        "_empty",
        "_shutting_down",
        "error_response",
        "handler",
        "limits",
        "now",
        "on_crash",
        "step",
        "wheel",
    )

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits,
        wheel: TimerWheel,
        error_response: Callable[[int, str], Response],
        on_crash: Callable[[Exception, Request], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.wheel = wheel
        self.error_response = error_response
        self.on_crash = on_crash
        self.step = slice_length(limits)
        self.now = wheel.loop.time
        self._clock = clock
        self._date = ""
        self._date_until = float("-inf")
        self._connections: set[HttpConnection] = set()
        self._shutting_down = False
        self._empty: asyncio.Event | None = None

    def protocol(self) -> HttpConnection:
        """The protocol of one new connection; for `loop.create_server`."""
        return HttpConnection(self)

    @property
    def connections(self) -> int:
        """How many connections are open, without those that were upgraded."""
        return len(self._connections)

    async def shutdown(self, timeout: float) -> None:  # noqa: ASYNC109 - part of the contract
        """Close idle connections, let requests under way finish, abort what is left at `timeout`.

        Seconds. The listening sockets are their owner's, to be closed before.
        """
        self._shutting_down = True
        self._empty = asyncio.Event()
        for connection in list(self._connections):
            connection.finish()
        if not self._connections:
            return
        try:
            await asyncio.wait_for(self._empty.wait(), timeout)
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()

    # -- for connections -------------------------------------------------------------------------

    def opened(self, connection: HttpConnection) -> bool:
        """Count a connection in; False when it comes too late."""
        if self._shutting_down:
            return False
        self._connections.add(connection)
        return True

    def closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        if self._empty is not None and not self._connections:
            self._empty.set()

    def crashed(self, exc: Exception, request: Request) -> Response:
        self.on_crash(exc, request)
        return self.error_response(500, "internal error")

    def date(self, now: float) -> str:
        """The Date line for `now` (loop time); made once a second."""
        if now >= self._date_until:
            seconds = self._clock()
            self._date = date_line(seconds)
            self._date_until = now + 1.0 - seconds % 1.0
        return self._date
