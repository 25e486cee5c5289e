"""The client's side of one HTTP/1.1 connection, for `Link` and for the pool of `HttpClient`.

Rule: only complete responses are passed on; anything that is not HTTP, is too large or answers no
request ends the connection.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

MAX_RESPONSE: Final = 1 << 17
"""The largest response, head and body together, in bytes."""
IDLE_TIMEOUT: Final = 4.0
"""Seconds until a pool closes an idle connection: less than the 5 of common servers, so that no
request is sent on a connection that the server is closing.
"""

WEBSOCKET_CLOSE: Final = b"\x88\x80\0\0\0\0"
"""A close frame without status, masked with zeros as clients must mask (RFC 6455, 5.5.1)."""

RawHeaders = Sequence[tuple[bytes, bytes]]
HeaderList = Sequence[tuple[str, str]]


class HttpError(Exception):
    """There is no complete response. The text quotes neither the request nor the response.

    `processed` is False where the server has certainly not processed the request. `is_connection`:
    the connection failed, not only this request.

    HttpError ── HttpBusyError · HttpTimeoutError
    """

    def __init__(
        self, message: str, *, processed: bool = True, is_connection: bool = False
    ) -> None:
        super().__init__(message)
        self.processed: Final = processed
        self.is_connection: Final = is_connection


class HttpResponse(Struct, frozen=True):
    """A complete response. `headers`: lower-case names, the last line of each. `certificate`: the
    server's, as from `ssl.SSLSocket.getpeercert`, if verified (not over HTTP/2).
    """

    status: int
    headers: dict[str, str]
    body: bytes
    certificate: Mapping[str, object] | None = None


class ConnectionPool(Protocol):
    def room_changed(self, connection: "PooledConnection") -> None:
        """Called when another request may fit, or the connection takes no more."""


class PooledConnection(Protocol):
    """A connection for several requests, sequential or concurrent."""

    protocol: asyncio.Protocol
    """The protocol of its transport."""
    ready: "asyncio.Future[None]"
    """Done when it takes requests; fails with `HttpError`."""
    lost: "asyncio.Future[None]"
    """Done when the connection is gone."""

    @property
    def usable(self) -> bool:
        """Takes requests, now or when others are done."""

    @property
    def has_room(self) -> bool:
        """Takes a request now."""

    async def request(
        self, method: str, origin: tuple[str, str], target: str, headers: HeaderList, body: bytes
    ) -> HttpResponse:
        """Send a request, only while `has_room`. `origin`: scheme and authority; `headers`:
        lower-case names.

        :raises HttpError: no complete response
        """

    def close(self) -> None:
        """Take no more requests; close when those in progress are done."""

    def abort(self) -> None:
        """Drop the connection at once; requests in progress fail."""


class ResponseHandler(Protocol):
    def response_received(
        self, connection: "ClientConnection", status: int, body: bytes, headers: RawHeaders
    ) -> bool:
        """Handle the response to the oldest request; False if no request waits for one."""

    def connection_ended(
        self, connection: "ClientConnection", reason: str, *, repeatable: bool
    ) -> None:
        """`repeatable`: the connection had worked, and ended between two responses."""


class ClientConnection(asyncio.Protocol):
    """Writes requests and parses responses, which may be pipelined.

    `write` and `abort` do nothing once the connection is gone. `strict`: each response has its
    length, and there are no upgrades.
    """

    __slots__ = (
        "_body",
        "_handler",
        "_has_head",
        "_headers",
        "_parser",
        "_reason",
        "_received",
        "_responses",
        "_strict",
        "_transport",
        "_within_response",
    )

    def __init__(self, handler: ResponseHandler, *, strict: bool = True) -> None:
        self._handler = handler
        self._strict = strict
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._body = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._received = 0  # bytes since the last complete response
        self._within_response = self._has_head = False
        self._responses = 0
        self._reason = "the peer closed the connection"

    @property
    def open(self) -> bool:
        return self._transport is not None

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._has_head and not self._strict and not self._has_length():
            self.on_message_complete()  # such a body ends with the connection (RFC 9112, 6.3)
        self._transport = None
        self._parser = None  # breaks a reference cycle
        repeatable = self._responses > 0 and not self._within_response
        self._handler.connection_ended(self, self._reason, repeatable=repeatable)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        self._received += len(data)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as exc:
            if self._parser is not None:  # else: data after the last response
                self._fail(f"the peer's response is not HTTP: {exc}")
            return
        if self._received > MAX_RESPONSE:
            self._fail("the peer's response is too large")

    def _fail(self, reason: str) -> None:
        self._reason = reason
        self._responses = 0
        self._has_head = False
        self._parser = None
        self.abort()

    def _has_length(self) -> bool:
        names = {name.lower() for name, _ in self._headers}
        return b"content-length" in names or b"transfer-encoding" in names

    # --- callbacks of httptools -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._within_response = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None:
            return
        self._has_head = False
        headers, self._headers = self._headers, []
        status = parser.get_status_code()
        if status < 200 and (status != 101 or self._strict):
            return
        body, self._body = self._body, b""
        self._received = 0
        self._within_response = False
        self._responses += 1
        if not self._handler.response_received(self, status, body, headers):
            self._fail("the peer sent a response without a request")
        elif status == 101:
            self._parser = None
            self.write(WEBSOCKET_CLOSE)  # no WebSocket is spoken here
            self.abort()
        elif not parser.should_keep_alive():
            self._parser = None
            self.abort()


class Http1Connection:
    """A pooled connection with one request at a time."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._connection = ClientConnection(self, strict=False)
        self.protocol: asyncio.Protocol = self._connection
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.ready.set_result(None)
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._response: asyncio.Future[HttpResponse] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._is_draining = False

    @property
    def usable(self) -> bool:
        transport = self._connection.transport
        return transport is not None and not transport.is_closing() and not self._is_draining

    @property
    def has_room(self) -> bool:
        return self._response is None and self.usable

    async def request(
        self, method: str, origin: tuple[str, str], target: str, headers: HeaderList, body: bytes
    ) -> HttpResponse:
        lines = [f"{method} {target} HTTP/1.1", f"host: {origin[1]}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body or method != "GET":
            lines.append(f"content-length: {len(body)}")
        head = "\r\n".join([*lines, "", ""]).encode("ascii")
        if self._idle is not None:
            self._idle.cancel()
        self._response = self._loop.create_future()
        self._connection.write(head + body)
        try:
            return await self._response
        except asyncio.CancelledError:
            self.abort()  # its response would be taken for that of the next request
            raise
        finally:
            self._response = None
            if self.usable:
                self._idle = self._loop.call_later(IDLE_TIMEOUT, self.close)
                self._pool.room_changed(self)
            else:
                self.close()

    def close(self) -> None:
        self._is_draining = True
        if self._response is None:
            self._connection.abort()

    def abort(self) -> None:
        self._is_draining = True
        self._connection.abort()

    # --- called by the connection ---------------------------------------------------------------

    def response_received(
        self, _: ClientConnection, status: int, body: bytes, headers: RawHeaders
    ) -> bool:
        if self._response is None or self._response.done():
            return False
        named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        transport = self._connection.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        self._response.set_result(HttpResponse(status, named, body, certificate))
        return True

    def connection_ended(self, _: ClientConnection, reason: str, *, repeatable: bool) -> None:  # noqa: ARG002
        if self._idle is not None:
            self._idle.cancel()
        if self._response is not None and not self._response.done():
            self._response.set_exception(HttpError(reason, is_connection=True))
        self.lost.set_result(None)
        self._pool.room_changed(self)
