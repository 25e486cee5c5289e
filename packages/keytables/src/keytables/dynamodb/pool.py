"""The connections to one server: as many as are needed, up to a limit.

Rule: callers get connections in the order they asked. A connection that is being made is not given
up with its caller; if it fails, the error goes to the caller that has waited longest.
"""

import asyncio
import contextlib
import ssl
from collections import deque

from keytables.dynamodb.connection import Connection, ConnectionLimits, NotSent

__all__ = ["ConnectionPool", "PoolExhausted"]


class PoolExhausted(NotSent):
    """There are too many requests for the connections the pool may have."""


class ConnectionPool:
    """Connections to ``host``:``port``, at most ``size``; over TLS if ``tls`` is given.

    ``max_waiting``: callers that may wait for one at a time.
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
        """Return an idle connection, if there is one."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    def release(self, connection: Connection) -> None:
        """Take back a connection that is free."""
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

        Raises NotSent: cannot connect, or not in time. Raises PoolExhausted: too many callers are
        waiting already, or all connections were busy all the time.
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
        """Make a connection for each waiting caller, within the limit."""
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
