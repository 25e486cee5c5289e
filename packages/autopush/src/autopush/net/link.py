"""A link to another node: pipelined HTTP/1.1 requests on one persistent connection.

A dead peer costs one timeout per link, not per request: requests share one attempt to connect and
fail together. A timeout or a failed handshake (of TLS or keys) opens the circuit breaker: requests
fail at once, and each may send a probe, whose response closes the circuit.

Rule: a peer is gone (`LinkGone`) only if another instance has its place. A refusal may be that of a
firewall, and a name may not resolve for a while: that is `LinkRefused`, and the peer may be back.

Rule: a peer that is to be authenticated receives no request before it has proved its identity, and
no response without a proof counts (:mod:`~autopush.net.node_auth`).

Responses match requests by their order (RFC 9112 section 9.3.2). When the peer closes an idle
connection just as a request is sent, the request is repeated once on a new connection. So requests
must be idempotent, as PUT and DELETE are.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

import msgspec

from autopush.net.http1_connection import ClientConnection, RawHeaders
from autopush.net.node_auth import (
    REQUEST_HEADER,
    RESPONSE_HEADER,
    CallerSession,
    HandshakeFailed,
    InstanceGone,
)
from autopush.net.tcp import DialError, DialInsecure, DialRefused, DialUnanswered, DialUnknown, dial
from autopush.net.timers import Deadline, TimerWheel
from autopush.net.tls import ClientTls
from keytables.retries import Backoff, CircuitBreaker


class LinkError(Exception):
    """A request without a response; the text says why.

    LinkError ──┬─ LinkDown ── LinkRefused · LinkGone · LinkInsecure · LinkUnauthentic
                └─ LinkBusy
    """


class LinkDown(LinkError):  # noqa: N818 - a state
    """The peer went away, sent no HTTP, did not answer in time, or cannot be reached now."""


class LinkRefused(LinkDown):
    """Nothing listens there now, or the name is not known now."""


class LinkGone(LinkDown):
    """Another instance has the peer's place."""


class LinkInsecure(LinkDown):
    """The peer answers, but not with TLS, or not with a certificate to trust."""


class LinkUnauthentic(LinkDown):
    """The peer has not proved that it has a key of ours."""


class LinkBusy(LinkError):  # noqa: N818 - a state
    """Too many requests are waiting for this peer."""


_PROOF: Final = RESPONSE_HEADER.encode()
_ERRORS: Final = {
    DialRefused: LinkRefused,
    DialUnknown: LinkRefused,
    DialInsecure: LinkInsecure,
    HandshakeFailed: LinkUnauthentic,
    InstanceGone: LinkGone,
}
_LONGEST_DELAY: Final = 2.0
"""Seconds between two attempts to connect to a peer that refuses."""


class LinkResponse(msgspec.Struct, gc=False, frozen=True):
    """`status` is 200 to 599."""

    status: int
    body: bytes


def _proof(headers: RawHeaders) -> str:
    for name, value in headers:
        if len(name) == len(_PROOF) and name.lower() == _PROOF:
            return value.decode("latin-1")
    return ""


class _Waiting(msgspec.Struct, eq=False):
    future: "asyncio.Future[LinkResponse] | None"  # None: a probe
    method: str
    path: str
    body: bytes
    due: float
    number: int = 0  # in its session, where the peer is authenticated
    repeated: bool = False


@dataclass(eq=False)
class Link:
    """Requests to `host`:`port`; the first one that needs it makes the connection.

    With `tls` the peer's certificate must be for `host`. With `keys` the peer is authenticated by
    one of them, as the instance that `base` names; every path begins with `base`.

    Times are in seconds. `timeout` runs from `request` to the complete response. After a failure
    without a timeout, requests fail at once for `reconnect_delay`, longer after each refusal.
    After a timeout the circuit is open: at most one probe is sent each `probe_interval`; after
    `circuit_reset` without any, the next request is sent as usual. `idle_timeout` closes an unused
    connection, sooner than peers do.
    """

    host: str
    port: int
    _: KW_ONLY
    wheel: TimerWheel
    tls: ClientTls | None = None
    keys: Sequence[bytes] = ()
    base: str = ""
    connect_timeout: float = 1.0
    timeout: float = 3.0
    idle_timeout: float = 45.0
    reconnect_delay: float = 0.1
    probe_interval: float = 0.5
    circuit_reset: float = 10.0
    max_waiting: int = 1000

    def __post_init__(self) -> None:
        authority = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        self._host_line = f" HTTP/1.1\r\nhost: {authority}\r\ncontent-length: "
        self._session: CallerSession | None = None  # of the connection
        self._handshake: tuple[ClientConnection, asyncio.Future[tuple[int, bytes, str]]] | None
        self._handshake = None
        self._gone = False  # another instance has the peer's place: it will never be back
        self._loop = self.wheel.loop
        self._waiting: deque[_Waiting] = deque()
        self._outgoing: list[bytes] = []  # of this turn of the loop
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._used = 0.0  # when something was last written
        self._failed = float("-inf")  # when the link last went down
        self._backoff = Backoff(self.reconnect_delay, _LONGEST_DELAY, jitter=0.0)
        self._refusals, self._delay = 0, 0.0  # those in a row
        self._circuit = CircuitBreaker(open_for=self.probe_interval, now=self._loop.time)
        self._deadline = Deadline(self.wheel, self._on_deadline)
        self._closed = False

    @property
    def waiting(self) -> int:
        """Requests without a response yet, probes included."""
        return len(self._waiting)

    def request(self, method: str, path: str, body: bytes = b"") -> "asyncio.Future[LinkResponse]":
        """Send a request; the future is for the response, or for `LinkDown`.

        Raises at once: `LinkBusy`; `LinkDown` while the circuit is open, just after a failure or on
        a closed link; ValueError for HEAD (its responses have no body to measure) or a path that is
        not a single printable ASCII word.
        """
        if not path.isascii() or not path.isprintable() or " " in path or method == "HEAD":
            raise ValueError("not a method and path that can be sent")
        if self._closed:
            raise LinkDown("the link is closed")
        if self._gone:
            raise LinkGone("another instance has the peer's place")
        if len(self._waiting) >= self.max_waiting:
            raise LinkBusy(f"{self.max_waiting} requests are waiting")
        now = self._loop.time()
        if self._circuit.is_open:
            self._fail_fast(now)
        elif self._connection is None and now < self._failed + self._delay:
            raise LinkDown("the peer was down a moment ago")
        future: asyncio.Future[LinkResponse] = self._loop.create_future()
        self._submit(method, path, body, future, now)
        return future

    def close(self) -> None:
        """Close the connection for good; waiting requests fail with `LinkDown`."""
        self._closed = True
        self._fail("the link is closed")
        self._deadline.close()

    def _fail_fast(self, now: float) -> None:
        """Raise `LinkDown`, sending a probe if due; return once `circuit_reset` has passed."""
        if not self._waiting:
            if now >= self._failed + self.circuit_reset:
                self._circuit.on_success()
                return
            if not self._circuit.begin_call():
                self._submit("GET", "/", b"", None, now)
        raise LinkDown("the peer does not answer")

    # --- sending --------------------------------------------------------------------------------

    def _submit(
        self,
        method: str,
        path: str,
        body: bytes,
        future: "asyncio.Future[LinkResponse] | None",
        now: float,
    ) -> None:
        request = _Waiting(future, method, self.base + path, body, now + self.timeout)
        self._waiting.append(request)
        if len(self._waiting) == 1:
            self._deadline.set(self.timeout)
        if self._connection is not None:
            outgoing = self._outgoing
            outgoing.append(self._encode(request))
            if len(outgoing) == 1:
                self._loop.call_soon(self._flush)
        elif self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    def _encode(self, request: _Waiting) -> bytes:
        """Encode for the current connection; a repeated request is signed again."""
        method, path, body = request.method, request.path, request.body
        head = f"{method} {path}{self._host_line}{len(body)}\r\n"
        if self._session is not None:
            request.number, signature = self._session.sign(method, path, body)
            head = f"{head}{REQUEST_HEADER}: {signature}\r\n"
        return f"{head}\r\n".encode("ascii") + body

    def _flush(self) -> None:
        connection = self._connection
        if connection is None or not self._outgoing:
            return
        outgoing = self._outgoing
        self._outgoing = []
        self._used = self._loop.time()
        connection.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))

    async def _connect(self) -> None:
        connection: ClientConnection | None = None
        session: CallerSession | None = None
        reason, error_type, opens_circuit = "the peer closed at once", LinkDown, False
        try:
            tls = await self.tls.context() if self.tls is not None else None
            connection = await dial(
                self._loop,
                self.host,
                self.port,
                lambda: ClientConnection(self),
                self.connect_timeout,
                tls,
            )
            if self.keys:
                session = await self._authenticate(connection)
        except (DialError, HandshakeFailed, InstanceGone) as error:
            reason = str(error)
            # Errors of TLS or keys last, and a handshake is expensive.
            opens_circuit = isinstance(error, DialUnanswered | DialInsecure | HandshakeFailed)
            error_type = _ERRORS.get(type(error), LinkDown)
            self._gone = isinstance(error, InstanceGone)
            if connection is not None:
                connection.abort()
                connection = None
        except asyncio.CancelledError:  # `_fail` does not know this connection yet
            if connection is not None:
                connection.abort()
            raise
        if self._connecting is not asyncio.current_task():  # failed or closed meanwhile
            if connection is not None:
                connection.abort()
            return
        self._connecting = None
        if connection is not None and connection.open:
            self._refusals = 0
            self._connection, self._session = connection, session
            self._outgoing = [self._encode(each) for each in self._waiting]
            self._flush()
        else:
            self._fail(reason, error_type, open_circuit=opens_circuit)

    async def _authenticate(self, connection: ClientConnection) -> CallerSession:
        """Open a session on a new connection.

        :raises HandshakeFailed: the peer does not prove that it has a key of ours
        :raises InstanceGone: it does, and is another instance
        :raises DialError: the connection was lost, or the peer or a proxy of it has failed (5xx)
        """
        if not connection.open:
            raise DialError("the peer closed at once")
        session = CallerSession(self.keys, self.base)
        path, signature = session.opening()
        answer: asyncio.Future[tuple[int, bytes, str]] = self._loop.create_future()
        self._handshake = connection, answer
        head = f"GET {path}{self._host_line}0\r\n{REQUEST_HEADER}: {signature}\r\n\r\n"
        connection.write(head.encode("ascii"))
        try:
            status, body, proof = await answer
        finally:
            self._handshake = None
        if status >= 500:
            raise DialError(f"the peer failed: {status}")
        session.opened(status, body, proof)
        return session

    # --- called by the connection ---------------------------------------------------------------

    def response_received(
        self, connection: ClientConnection, status: int, body: bytes, headers: RawHeaders
    ) -> bool:
        proof = _proof(headers)
        if connection is not self._connection or not self._waiting:
            if self._handshake is None or self._handshake[0] is not connection:
                return False
            answer = self._handshake[1]
            if answer.done():
                return False
            answer.set_result((status, body, proof))
            return True
        request = self._waiting.popleft()
        session, future = self._session, request.future
        if session is not None and not session.is_authentic(request.number, status, body, proof):
            self._on_unauthentic(status, future)
            return True
        self._circuit.on_success()
        if future is not None and not future.done():  # its caller may have given up
            future.set_result(LinkResponse(status, body))
        return True

    def _on_unauthentic(self, status: int, future: "asyncio.Future[LinkResponse] | None") -> None:
        """Fail the request; keep the connection after a 5xx, which claims nothing."""
        reason = f"a response without a valid proof: {status}"
        if future is not None and not future.done():
            future.set_exception(LinkDown(reason))
        if status < 500:  # an unknown session, or worse: a new handshake tells
            self._fail(reason)

    def connection_ended(
        self, connection: ClientConnection, reason: str, *, repeatable: bool
    ) -> None:
        """Repeat the waiting requests once on a new connection if `repeatable`; else fail them."""
        if self._handshake is not None and self._handshake[0] is connection:
            if not self._handshake[1].done():
                self._handshake[1].set_exception(DialError(reason))
            return
        if connection is not self._connection:
            return
        self._connection = self._session = None
        if not self._waiting:
            self._outgoing.clear()
            return
        if not repeatable or any(each.repeated for each in self._waiting):
            self._fail(reason)
            return
        for each in self._waiting:
            each.repeated = True
        self._outgoing.clear()
        self._connecting = self._loop.create_task(self._connect())

    # --- failing --------------------------------------------------------------------------------

    def _fail(
        self, reason: str, error_type: type[LinkDown] = LinkDown, *, open_circuit: bool = False
    ) -> None:
        self._failed = self._loop.time()
        self._refusals = self._refusals + 1 if error_type is LinkRefused else 0
        self._delay = self._backoff.delay(max(self._refusals, 1))
        if open_circuit:
            self._circuit.on_failure()
        else:
            self._circuit.on_success()
        connection, self._connection, self._session = self._connection, None, None
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
                each.future.set_exception(error_type(reason))

    def _on_deadline(self) -> None:
        """Check only the oldest request; the others are due later."""
        now = self._loop.time()
        if self._waiting and self._waiting[0].due <= now:
            self._fail("no answer in time", open_circuit=True)
        if self._waiting:
            self._deadline.set(self._waiting[0].due - now)
        elif self._connection is not None:
            left = self._used + self.idle_timeout - now
            if left > 0:
                self._deadline.set(left)
            else:
                connection, self._connection, self._session = self._connection, None, None
                connection.abort()
