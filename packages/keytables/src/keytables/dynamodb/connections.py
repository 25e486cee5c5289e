"""The servers of a database and the connections to them (HTTP/1.1, one request at a time).

Rule: a response belongs to the request that is waiting for it, or the connection is closed. The
exception tells whether a request may have been applied (:class:`ResponseLost`) or cannot have been
(:class:`NotSent`).
"""

import asyncio
import contextlib
import ipaddress
import re
import ssl
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from keytables.dynamodb.signing import Credentials, Signer
from keytables.engine import Clock
from keytables.retries import CircuitBreaker


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a connection; times in seconds."""

    connect_timeout: float = 1.5
    """For connecting, with the TLS handshake."""

    idle_timeout: float = 15.0
    """Of an unused connection: shorter than servers', because a request that is sent while the
    server closes may or may not have been applied."""

    max_response: int = 64 << 20
    """Bytes of the largest response, head and body together. DynamoDB's hold at most 16 MB of
    items, which grow by type names, base64 and escapes."""


class NotSent(Exception):  # noqa: N818 - named for what happened
    """The request was not sent: it was certainly not applied."""


class ResponseLost(Exception):  # noqa: N818
    """The request was sent, and no complete response arrived: it may have been applied.

    ``stale``: the server closed a connection that had served requests before, without a byte of a
    response, as after idling for too long.
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
    """Calls ``on_free`` each time it can take a request, and ``on_closed`` once, with itself."""

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
        self._timer = None
        # Set once, not for each request: the deadline may have moved since.
        if self._deadline > self._loop.time():
            self._set_timer(self._deadline)
        elif self._future is None:
            self.abort("the connection was idle")
        else:
            self.abort("no response in time")


# --- the connections to one server ----------------------------------------------------------------


class PoolExhausted(NotSent):
    """Too many requests for the connections of the pool."""


class ConnectionPool:
    """At most ``size`` connections to ``host``:``port``; over TLS if ``tls`` is given.

    At most ``max_waiting`` callers wait, first come, first served. A connection attempt goes on
    when its caller is cancelled; its failure goes to the caller that has waited longest.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        size: int,
        max_waiting: int,
        tls: ssl.SSLContext | None = None,
        limits: ConnectionLimits,
    ) -> None:
        self._host, self._port = host, port
        self._size, self._max_waiting = size, max_waiting
        self._tls, self._limits = tls, limits
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []  # the one used last is taken first
        self._open: set[Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._closed = False

    def take_idle(self) -> Connection | None:
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    def release(self, connection: Connection) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(connection)
                return
        if self._closed:
            connection.abort("the client is closed")
        else:
            self._idle.append(connection)

    async def acquire(self, seconds: float) -> Connection:
        """Wait for a connection that is free or new.

        Raises NotSent: cannot connect, or not in time; PoolExhausted: too many callers are waiting,
        or all connections stayed busy.
        """
        waiting = self._waiting
        if self._closed:
            raise NotSent("the client is closed")
        if len(waiting) >= self._max_waiting:
            raise PoolExhausted(f"{len(waiting)} calls are waiting for a connection already")
        future: asyncio.Future[Connection] = self._loop.create_future()
        waiting.append(future)
        self._connect_as_needed()
        timer = self._loop.call_later(seconds, self._on_timeout, future)
        try:
            return await future
        except NotSent:
            raise
        except BaseException:  # the caller has given up
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release(future.result())
            else:
                future.cancel()
                with contextlib.suppress(ValueError):  # it was skipped meanwhile
                    waiting.remove(future)
            raise
        finally:
            timer.cancel()

    def discard_idle(self) -> None:
        """Close the idle connections: the server has probably closed them too."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort("the connection was idle")

    def close(self) -> None:
        """Close all connections; responses that are waited for are lost."""
        self._closed = True
        for task in self._connecting:
            task.cancel()
        for connection in list(self._open):
            connection.abort("the client is closed")
        while self._waiting:
            self._fail_first(NotSent("the client is closed"))

    def _connect_as_needed(self) -> None:
        if self._closed:
            return
        allowed = self._size - len(self._open) - len(self._connecting)
        for _ in range(min(allowed, len(self._waiting) - len(self._connecting))):
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._on_connect_done)

    def _on_connect_done(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        self._connect_as_needed()

    def _new_connection(self) -> Connection:
        return Connection(
            self._loop, limits=self._limits, on_free=self.release, on_closed=self._on_closed
        )

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._limits.connect_timeout):
                _, connection = await self._loop.create_connection(
                    self._new_connection,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=None if self._tls is None else self._host,
                )
        except TimeoutError:
            reason = "connecting took too long"
        except ssl.SSLError as exc:
            reason = f"TLS failed: {exc.reason or type(exc).__name__}"
        except (OSError, UnicodeError) as exc:
            reason = f"cannot connect to {self._host} port {self._port}: {exc}"
        else:
            if connection.is_open:
                self._open.add(connection)
                self.release(connection)
                return
            reason = "the server closed the connection at once"
        self._fail_first(NotSent(reason))

    def _fail_first(self, failure: NotSent) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(failure)
                return

    def _on_timeout(self, future: "asyncio.Future[Connection]") -> None:
        if future.done():
            return
        self._waiting.remove(future)
        if self._open:
            future.set_exception(PoolExhausted("no connection became free in time"))
        else:
            future.set_exception(NotSent("connecting took too long"))

    def _on_closed(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._connect_as_needed()


RETRY_INTERVAL: Final = 5.0
"""Seconds between two attempts at a failing host."""

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_HOST: Final = re.compile(r"[a-z0-9._:-]+")


class Endpoint(msgspec.Struct, frozen=True):
    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """The value of the Host header: without the port if that is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = DEFAULT_PORTS["https" if self.tls else "http"]
        return host if self.port == default else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the host name is one of this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")


def parse_endpoints(urls: str) -> list[Endpoint]:
    """Read one URL, or several, separated by commas. Raises ValueError."""
    return list(dict.fromkeys(map(parse_endpoint, urls.split(","))))


def parse_endpoint(url: str) -> Endpoint:
    """Read ``http://HOST:PORT`` or ``https://HOST:PORT``. Raises ValueError for anything else."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        port = DEFAULT_PORTS.get(parts.scheme, 0)
        if parts.port is not None and port:
            port = parts.port
        host = parts.hostname or ""
        bare = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
        if port and bare and _HOST.fullmatch(host):
            return Endpoint(host, port, parts.scheme == "https")
    got = "one with a user or password" if "@" in url else repr(url)
    raise ValueError(f"an endpoint is written http://HOST:PORT or https://HOST:PORT, not {got}")


class Host:
    """``now``: loop time."""

    def __init__(
        self,
        endpoint: Endpoint,
        pool: ConnectionPool,
        *,
        region: str,
        credentials: Credentials,
        now: Clock,
    ) -> None:
        self.endpoint, self.pool, self.region = endpoint, pool, region
        self.circuit = CircuitBreaker(open_for=RETRY_INTERVAL, now=now)
        self.sign_with(credentials)

    def sign_with(self, credentials: Credentials, *, skew: float = 0.0) -> None:
        """Sign later requests with these. ``skew``: seconds the server's clock is ahead of ours."""
        self.signer = Signer(
            credentials, region=self.region, authority=self.endpoint.authority, skew=skew
        )


class HostRotation:
    """The hosts of a database, in rotation: one for DynamoDB, one per node for Alternator.

    A failing host is skipped until it answers again, unless all fail.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._position = 0

    def next(self) -> Host:
        hosts = self.hosts
        if len(hosts) == 1:
            return hosts[0]
        for _ in hosts:
            host = self._advance()
            if not host.circuit.begin_call():
                return host
        return self._advance()

    def close(self) -> None:
        for host in self.hosts:
            host.pool.close()

    def _advance(self) -> Host:
        self._position = (self._position + 1) % len(self.hosts)
        return self.hosts[self._position]
