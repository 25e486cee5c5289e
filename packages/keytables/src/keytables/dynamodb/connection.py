"""One connection to a database server: HTTP/1.1, kept alive, one request at a time.

Rule: a response belongs to the request that is waiting for it, or the connection is closed. The
exception tells whether a request may have been applied (:class:`ResponseLost`) or cannot have been
(:class:`NotSent`).
"""

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

__all__ = ["Connection", "ConnectionLimits", "HttpResponse", "NotSent", "ResponseLost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What a connection may take. Times are in seconds."""

    connect_timeout: float = 1.5
    """For connecting, the TLS handshake included."""

    idle_timeout: float = 15.0
    """After which an unused connection is closed: sooner than servers do, because a request that
    is sent while the server closes leaves it unknown whether it was applied."""

    max_response: int = 64 << 20
    """Bytes of the largest response, head and body together. DynamoDB's hold at most 16 MB of
    items, which grow by type names, base64 and escapes."""


class NotSent(Exception):  # noqa: N818 - named for what happened
    """The request was not sent: it was certainly not applied."""


class ResponseLost(Exception):  # noqa: N818
    """The request was sent, and no complete response arrived: it may have been applied.

    ``stale``: the connection had served requests before, and the server closed it without a byte
    of a response, as it does with one that was idle for too long.
    """

    def __init__(self, reason: str, *, stale: bool = False) -> None:
        super().__init__(reason)
        self.stale = stale


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """A complete response whose checksum, if it had one, is right. ``date``: the Date header."""

    status: int
    body: bytes
    date: bytes


class Connection(asyncio.Protocol):
    """One connection. It calls ``on_free`` whenever it can take the next request, and ``on_closed``
    once, with itself.
    """

    __slots__ = (
        "_body",
        "_complete",
        "_crc",
        "_date",
        "_deadline",
        "_future",
        "_keep_alive",
        "_limits",
        "_loop",
        "_on_closed",
        "_on_free",
        "_parser",
        "_reason",
        "_received",
        "_response_begun",
        "_timer",
        "_timer_at",
        "_transport",
        "_used",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        limits: ConnectionLimits,
        on_free: "Callable[[Connection], None]",
        on_closed: "Callable[[Connection], None]",
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._on_free = on_free
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._future: asyncio.Future[HttpResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._deadline = 0.0
        self._used = False  # it has brought a response before
        self._reason = "the server closed the connection"
        self._response_begun = False  # bytes arrived since the request
        self._complete = False
        self._keep_alive = False
        self._received = 0
        self._body: list[bytes] = []
        self._crc = b""
        self._date = b""

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, if none is waiting for its response."""
        transport = self._transport
        return self._parser is not None and transport is not None and not transport.is_closing()

    def exchange(self, data: bytes, seconds: float) -> "asyncio.Future[HttpResponse]":
        """Send a request; the future gets its response, or fails with ResponseLost.

        No other may be waiting. Raises NotSent when the connection is closed. If the future is
        cancelled, the connection is free again once the response has arrived or time is up.
        """
        transport = self._transport
        if self._parser is None or transport is None or transport.is_closing():
            raise NotSent(self._reason)
        future = self._future = self._loop.create_future()
        self._response_begun = False
        self._received = 0
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        transport.write(data)
        return future

    def abort(self, reason: str) -> None:
        """Close the connection now; the response to a waiting request is lost."""
        if self._parser is not None:
            self._reason = reason
            self._parser = None
        if self._transport is not None:
            self._transport.abort()

    # -- called by the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)
        self._deadline = deadline = self._loop.time() + self._limits.idle_timeout
        self._set_timer(deadline)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        stale = self._used and not self._response_begun and self._parser is not None
        self._parser = self._transport = None  # the parser refers to this object
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        future, self._future = self._future, None
        if future is not None and not future.done():
            future.set_exception(ResponseLost(self._reason, stale=stale))
            future.exception()  # marks it retrieved: its caller may have given up
        self._on_closed(self)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        self._response_begun = True
        self._received += len(data)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.abort("the server's response is not HTTP")
            return
        if self._complete:
            self._finish(parser)
        elif self._received > self._limits.max_response:
            self.abort("the server's response is too large")

    # -- called by the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._future is None or self._complete:
            self.abort("the server sent a response without a request")
        self._crc = self._date = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name)
        if size == 11:
            if name.lower() == b"x-amz-crc32":
                self._crc = value
        elif size == 4 and name.lower() == b"date":
            self._date = value

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is not None and parser.get_status_code() >= 200:
            self._complete = True
            self._keep_alive = parser.should_keep_alive()  # known only here

    # -- after a response ------------------------------------------------------------------------

    def _finish(self, parser: HttpResponseParser) -> None:
        """Hand over the response; the connection is free for the next request."""
        if self._parser is None:
            return
        self._complete = False
        parts = self._body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self._crc and self._crc != b"%d" % zlib.crc32(body):
            self.abort("the checksum of the response is wrong")
            return
        future, self._future = self._future, None
        if future is not None and not future.done():  # its caller may have given up
            future.set_result(HttpResponse(parser.get_status_code(), body, self._date))
        self._used = True
        if not self._keep_alive:
            self.abort("the server closes the connection")
            return
        self._deadline = self._loop.time() + self._limits.idle_timeout
        self._on_free(self)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        """The timer is set once and not for each request, so the deadline may have moved since."""
        self._timer = None
        if self._deadline > self._loop.time():
            self._set_timer(self._deadline)
        elif self._future is None:
            self.abort("the connection was idle")
        else:
            self.abort("no response in time")
