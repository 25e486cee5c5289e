"""The client's side of one HTTP/1.1 connection between nodes, for `Link`.

Rule: only complete responses are passed on; anything that is not HTTP, is too large or answers no
request ends the connection.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_RESPONSE: Final = 1 << 17
"""The largest response, head and body together, in bytes."""

RawHeaders = Sequence[tuple[bytes, bytes]]


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

    `write` and `abort` do nothing once the connection is gone. Each response has its length, and
    there are no upgrades.
    """

    __slots__ = (
        "_body",
        "_handler",
        "_headers",
        "_parser",
        "_reason",
        "_received",
        "_responses",
        "_transport",
        "_within_response",
    )

    def __init__(self, handler: ResponseHandler) -> None:
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._body = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._received = 0  # bytes since the last complete response
        self._within_response = False
        self._responses = 0
        self._reason = "the peer closed the connection"

    @property
    def open(self) -> bool:
        return self._transport is not None

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

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
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
        self._parser = None
        self.abort()

    # --- callbacks of httptools -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._within_response = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None:
            return
        headers, self._headers = self._headers, []
        status = parser.get_status_code()
        if status < 200:
            return
        body, self._body = self._body, b""
        self._received = 0
        self._within_response = False
        self._responses += 1
        if not self._handler.response_received(self, status, body, headers):
            self._fail("the peer sent a response without a request")
        elif not parser.should_keep_alive():
            self._parser = None
            self.abort()
