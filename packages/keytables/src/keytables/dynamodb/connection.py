"""One connection to a database server: HTTP/1.1, kept alive, one request at a time.

The rule: an answer belongs to the request that is under way, or the connection ends. What was said
before it ended tells whether a request may have been applied (:class:`Lost`) or cannot have been
(:class:`NotSent`).
"""

import asyncio
import zlib
from collections.abc import Callable
from typing import Final, cast

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

__all__ = ["Answer", "Connection", "Lost", "NotSent"]

MAX_ANSWER: Final = 64 << 20
"""The largest answer, head and body together, in bytes. DynamoDB's hold at most 16 MB of items,
which grow by their names for kinds, by base64 and by escapes.
"""
IDLE: Final = 15.0
"""Seconds after which an unused connection is closed: sooner than servers do, for one that closes
just as a request goes out leaves it unknown whether the request was applied."""


class NotSent(Exception):  # noqa: N818 - named for what happened
    """The request did not leave: it was certainly not applied."""


class Lost(Exception):  # noqa: N818
    """The request left, and no whole answer came: it may have been applied.

    ``stale``: the connection had served before, and the server ended it without a byte of an
    answer, as it does with one that has been idle.
    """

    def __init__(self, reason: str, *, stale: bool = False) -> None:
        super().__init__(reason)
        self.stale = stale


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A whole answer, its checksum found right if it bore one. ``date``: of its head."""

    status: int
    body: bytes
    date: bytes


class Connection(asyncio.Protocol):
    """One connection. ``freed`` is called when it can take the next request, ``ended`` once when it
    is gone; either with it."""

    __slots__ = (
        "_answered",
        "_body",
        "_complete",
        "_crc",
        "_date",
        "_due",
        "_ended",
        "_fed",
        "_fires",
        "_freed",
        "_future",
        "_keep",
        "_loop",
        "_parser",
        "_reason",
        "_timer",
        "_transport",
        "_used",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        freed: "Callable[[Connection], None]",
        ended: "Callable[[Connection], None]",
    ) -> None:
        self._loop = loop
        self._freed = freed
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._future: asyncio.Future[Answer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._fires = 0.0
        self._due = 0.0
        self._used = False  # an answer came over it before
        self._reason = "the server closed the connection"
        self._answered = False  # bytes came since the request
        self._complete = False
        self._keep = False
        self._fed = 0
        self._body: list[bytes] = []
        self._crc = b""
        self._date = b""

    @property
    def open(self) -> bool:
        """Whether a request can be sent, if none is under way."""
        transport = self._transport
        return self._parser is not None and transport is not None and not transport.is_closing()

    def exchange(self, data: bytes, seconds: float) -> "asyncio.Future[Answer]":
        """Send a request; the future brings its answer, or fails with Lost.

        None may be under way. Raises NotSent when the connection has ended. If the future is
        cancelled, the connection is free again once the answer has come or time is up.
        """
        transport = self._transport
        if self._parser is None or transport is None or transport.is_closing():
            raise NotSent(self._reason)
        future = self._future = self._loop.create_future()
        self._answered = False
        self._fed = 0
        self._due = due = self._loop.time() + seconds
        if self._timer is None or due < self._fires:
            self._arm(due)
        transport.write(data)
        return future

    def abort(self, reason: str) -> None:
        """End the connection now; a request under way is lost."""
        if self._parser is not None:
            self._reason = reason
            self._parser = None
        if self._transport is not None:
            self._transport.abort()

    # -- called by the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = HttpResponseParser(self)
        self._due = due = self._loop.time() + IDLE
        self._arm(due)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        stale = self._used and not self._answered and self._parser is not None
        self._parser = self._transport = None  # the parser refers to this object
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        future, self._future = self._future, None
        if future is not None and not future.done():
            future.set_exception(Lost(self._reason, stale=stale))
            future.exception()  # its caller may be gone: nobody is to be told of it then
        self._ended(self)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        self._answered = True
        self._fed += len(data)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.abort("the server's answer is not HTTP")
            return
        if self._complete:
            self._finish(parser)
        elif self._fed > MAX_ANSWER:
            self.abort("the server's answer is too large")

    # -- called by the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._future is None or self._complete:
            self.abort("the server answered what nobody asked")
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
            self._keep = parser.should_keep_alive()  # known only here

    # -- ends ------------------------------------------------------------------------------------

    def _finish(self, parser: HttpResponseParser) -> None:
        """Hand over the answer, and be free for the next request."""
        if self._parser is None:
            return
        self._complete = False
        parts = self._body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self._crc and self._crc != b"%d" % zlib.crc32(body):
            self.abort("the answer's checksum is wrong")
            return
        future, self._future = self._future, None
        if future is not None and not future.done():  # its caller may have given up
            future.set_result(Answer(parser.get_status_code(), body, self._date))
        self._used = True
        if not self._keep:
            self.abort("the server closes the connection")
            return
        self._due = self._loop.time() + IDLE
        self._freed(self)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires = at
        self._timer = self._loop.call_at(at, self._on_timer)

    def _on_timer(self) -> None:
        """Most often the request it was set for was answered long ago, and a later one counts."""
        self._timer = None
        if self._due > self._loop.time():
            self._arm(self._due)
        elif self._future is None:
            self.abort("the connection was idle")
        else:
            self.abort("no answer in time")
