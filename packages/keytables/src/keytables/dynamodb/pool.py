"""The connections to one server: as many as are needed, up to a bound.

The rule: whoever waits for a connection is served in order, and connecting goes on whether or not
its caller still waits. An error belongs to the one who has waited longest.
"""

import asyncio
import contextlib
import ssl
from collections import deque

from keytables.dynamodb.connection import Connection, NotSent

__all__ = ["Crowded", "Pool"]

CONNECT = 1.5
"""Seconds for connecting, the TLS handshake included."""


class Crowded(NotSent):
    """Too many requests for the connections there are."""


class Pool:
    """Connections to ``host``:``port``; with ``tls``, for the name ``server_name``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        size: int,
        max_waiting: int,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._size, self._max_waiting = size, max_waiting
        self._tls = tls
        self._server_name = server_name if tls is not None else None
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []  # the last used one is taken first
        self._open: set[Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._retired = self._closed = False

    def take(self) -> Connection | None:
        """An idle connection, if there is one."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.open:
                return connection
        return None

    def give(self, connection: Connection) -> None:
        """Take back a connection that is free."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(connection)
                return
        if self._retired:
            connection.abort("the server is used no longer")
        else:
            self._idle.append(connection)

    async def wait(self, seconds: float) -> Connection:
        """A connection, when one is free or made.

        Raises NotSent: cannot connect, or not in time. Raises Crowded: the bound of
        waiting callers is reached, or all connections were busy all the time.
        """
        waiting = self._waiting
        if self._closed:
            raise NotSent("the client is closed")
        if len(waiting) >= self._max_waiting:
            raise Crowded(f"{len(waiting)} calls are waiting for a connection already")
        future: asyncio.Future[Connection] = self._loop.create_future()
        waiting.append(future)
        self._connect_some()
        timer = self._loop.call_later(seconds, self._give_up, future)
        try:
            return await future
        except NotSent:
            raise
        except BaseException:  # the caller has given up
            if future.done() and not future.cancelled() and future.exception() is None:
                self.give(future.result())
            else:
                future.cancel()
                with contextlib.suppress(ValueError):  # it was passed over meanwhile
                    waiting.remove(future)
            raise
        finally:
            timer.cancel()

    def discard_idle(self) -> None:
        """Close the idle connections: the server has probably closed them too."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort("the connection was idle")

    def retire(self) -> None:
        """Close the idle connections, and the others when they are free."""
        self._retired = True
        self.discard_idle()

    def close(self) -> None:
        """End all connections; requests under way are lost."""
        self._closed = self._retired = True
        for task in self._connecting:
            task.cancel()
        for connection in list(self._open):
            connection.abort("the client is closed")
        while self._waiting:
            self._fail_first(NotSent("the client is closed"))

    def _connect_some(self) -> None:
        """Make a connection for each who waits, as far as there is room."""
        if self._closed:
            return
        room = self._size - len(self._open) - len(self._connecting)
        for _ in range(min(room, len(self._waiting) - len(self._connecting))):
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        self._connect_some()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._loop, freed=self.give, ended=self._ended),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name,
                )
        except TimeoutError:
            reason = "connecting took too long"
        except ssl.SSLError as exc:
            reason = f"TLS failed: {exc.reason or type(exc).__name__}"
        except (OSError, UnicodeError) as exc:
            reason = f"cannot connect to {self._host} port {self._port}: {exc}"
        else:
            if connection.open:
                self._open.add(connection)
                self.give(connection)
                return
            reason = "the server closed the connection at once"
        self._fail_first(NotSent(reason))

    def _fail_first(self, failure: NotSent) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(failure)
                return

    def _give_up(self, future: "asyncio.Future[Connection]") -> None:
        if future.done():
            return
        self._waiting.remove(future)
        if self._open:
            future.set_exception(Crowded("no connection came free in time"))
        else:
            future.set_exception(NotSent("connecting took too long"))

    def _ended(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._connect_some()
