"""The HTTP client for servers outside the cluster, used by bridges, broadcasts and commands.

It speaks HTTP/1.1, and HTTP/2 where the TLS context offers it and the server accepts. Redirects are
not followed; a response has at most `MAX_RESPONSE` bytes. A connection is opened when all others
are at their limit, and kept for later requests.

Rule: a request is repeated only if the server has certainly not processed it: it was refused, was
above the last stream of a GOAWAY, or had no connection to be sent on. `idempotent` requests are
also repeated when the connection was lost before the response.
"""

import asyncio
import base64
import os
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from autopush.net.http1_connection import (
    MAX_RESPONSE,
    ConnectionPool,
    HeaderList,
    Http1Connection,
    HttpError,
    HttpResponse,
    PooledConnection,
)
from autopush.net.tcp import DialError, dial
from keytables.retries import Backoff

__all__ = [
    "MAX_RESPONSE",
    "ClientLimits",
    "HeaderList",
    "HttpBusyError",
    "HttpClient",
    "HttpError",
    "HttpResponse",
    "HttpTimeoutError",
    "client_tls",
]

MAX_ORIGINS: Final = 100
"""Servers with a pool of connections; beyond that the oldest pool is drained."""
MAX_WAITING: Final = 1000
BACKOFF: Final = Backoff(0.2, 15.0, jitter=0.5)
"""Between attempts to connect; the jitter keeps the workers of a cluster apart."""
LONGEST_WAIT: Final = 1.0
"""Seconds of backoff that a request waits for; if more are left it may fail at once."""
CLOSE_TIMEOUT: Final = 0.5
"""Seconds that closing a client waits for requests in progress, then for the connections."""
MAX_PROXY_HEAD: Final = 16_384

_PORTS: Final = {"http": 80, "https": 443}


class HttpBusyError(HttpError):
    """Not sent: no connection has room, or too many requests are waiting."""


class HttpTimeoutError(HttpError):
    """Sent, but without a response in time."""


class ClientLimits(Struct, frozen=True, kw_only=True):
    """Limits for each server; times are in seconds.

    `max_retry`: how often a request is sent again. `busy_timeout`: how long it waits for room when
    all connections are at their limit. `connect_timeout`: for TCP, TLS and the server's settings.
    """

    max_connections: int = 20
    max_retry: int = 0
    busy_timeout: float = 1.0
    connect_timeout: float = 10.0


def client_tls(*, http2: bool = False, verify: bool = True) -> ssl.SSLContext:
    """A context that trusts the system's CAs; `SSL_CERT_FILE` names further ones. Slow to make.
    `http2`: offer HTTP/2, which needs the library h2.
    """
    if http2:
        import autopush.net.http2_connection  # noqa: F401, PLC0415 - h2 is an extra
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class HttpClient:
    """Sends requests to any server. `tls`: for https. `uses_proxy`: https goes through the proxy in
    `HTTPS_PROXY`, except to the hosts in `NO_PROXY`.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        limits: ClientLimits = ClientLimits(),  # noqa: B008 - it is immutable
        *,
        uses_proxy: bool = False,
    ) -> None:
        self._tls = tls
        self._limits = limits
        self._uses_proxy = uses_proxy
        self._pools: dict[str, _Pool] = {}
        self._is_closed = False

    async def request(
        self,
        method: str,
        url: str,
        headers: HeaderList = (),
        body: bytes = b"",
        *,
        idempotent: bool = False,
        response_timeout: float | None = None,
    ) -> HttpResponse:
        """Send a request. `headers`: lower-case names, without Host and Content-Length;
        `response_timeout`: seconds from sending to the complete response.

        :raises HttpError: no complete response; `HttpBusyError`, not sent; `HttpTimeoutError`
        """
        values = "".join([url, *(text for _, text in headers)])
        if not values.isascii() or "\n" in values or "\r" in values:
            raise HttpError("the request is not valid", processed=False)
        start = url.find("://") + 3
        slash = url.find("/", start)
        if slash < 0:
            url, _, query = url.partition("?")
            slash, target = len(url), f"/?{query}" if query else "/"
        else:
            target = url[slash:]
        pool = self._pools.get(url[:slash]) or self._open_pool(url[:slash])
        repeated = newer_than = 0
        while True:
            try:
                connection = await pool.acquire(newer_than)
                sent = connection.request(method, pool.origin, target, headers, body)
                if response_timeout is None:
                    return await sent
                async with asyncio.timeout(response_timeout):
                    return await sent
            except TimeoutError:
                raise HttpTimeoutError("no response in time") from None
            except HttpError as error:
                is_harmless = not error.processed or (idempotent and error.is_connection)
                if repeated >= self._limits.max_retry or not is_harmless:
                    raise
                if error.is_connection:  # the other connections may be dead too
                    newer_than = pool.opened
            repeated += 1

    async def close(self) -> None:
        """Close all connections; later requests fail."""
        self._is_closed = True
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    def _open_pool(self, origin: str) -> "_Pool":
        if self._is_closed:
            raise HttpError("the client is closed", processed=False)
        try:
            parts = urlsplit(origin)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise HttpError("the URL is invalid", processed=False) from None
        if not parts.hostname:
            raise HttpError("the URL names no host", processed=False)
        if len(self._pools) >= MAX_ORIGINS:
            self._pools.pop(next(iter(self._pools))).drain()
        is_tls = parts.scheme == "https"
        if is_tls and self._tls is None:
            raise HttpError("the URL needs TLS", processed=False)
        proxy = _proxy_of(parts.hostname) if is_tls and self._uses_proxy else None
        server = _Server(parts.hostname, port, self._tls if is_tls else None, proxy)
        pool = _Pool((parts.scheme, parts.netloc), server, self._limits)
        self._pools[origin] = pool
        return pool


class _Pool:
    """Connections to one server."""

    def __init__(self, origin: tuple[str, str], server: "_Server", limits: ClientLimits) -> None:
        self.origin = origin  # scheme and authority
        self.opened = 0  # connections opened so far
        self._server = server
        self._limits = limits
        self._usable: dict[PooledConnection, int] = {}  # each with its number
        self._open: set[PooledConnection] = set()  # also those that take no more requests
        self._connecting: set[asyncio.Task[None]] = set()
        # A connection takes one request at a time, so several are opened at once.
        self._is_parallel = origin[0] == "http"
        self._waiting: deque[asyncio.Future[HttpError | None]] = deque()
        self._failures = 0
        self._next_attempt = 0.0  # by the clock of the loop
        self._is_closed = False

    def drain(self) -> None:
        """Take no more requests; those in progress go on."""
        self._is_closed = True
        for connection in [*self._open]:
            connection.close()

    async def close(self) -> None:
        self.drain()
        if self._connecting:
            for task in self._connecting:
                task.cancel()
            await asyncio.wait(self._connecting)
        for _ in range(2):
            if lost := [connection.lost for connection in self._open]:
                await asyncio.wait(lost, timeout=CLOSE_TIMEOUT)
            for connection in [*self._open]:
                connection.abort()

    def room_changed(self, connection: PooledConnection) -> None:
        """Wake the request that has waited longest."""
        is_new = connection not in self._usable  # `_connect` wakes those who wait for it
        if not connection.usable:
            self._usable.pop(connection, None)
        if connection.lost.done():
            self._open.discard(connection)
        if not is_new:
            self._wake_one()

    async def acquire(self, newer_than: int) -> PooledConnection:
        """A connection with room; one with a number above `newer_than` if possible.

        :raises HttpError: none could be opened
        """
        loop = asyncio.get_running_loop()
        busy_until: float | None = None
        while True:
            if self._is_closed:
                raise HttpError("the client is closed", processed=False)
            for connection, number in self._usable.items():
                if number > newer_than and connection.has_room:
                    if not self._is_parallel:
                        self._wake_one()  # there may be room for more than one
                    return connection
            self._connect_another(loop)
            if self._connecting:
                failure = await self._wait()
            elif newer_than:
                newer_than = 0
                continue
            else:
                busy_until = busy_until or loop.time() + self._limits.busy_timeout
                try:
                    async with asyncio.timeout_at(busy_until):
                        failure = await self._wait()
                except TimeoutError:
                    raise HttpBusyError("no connection has room", processed=False) from None
            if failure is not None:
                raise failure

    async def _wait(self) -> HttpError | None:
        """Wait for a change; return the error if no connection could be opened."""
        if len(self._waiting) >= MAX_WAITING:
            raise HttpBusyError("too many requests wait for a connection", processed=False)
        future: asyncio.Future[HttpError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled():
                self._wake_one()  # its turn goes to the next
            elif future in self._waiting:
                self._waiting.remove(future)
            raise

    def _wake_one(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    # ── opening connections ───────────────────────────────────────────────────────────────────────

    def _connect_another(self, loop: asyncio.AbstractEventLoop) -> None:
        usable = sum(connection.usable for connection in self._usable)
        enough = len(self._waiting) if self._is_parallel else 0
        if len(self._connecting) > enough:
            return
        if usable + len(self._connecting) >= self._limits.max_connections:
            return
        pause = max(0.0, self._next_attempt - loop.time())
        if pause > LONGEST_WAIT:
            if usable or self._connecting:
                return
            text = "the server could not be reached"
            raise HttpError(text, processed=False, is_connection=True)
        task = loop.create_task(self._connect(pause))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, pause: float) -> None:
        error: Exception | None = None
        try:
            await asyncio.sleep(pause)
            await self._open_connection()
            self._failures = 0
        except Exception as failure:  # noqa: BLE001 - the requests that wait get it
            error = failure
            self._failures += 1
            loop = asyncio.get_running_loop()
            self._next_attempt = loop.time() + BACKOFF.delay(self._failures)
        finally:
            self._connecting.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            # Otherwise another connection takes the waiting requests in turn.
            is_fatal = error is not None and not self._connecting and not self._usable
            waiting, self._waiting = self._waiting, deque()
            for future in waiting:
                if not future.done():
                    future.set_result(_connect_error(error) if is_fatal else None)

    async def _open_connection(self) -> None:
        try:
            async with asyncio.timeout(self._limits.connect_timeout):
                connection = await self._server.connect(self, self._limits.connect_timeout)
                self._is_parallel = isinstance(connection, Http1Connection)
                self._open.add(connection)
                try:
                    # The server's settings say how many requests it takes.
                    await connection.ready
                    if not connection.usable:
                        raise HttpError("the server went away at once", processed=False)
                except BaseException:
                    connection.abort()
                    raise
        except TimeoutError:
            raise HttpError("connecting took too long", processed=False) from None
        self.opened += 1
        self._usable[connection] = self.opened


def _connect_error(error: Exception | None) -> HttpError | None:
    """A copy for each waiting request: a raised error belongs to one task."""
    if error is None:
        return None
    is_known = isinstance(error, DialError | HttpError)  # texts of others may quote anything
    text = str(error) if is_known else f"cannot connect: {type(error).__name__}"
    copied = HttpError(text, processed=False, is_connection=True)
    copied.__cause__ = error
    return copied


class _Server(Struct, frozen=True):
    """A server. `proxy`: the URL of a proxy for https."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    proxy: SplitResult | None

    async def connect(self, pool: ConnectionPool, seconds: float) -> PooledConnection:
        loop = asyncio.get_running_loop()
        if self.proxy is not None:
            return await self._connect_by_proxy(loop, pool, self.proxy, seconds)
        opened = await dial(loop, self.host, self.port, lambda: _Opening(pool), seconds, self.tls)
        return opened.connection

    async def _connect_by_proxy(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: ConnectionPool,
        proxy: SplitResult,
        seconds: float,
    ) -> PooledConnection:
        """Tunnel through the proxy by CONNECT (RFC 9110, 9.3.6)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        authority = f"{host}:{self.port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"host: {authority}"]
        if proxy.username:
            credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            encoded = base64.b64encode(credentials.encode()).decode()
            lines.append(f"proxy-authorization: Basic {encoded}")
        request = "\r\n".join([*lines, "", ""]).encode()
        tunnel = await dial(
            loop, proxy.hostname or "", proxy.port or 80, lambda: _Tunnel(request), seconds
        )
        transport = await tunnel.opened
        opening = _Opening(pool)
        try:
            secured = await loop.start_tls(
                transport, opening, cast(ssl.SSLContext, self.tls), server_hostname=self.host
            )
        except OSError as error:
            raise DialError(f"no TLS connection: {type(error).__name__}") from None
        if secured is None:
            raise DialError("the proxy closed the connection")
        opening.connection_made(secured)
        return opening.connection


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel; `opened`: its transport, or `DialError`."""

    def __init__(self, request: bytes) -> None:
        self.opened: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()
        self._request = request
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" not in self._head and len(self._head) < MAX_PROXY_HEAD:
            return
        status = self._head.partition(b" ")[2][:3]
        if self.opened.done():
            return
        if status.startswith(b"2"):
            self.opened.set_result(self._transport)
        else:
            self._transport.abort()
            text = status.decode("ascii", "replace")
            self.opened.set_exception(DialError(f"the proxy answers {text}"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if not self.opened.done():
            self.opened.set_exception(DialError("the proxy closed the connection"))


class _Opening(asyncio.Protocol):
    """Makes the connection for the protocol selected by ALPN."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self.connection: PooledConnection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls = transport.get_extra_info("ssl_object")
        make: Callable[[ConnectionPool], PooledConnection] = Http1Connection
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            from autopush.net.http2_connection import Http2Connection  # noqa: PLC0415

            make = Http2Connection
        self.connection = make(self._pool)
        cast(asyncio.Transport, transport).set_protocol(self.connection.protocol)
        self.connection.protocol.connection_made(transport)


def _proxy_of(host: str) -> SplitResult | None:
    """The proxy for https to `host`, from the environment."""
    url = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    if not url:
        return None
    from urllib.request import proxy_bypass  # noqa: PLC0415 - rare, and heavy

    if proxy_bypass(host):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")
