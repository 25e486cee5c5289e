"""The client's end of one HTTP/1.1 connection, without a queue of its own: see `Link`.

Rule: a response is passed on only when it is complete; whatever is not HTTP, too large or answers
no request ends the connection.
"""

import asyncio
from typing import Final, Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from autopush.net.node_auth import RESPONSE_HEADER

MAX_RESPONSE: Final = 1 << 17
"""The largest response, head and body together, in bytes."""

_PROOF: Final = RESPONSE_HEADER.encode()


class ResponseHandler(Protocol):
    """What sends requests on a connection."""

    def response_received(
        self, connection: "ClientConnection", status: int, body: bytes, proof: str
    ) -> bool:
        """The response to the oldest request; False if there is none. `proof`: its header
        authentication-info, empty without one.
        """

    def connection_ended(
        self, connection: "ClientConnection", reason: str, *, repeatable: bool
    ) -> None:
        """The connection is gone. `repeatable`: it worked, and ended between two responses."""


class ClientConnection(asyncio.Protocol):
    """`write` and `abort` do nothing once the connection is gone."""

    __slots__ = (
        "_body",
        "_handler",
        "_parser",
        "_proof",
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
        self._proof = ""
        self._received = 0  # bytes since the last complete response
        self._within_response = False
        self._responses = 0
        self._reason = "the peer closed the connection"

    @property
    def open(self) -> bool:
        """Connected, and not lost since."""
        return self._transport is not None

    def write(self, data: bytes) -> None:
        """Send requests."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._parser = None  # it refers to this object
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
            if self._parser is not None:  # else: whatever follows the last response
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
        if len(name) == len(_PROOF) and name.lower() == _PROOF:
            self._proof = value.decode("latin-1")

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser is None:
            return
        status = parser.get_status_code()
        if status < 200:
            return
        body, self._body = self._body, b""
        proof, self._proof = self._proof, ""
        self._received = 0
        self._within_response = False
        self._responses += 1
        if not self._handler.response_received(self, status, body, proof):
            self._fail("the peer sent a response without a request")
        elif not parser.should_keep_alive():
            self._parser = None
            self.abort()
