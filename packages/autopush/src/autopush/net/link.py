"""A link to one node: HTTP/1.1 requests pipelined on one connection that stays open.

The rule: a dead peer costs one timeout for the link, not one for each request. Requests wait
together for the one attempt to connect and fail together. After a timeout the link is dark:
requests fail at once, and a probe in their wake finds out when the peer answers again.

Nothing is told about a peer from memory but that it was silent: it may be back. `LinkRefused` is
for those alone who waited for the attempt that was refused.

Answers belong to requests by their order (RFC 9112 section 9.3.2). A request may be sent twice:
when the peer closes an idle connection just as a request goes out, the link repeats it, once,
on a new connection. So requests must be repeatable, as PUT and DELETE are.
"""

import asyncio
from collections import deque

import msgspec

from autopush.net.dial import DialError, Refused, Unanswered, dial
from autopush.net.link_connection import LinkConnection
from autopush.net.timers import Timer, TimerWheel

COOL_DOWN = 0.1
"""Seconds for which requests fail at once after the connection failed without a timeout."""
PROBE_PAUSE = 0.5
"""Seconds from a timeout to the first probe, and from one probe that failed to the next."""
DARK_MEMORY = 10.0
"""Seconds after which a dark link that nobody tried counts as any other."""
IDLE_TIMEOUT = 45.0
"""Seconds after which an unused connection is closed: sooner than any peer would."""

_NEVER = float("inf")


class LinkError(Exception):
    """A request that got no answer; the text says why."""


class LinkDown(LinkError):  # noqa: N818 - a state, said as one
    """The peer went away, answered nonsense, did not answer in time, or cannot be reached now."""


class LinkRefused(LinkDown):
    """Nobody is there: the peer's machine refused the connection just now, or no host bears the
    name.
    """


class LinkBusy(LinkError):  # noqa: N818
    """Too many requests are waiting for this peer."""


class LinkResponse(msgspec.Struct, gc=False, frozen=True):
    """An answer: `status` is 200 to 599."""

    status: int
    body: bytes


class _Waiting(msgspec.Struct, eq=False):
    future: "asyncio.Future[LinkResponse] | None"  # None: a probe
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
        "_dark",
        "_failed",
        "_fires",
        "_host",
        "_host_line",
        "_outgoing",
        "_port",
        "_timer",
        "_used",
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
        self._connection: LinkConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._used = 0.0  # when something was last written
        self._failed = float("-inf")  # when the link last went down
        self._dark = False  # and that was by a timeout
        self._timer: Timer | None = None
        self._fires = _NEVER
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet; a probe is one too."""
        return len(self._waiting)

    def request(self, method: str, path: str, body: bytes = b"") -> "asyncio.Future[LinkResponse]":
        """Send a request; the future brings the answer, or `LinkDown`.

        Raises at once: `LinkBusy`, `LinkDown` while dark, cooling down or closed, ValueError for a
        method or path that is no single ASCII word, or for HEAD (its answers have no body to
        measure).
        """
        if not path.isascii() or not path.isprintable() or " " in path or method == "HEAD":
            raise ValueError("not a method and path to send")
        if self._closed:
            raise LinkDown("the link is closed")
        if len(self._waiting) >= self.max_waiting:
            raise LinkBusy(f"{self.max_waiting} requests are waiting")
        now = self.loop.time()
        if self._dark:
            self._stay_dark(now)
        elif self._connection is None and now < self._failed + COOL_DOWN:
            raise LinkDown("the peer was down a moment ago")
        future: asyncio.Future[LinkResponse] = self.loop.create_future()
        self._submit(method, path, body, future, now)
        return future

    def close(self) -> None:
        """Close the connection; what waits fails with `LinkDown`. For good."""
        self._closed = True
        self._fail("the link is closed")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stay_dark(self, now: float) -> None:
        """Refuse a request, with a probe in its wake; or let it through, when nobody has tried for
        a long time.
        """
        if not self._waiting:
            if now >= self._failed + DARK_MEMORY:
                self._dark = False
                return
            if now >= self._failed + PROBE_PAUSE:
                self._submit("GET", "/", b"", None, now)
        raise LinkDown("the peer does not answer")

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    def _submit(
        self,
        method: str,
        path: str,
        body: bytes,
        future: "asyncio.Future[LinkResponse] | None",
        now: float,
    ) -> None:
        data = f"{method} {path}{self._host_line}{len(body)}\r\n\r\n".encode("ascii") + body
        self._waiting.append(_Waiting(future, data, now + self.timeout))
        outgoing = self._outgoing
        outgoing.append(data)
        if self._connection is not None:
            if len(outgoing) == 1:
                self.loop.call_soon(self._flush)
        elif self._connecting is None:
            self._connecting = self.loop.create_task(self._connect())
        if now + self.timeout < self._fires:
            self._arm(now, self.timeout)

    def _flush(self) -> None:
        connection = self._connection
        if connection is None or not self._outgoing:
            return
        outgoing = self._outgoing
        self._outgoing = []
        self._used = self.loop.time()
        connection.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    async def _connect(self) -> None:
        made: LinkConnection | None = None
        reason, kind, dark = "the peer closed at once", LinkDown, False
        try:
            made = await dial(
                self.loop,
                self._host,
                self._port,
                lambda: LinkConnection(self),
                self.connect_timeout,
            )
        except DialError as error:
            reason, dark = str(error), isinstance(error, Unanswered)
            kind = LinkRefused if isinstance(error, Refused) else LinkDown
        if self._connecting is not asyncio.current_task():  # failed or closed meanwhile
            if made is not None:
                made.abort()
            return
        self._connecting = None
        if made is not None and made.open:
            self._connection = made
            self._flush()
        else:
            self._fail(reason, kind, dark=dark)

    # ── called by the connection ─────────────────────────────────────────────────────────────────

    def answered(self, connection: LinkConnection, status: int, body: bytes) -> bool:
        """Give an answer to the oldest request; False if nobody asked."""
        if connection is not self._connection or not self._waiting:
            return False
        self._dark = False
        future = self._waiting.popleft().future
        if future is not None and not future.done():  # its caller may have given up
            future.set_result(LinkResponse(status, body))
        return True

    def lost(self, connection: LinkConnection, reason: str, *, repeatable: bool) -> None:
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

    # ── failing ──────────────────────────────────────────────────────────────────────────────────

    def _fail(self, reason: str, failure: type[LinkDown] = LinkDown, *, dark: bool = False) -> None:
        self._failed = self.loop.time()
        self._dark = dark
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
            if each.future is not None and not each.future.done():
                each.future.set_exception(failure(reason))

    def _on_timer(self) -> None:
        """Look at the oldest request only: the others came later, so they are due later."""
        self._timer = None
        self._fires = _NEVER
        now = self.loop.time()
        if self._waiting and self._waiting[0].due <= now:
            self._fail("no answer in time", dark=True)
        if self._waiting:
            left = self._waiting[0].due - now
        elif self._connection is not None:
            left = self._used + IDLE_TIMEOUT - now
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
