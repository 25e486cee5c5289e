"""Connections to one HTTP/2 server over TLS, opened as they are needed.

Rule: a request is sent again only when the server has certainly not processed it: it was refused,
it was above the last stream of a GOAWAY, or there was no connection to send it on. A caller for
whose requests twice does no more harm than once says so (`idempotent`): those are also sent again
when the connection was lost before the response.

A further connection is opened only when all others are at the limit of their server, one after the
other. After an attempt that failed there is a pause, which grows with each failure in a row.
"""

import asyncio
import ssl
from collections import deque
from typing import Final

from autopush.net.http2_connection import HeaderList, Http2Connection, Http2Error, Http2Response
from keytables.retries import Backoff

CONNECT_TIMEOUT: Final = 10.0
"""Seconds for TCP, TLS and the server's settings together."""
BUSY_TIMEOUT: Final = 1.0
"""Seconds that a request waits for room when all connections are at their limit."""
MAX_WAITING: Final = 1000
# Spread, so that the workers of a cluster do not come back all at once.
PAUSES: Final = Backoff(0.2, 15.0, jitter=0.5)
LONGEST_WAIT: Final = 1.0
"""Seconds of a pause that a request waits; in a longer one it fails at once."""
CLOSE_TIMEOUT: Final = 0.5
"""Seconds for the requests under way when the pool is closed, and then for the connections."""


class PoolBusyError(Exception):
    """All connections are at their limit, and there may be no further one."""


class Http2Pool:
    """At most `max_connections` to one server; a request is repeated at most `max_retry` times."""

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext,
        *,
        max_connections: int,
        max_retry: int,
        busy_timeout: float = BUSY_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self._host = host
        self._port = port
        self._context = context
        self._max_connections = max_connections
        self._max_retry = max_retry
        self._busy_timeout = busy_timeout
        self._connect_timeout = connect_timeout
        self._usable: dict[Http2Connection, int] = {}
        """Each with its number; those that take no more requests are only in `_open`."""
        self._open: set[Http2Connection] = set()
        self._count = 0  # of connections made so far
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Http2Error | None]] = deque()
        self._failures = 0
        self._next_attempt = 0.0  # by the clock of the loop
        self._is_closed = False

    async def request(
        self, headers: HeaderList, body: bytes, *, idempotent: bool = False
    ) -> Http2Response:
        """Send a request; see `Http2Connection.request`.

        :raises Http2Error: no whole response
        :raises PoolBusyError: it was not sent
        """
        newer_than = repeated = 0
        while True:
            try:
                connection = await self._acquire(newer_than)
                return await connection.request(headers, body)
            except Http2Error as error:
                is_harmless = not error.processed or (idempotent and error.is_connection)
                if repeated >= self._max_retry or not is_harmless:
                    raise
                if error.is_connection:  # the other connections may be as dead
                    newer_than = self._count
            repeated += 1

    async def close(self) -> None:
        """Close all connections; requests fail from now on."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        for connection in [*self._open]:
            connection.close()
        for _ in range(2):
            if lost := [connection.lost for connection in self._open]:
                await asyncio.wait(lost, timeout=CLOSE_TIMEOUT)
            for connection in [*self._open]:
                connection.abort()

    def room_changed(self, connection: Http2Connection) -> None:
        """Let the request that waits longest look for room."""
        is_new = connection not in self._usable  # who waits for it wakes when it is opened
        if not connection.usable:
            self._usable.pop(connection, None)
        if connection.lost.done():
            self._open.discard(connection)
        if not is_new:
            self._wake_one()

    async def _acquire(self, newer_than: int) -> Http2Connection:
        """A connection with room; one with a higher number than that if there may be one."""
        loop = asyncio.get_running_loop()
        busy_until: float | None = None
        while True:
            if self._is_closed:
                raise Http2Error("the pool is closed", processed=False)
            for connection, number in self._usable.items():
                if number > newer_than and connection.has_room:
                    self._wake_one()  # there may be room for more than one
                    return connection
            usable = sum(connection.usable for connection in self._usable)
            if self._connecting is None and usable < self._max_connections:
                self._start_connecting(loop)
            if self._connecting is not None:
                failure = await self._wait()
            elif newer_than:
                newer_than = 0
                continue
            else:
                busy_until = busy_until or loop.time() + self._busy_timeout
                try:
                    async with asyncio.timeout_at(busy_until):
                        failure = await self._wait()
                except TimeoutError:
                    raise PoolBusyError from None
            if failure is not None:
                raise failure

    async def _wait(self) -> Http2Error | None:
        """Until something changed; what went wrong with the connection that was being opened."""
        if len(self._waiting) >= MAX_WAITING:
            raise PoolBusyError
        future: asyncio.Future[Http2Error | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._wake_one()  # its turn goes to the next
            else:
                self._waiting.remove(future)
            raise

    def _wake_one(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return

    def _start_connecting(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = max(0.0, self._next_attempt - loop.time())
        if pause > LONGEST_WAIT:
            raise Http2Error("the server could not be reached", processed=False, is_connection=True)
        self._connecting = asyncio.create_task(self._connect(pause))

    async def _connect(self, pause: float) -> None:
        loop = asyncio.get_running_loop()
        failure: str | None = "the pool is closed"
        try:
            await asyncio.sleep(pause)
            await self._open_connection(loop)
            failure = None
            self._failures = 0
        except (OSError, Http2Error) as error:
            # Only the kind of an OSError: texts of OpenSSL quote the certificate.
            is_ours = isinstance(error, Http2Error)
            failure = str(error) if is_ours else f"cannot connect: {type(error).__name__}"
            self._failures += 1
            self._next_attempt = loop.time() + PAUSES.delay(self._failures)
        finally:
            self._connecting = None
            waiting, self._waiting = self._waiting, deque()
            for future in waiting:
                if not future.done():
                    future.set_result(
                        None
                        if failure is None
                        else Http2Error(failure, processed=False, is_connection=True)
                    )

    async def _open_connection(self, loop: asyncio.AbstractEventLoop) -> None:
        async with asyncio.timeout(self._connect_timeout):
            _, connection = await loop.create_connection(
                lambda: Http2Connection(self), self._host, self._port, ssl=self._context
            )
            self._open.add(connection)
            try:
                # Before its settings come, nobody knows how many requests the server takes.
                await connection.ready
                if not connection.usable:
                    raise Http2Error("the server went away at once", processed=False)
            except BaseException:
                connection.abort()
                raise
        self._count += 1
        self._usable[connection] = self._count
