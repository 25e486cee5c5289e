"""The HTTP/2 client for the messages of bridges, on the library `h2`.

A request to FCM or APNs costs here a sixth of the CPU that a general client takes. Redirects and
proxies are not followed; a response has at most `MAX_RESPONSE` bytes. A connection is opened when
all others are at their limit, and kept for later requests.

Rule: a request is repeated only if the server has certainly not processed it: it was refused, was
above the last stream of a GOAWAY, or had no connection to be sent on. `idempotent` requests are
also repeated when the connection was lost before the response.
"""

import asyncio
import ssl
from collections import deque
from typing import Final
from urllib.parse import urlsplit

from autopush.net.http2_connection import Http2Connection
from autopush.net.http_client import (
    ClientLimits,
    HeaderList,
    HttpBusyError,
    HttpError,
    HttpResponse,
    check_request,
)
from autopush.net.tcp import DialError, dial
from keytables.retries import Backoff

MAX_WAITING: Final = 1000
BACKOFF: Final = Backoff(0.2, 15.0, jitter=0.5)
"""Between attempts to connect; the jitter keeps the workers of a cluster apart."""
LONGEST_WAIT: Final = 1.0
"""Seconds of backoff that a request waits for; if more are left it may fail at once."""
CLOSE_TIMEOUT: Final = 0.5
"""Seconds that closing a client waits for requests in progress, then for the connections."""


class Http2Client:
    """Sends requests to the server of `url`, which is one of https."""

    def __init__(self, url: str, tls: ssl.SSLContext, limits: ClientLimits) -> None:
        parts = urlsplit(url)
        self._authority = parts.netloc
        self._origin = f"https://{parts.netloc}"
        self._address = parts.hostname or "", parts.port or 443
        self._tls = tls
        self._limits = limits
        self._opened = 0  # connections opened so far
        self._usable: dict[Http2Connection, int] = {}  # each with its number
        self._open: set[Http2Connection] = set()  # also those that take no more requests
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[HttpError | None]] = deque()
        self._failures = 0
        self._next_attempt = 0.0  # by the clock of the loop
        self._is_closed = False

    async def request(
        self,
        method: str,
        url: str,
        headers: HeaderList = (),
        body: bytes = b"",
        *,
        idempotent: bool = False,
    ) -> HttpResponse:
        """Send a request. `url`: on the server; `headers`: lower-case names, without Host and
        Content-Length.

        :raises HttpError: no complete response; `HttpBusyError`, not sent
        """
        check_request(url, headers)
        target = url.removeprefix(self._origin)
        if not target.startswith("/"):
            raise HttpError("the URL is not one of this server", processed=False)
        repeated = newer_than = 0
        while True:
            try:
                connection = await self._acquire(newer_than)
                return await connection.request(method, self._authority, target, headers, body)
            except HttpError as error:
                is_harmless = not error.processed or (idempotent and error.is_connection)
                if repeated >= self._limits.max_retry or not is_harmless:
                    raise
                if error.is_connection:  # the other connections may be dead too
                    newer_than = self._opened
            repeated += 1

    async def close(self) -> None:
        """Close all connections, when the requests in progress are done; later requests fail."""
        self._is_closed = True
        for connection in [*self._open]:
            connection.close()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for _ in range(2):
            if lost := [connection.lost for connection in self._open]:
                await asyncio.wait(lost, timeout=CLOSE_TIMEOUT)
            for connection in [*self._open]:
                connection.abort()

    def _on_room_changed(self, connection: Http2Connection) -> None:
        """Wake the request that has waited longest."""
        is_new = connection not in self._usable  # `_connect` wakes those who wait for it
        if not connection.usable:
            self._usable.pop(connection, None)
        if connection.lost.done():
            self._open.discard(connection)
        if not is_new:
            self._wake_one()

    async def _acquire(self, newer_than: int) -> Http2Connection:
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
        if self._connecting or usable >= self._limits.max_connections:
            return
        pause = max(0.0, self._next_attempt - loop.time())
        if pause > LONGEST_WAIT:
            if usable:
                return
            text = "the server could not be reached"
            raise HttpError(text, processed=False, is_connection=True)
        self._connecting = loop.create_task(self._connect(pause))

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
            self._connecting = None
            # With another connection that one takes the waiting requests in turn.
            is_fatal = error is not None and not self._usable
            waiting, self._waiting = self._waiting, deque()
            for future in waiting:
                if not future.done():
                    future.set_result(_connect_error(error) if is_fatal else None)

    def _make(self) -> Http2Connection:
        return Http2Connection(self._on_room_changed)

    async def _open_connection(self) -> None:
        seconds = self._limits.connect_timeout
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                connection = await dial(
                    loop,
                    *self._address,
                    lambda: Http2Connection(self._on_room_changed),
                    seconds,
                    self._tls,
                )
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
        self._opened += 1
        self._usable[connection] = self._opened


def _connect_error(error: Exception | None) -> HttpError | None:
    """A copy for each waiting request: a raised error belongs to one task."""
    if error is None:
        return None
    is_known = isinstance(error, DialError | HttpError)  # texts of others may quote anything
    text = str(error) if is_known else f"cannot connect: {type(error).__name__}"
    copied = HttpError(text, processed=False, is_connection=True)
    copied.__cause__ = error
    return copied
