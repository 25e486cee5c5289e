"""One TCP connection of a link, and the answers read from it.

The rule: an answer is given on only when it is whole; whatever is no HTTP, too large, or nobody's
answer ends the connection.
"""

import asyncio
from typing import Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_ANSWER = 1 << 17
"""The largest answer, head and body together, in bytes."""


class Owner(Protocol):
    """The link, as its connection sees it."""

    def answered(self, connection: "LinkConnection", status: int, body: bytes) -> bool:
        """Give an answer to the oldest request; False if nobody asked."""

    def lost(self, connection: "LinkConnection", reason: str, *, repeatable: bool) -> None:
        """The connection is gone. `repeatable`: it worked, and ended between two answers."""


class LinkConnection(asyncio.Protocol):
    """See the module. `write` and `abort` do nothing once the connection is gone."""

    __slots__ = (
        "_answers",
        "_body",
        "_fed",
        "_owner",
        "_parser",
        "_reason",
        "_transport",
        "_within",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._body = b""
        self._fed = 0  # bytes since the last whole answer
        self._within = False  # an answer has begun and is not whole
        self._answers = 0
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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._parser = None  # it refers to this object
        self._owner.lost(self, self._reason, repeatable=self._answers > 0 and not self._within)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        self._fed += len(data)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as exc:
            if self._parser is not None:  # else: whatever follows the last answer
                self._end(f"the peer's answer is not HTTP: {exc}")
            return
        if self._fed > MAX_ANSWER:
            self._end("the peer's answer is too large")

    def _end(self, reason: str) -> None:
        self._reason = reason
        self._answers = 0
        self._parser = None
        self.abort()

    # ── called by the parser ─────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        self._within = True

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
        self._fed = 0
        self._within = False
        self._answers += 1
        if not self._owner.answered(self, status, body):
            self._end("the peer answered what nobody asked")
        elif not parser.should_keep_alive():
            self._parser = None
            self.abort()
