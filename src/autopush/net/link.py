"""A link to one node: HTTP/1.1 requests pipelined on one connection that stays open.

The rule: a dead peer costs one timeout for the link, not one for each request. Requests wait
together for the one attempt to connect, fail together, and for a short while after a failure new
ones fail at once.

Answers belong to requests by their order (RFC 9112 section 9.3.2). A request may be sent twice:
when the peer closes an idle connection just as a request goes out, the link repeats it, once,
on a new connection. So requests must be repeatable, as PUT and DELETE are.
"""

import asyncio
import errno
from collections import deque
from typing import cast

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from autopush.net.timers import Timer, TimerWheel

COOL_DOWN = 0.1
"""Seconds for which requests fail at once after the link went down."""
IDLE_TIMEOUT = 45.0
"""Seconds after which an unused connection is closed: sooner than any peer would."""
MAX_ANSWER = 1 << 17
"""The largest answer, head and body together, in bytes."""

_NEVER = float("inf")


class LinkError(Exception):
    """A request that got no answer; the text says why."""


class LinkDown(LinkError):  # noqa: N818 - a state, said as one
    """The peer cannot be reached, went away, answered nonsense or did not answer in time."""


class LinkUnreachable(LinkDown):
    """Nobody can be connected to there: refused, no such host, no way, no answer to connecting."""


class LinkBusy(LinkError):  # noqa: N818
    """Too many requests are waiting for this peer."""


class LinkResponse(msgspec.Struct, gc=False, frozen=True):
    """An answer: `status` is 200 to 599."""

    status: int
    body: bytes


class _Waiting(msgspec.Struct, eq=False):
    future: "asyncio.Future[LinkResponse]"
    data: bytes
    due: float
    repeated: bool = False


class Link:
    """Requests to `host`:`port`. Seconds; `timeout` counts from `request` to the whole answer.

    The connection is made when the first request needs it, and again after it went down.
    """

    __slots__ = (
        "_closed",
        "_connecting",
        "_connection",
        "_down_as",
        "_down_until",
        "_fires",
        "_host",
        "_host_line",
        "_outgoing",
        "_port",
        "_timer",
        "_waiting",
        "_wheel",
        "connect_timeout",
        "loop",
        "max_waiting",
        "timeout",
    )

    def __init__(
        self,
        host: str,
        port: int,
        *,
        connect_timeout: float = 1.0,
        timeout: float = 3.0,
        max_waiting: int = 1000,
        wheel: TimerWheel,
    ) -> None:
        self._host = host
        self._port = port
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._host_line = f" HTTP/1.1\r\nhost: {authority}\r\ncontent-length: "
        self.connect_timeout = connect_timeout
        self.timeout = timeout
        self.max_waiting = max_waiting
        self._wheel = wheel
        self.loop = wheel.loop
        self._waiting: deque[_Waiting] = deque()
        self._outgoing: list[bytes] = []  # of this turn of the loop, or until connected
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._down_as: type[LinkDown] = LinkDown
        self._down_until = float("-inf")
        self._timer: Timer | None = None
        self._fires = _NEVER
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    def request(self, method: str, path: str, body: bytes = b"") -> "asyncio.Future[LinkResponse]":
        """Send a request; the future brings the answer, or `LinkDown`.

        Raises at once: `LinkBusy`, `LinkDown` while cooling down or closed, ValueError for a method
        or path that is no single ASCII word, or for HEAD (its answers have no body to measure).
        """
        if not path.isascii() or not path.isprintable() or " " in path or method == "HEAD":
            raise ValueError("not a method and path to send")
        if self._closed:
            raise LinkDown("the link is closed")
        if len(self._waiting) >= self.max_waiting:
            raise LinkBusy(f"{self.max_waiting} requests are waiting")
        now = self.loop.time()
        if now < self._down_until:
            raise self._down_as("the peer was down a moment ago")
        data = f"{method} {path}{self._host_line}{len(body)}\r\n\r\n".encode("ascii") + body
        future: asyncio.Future[LinkResponse] = self.loop.create_future()
        self._waiting.append(_Waiting(future, data, now + self.timeout))
        self._send(data)
        if now + self.timeout < self._fires:
            self._arm(now, self.timeout)
        return future

    def close(self) -> None:
        """Close the connection; what waits fails with `LinkDown`. For good."""
        self._closed = True
        self._fail("the link is closed")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- sending ---------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        outgoing = self._outgoing
        outgoing.append(data)
        if self._connection is not None:
            if len(outgoing) == 1:
                self.loop.call_soon(self._flush)
        elif self._connecting is None:
            self._connecting = self.loop.create_task(self._connect())

    def _flush(self) -> None:
        connection = self._connection
        if connection is None or not self._outgoing:
            return
        outgoing = self._outgoing
        self._outgoing = []
        connection.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    async def _connect(self) -> None:
        failure: type[LinkDown] = LinkUnreachable
        attempt = self.loop.create_connection(lambda: _Connection(self), self._host, self._port)
        try:
            _, connection = await asyncio.wait_for(attempt, self.connect_timeout)
        except TimeoutError:
            reason = "connecting took too long"
        except OSError as exc:
            reason = f"cannot connect: {errno.errorcode.get(exc.errno or 0, type(exc).__name__)}"
        except UnicodeError:
            reason = "the host's name is none"
        else:
            if self._connecting is not asyncio.current_task():  # failed or closed meanwhile
                connection.abort()
                return
            self._connecting = None
            if connection.open:
                self._connection = connection
                self._flush()
                return
            reason = "the peer closed at once"
            failure = LinkDown
        self._connecting = None
        self._fail(reason, failure)

    # -- called by the connection ----------------------------------------------------------------

    def answered(self, connection: "_Connection", status: int, body: bytes) -> bool:
        """Give an answer to the oldest request; False if nobody asked."""
        if connection is not self._connection or not self._waiting:
            return False
        future = self._waiting.popleft().future
        if not future.done():  # its caller may have given up
            future.set_result(LinkResponse(status, body))
        return True

    def lost(self, connection: "_Connection", reason: str, *, repeatable: bool) -> None:
        """The connection is gone. `repeatable`: it worked, and ended between two answers."""
        if connection is not self._connection:
            return
        self._connection = None
        if not self._waiting:
            self._outgoing.clear()
            return
        if not repeatable or any(each.repeated for each in self._waiting):
            self._fail(reason)
            return
        for each in self._waiting:
            each.repeated = True
        self._outgoing = [each.data for each in self._waiting]
        self._connecting = self.loop.create_task(self._connect())

    # -- failing ---------------------------------------------------------------------------------

    def _fail(self, reason: str, failure: type[LinkDown] = LinkDown) -> None:
        self._down_as = failure
        self._down_until = self.loop.time() + COOL_DOWN
        connection, self._connection = self._connection, None
        connecting, self._connecting = self._connecting, None
        if connection is not None:
            connection.abort()
        if connecting is not None:
            connecting.cancel()
        self._outgoing.clear()
        waiting = self._waiting
        self._waiting = deque()
        for each in waiting:
            if not each.future.done():
                each.future.set_exception(failure(reason))

    def _on_timer(self) -> None:
        """Look at the oldest request only: the others came later, so they are due later."""
        self._timer = None
        self._fires = _NEVER
        now = self.loop.time()
        if self._waiting and self._waiting[0].due <= now:
            self._fail("no answer in time")
        if self._waiting:
            left = self._waiting[0].due - now
        elif self._connection is not None:
            left = self._connection.used + IDLE_TIMEOUT - now
            if left <= 0:
                connection, self._connection = self._connection, None
                connection.abort()
                return
        else:
            return
        self._arm(now, left)

    def _arm(self, now: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires = now + seconds
        self._timer = self._wheel.after(seconds, self._on_timer)


class _Connection(asyncio.Protocol):
    """One TCP connection of a link, and the answers read from it."""

    __slots__ = (
        "_answers",
        "_body",
        "_fed",
        "_link",
        "_parser",
        "_reason",
        "_transport",
        "_within",
        "used",
    )

    def __init__(self, link: Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._body = b""
        self._fed = 0  # bytes since the last whole answer
        self._within = False  # an answer has begun and is not whole
        self._answers = 0
        self._reason = "the peer closed the connection"
        self.used = 0.0

    @property
    def open(self) -> bool:
        return self._transport is not None

    def write(self, data: bytes) -> None:
        self.used = self._link.loop.time()
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
        self._link.lost(self, self._reason, repeatable=self._answers > 0 and not self._within)

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
        if not self._link.answered(self, status, body):
            self._end("the peer answered what nobody asked")
        elif not parser.should_keep_alive():
            self._parser = None
            self.abort()
