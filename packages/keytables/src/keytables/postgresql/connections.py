"""Sessions of the database: what is checked and set in each, and how many there are.

Rule: every wait is bounded, here and in the server: a caller waits TIMEOUT at most, and a statement
that was sent ends within STATEMENT_TIMEOUT there, whatever becomes of this process or the network.
"""

import asyncio
import math
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from keytables.engine import Activity
from keytables.errors import KeytablesError, OutOfReach, StoreClosed, Throttled, Unavailable
from keytables.failures import FailureReports
from keytables.postgresql.failures import ENDED, ConnectionLost, translate
from keytables.retries import Attempts, Backoff

TIMEOUT: Final = 5.0
"""Seconds that a caller waits: for a connection, for the answer, and for repeated attempts."""

STATEMENT_TIMEOUT: Final = 4.0
"""Seconds after which the server cancels a statement: before its connection is given up."""

LOCK_TIMEOUT: Final = 2.5
"""Seconds after which it gives up a lock of another session."""

KEEPALIVE: Final = 30
"""Seconds of silence after which the system asks whether a connection still exists. Routers that
translate addresses forget connections that are silent for some minutes.
"""

KEEPALIVE_INTERVAL: Final = 10
KEEPALIVE_COUNT: Final = 3

MAX_WAITING: Final = 10_000
"""Reads that may wait for a connection; further ones are Throttled."""

OLDEST_SERVER: Final = 13

_STATEMENTS: Final = 200
"""Prepared statements of a session, after which they are prepared again."""

_BACKOFF: Final = Backoff(0.05, 1.0)
_READ_BACKOFF: Final = Backoff(0.02, 0.5)

_SETTINGS: Final = {
    "client_encoding": "UTF8",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "statement_timeout": f"{STATEMENT_TIMEOUT:.0f}s",
    "lock_timeout": f"{LOCK_TIMEOUT * 1000:.0f}ms",
    "idle_in_transaction_session_timeout": f"{TIMEOUT:.0f}s",
    "tcp_keepalives_idle": f"{KEEPALIVE}",
    "tcp_keepalives_interval": f"{KEEPALIVE_INTERVAL}",
    "tcp_keepalives_count": f"{KEEPALIVE_COUNT}",
    # Every statement finds its rows by an index. Plans are made once in a session, while tables may
    # be nearly empty: the others would be chosen then, and kept when the tables have grown.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

# The last column identifies the history of the data: the cluster, and its timeline, which changes
# when a standby is promoted.
_CHECK: Final = """
SELECT pg_backend_pid(), backend_start, pg_is_in_recovery(),
       current_setting('server_version_num')::int, current_setting('server_encoding'),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                  ELSE current_setting('synchronous_commit') END, false),
       CASE WHEN NOT pg_is_in_recovery() THEN
            (SELECT system_identifier FROM pg_control_system())
            || ' ' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END
FROM pg_stat_get_activity(pg_backend_pid())
"""


@dataclass(frozen=True, slots=True)
class Backend:
    """The server's process of a session. ``started`` tells it from a later one of the same PID."""

    pid: int
    started: object


class Session:
    """One connection; its errors are those of this package."""

    def __init__(
        self, connection: "asyncpg.Connection[Any]", backend: Backend, activity: Activity
    ) -> None:
        self._connection, self.backend, self._activity = connection, backend, activity
        # Statements that are prepared already. The client has a cache too, but finding one there
        # and its timer for each statement take 300 bytecodes.
        self._prepared: dict[str, PreparedStatement[Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._answer_by = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._is_late = self.is_closed = False
        activity.connections += 1
        connection.add_termination_listener(self._on_end)

    def _on_end(self, _: object) -> None:
        self._stop()
        self._activity.connections -= 1

    def _stop(self) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer = None
        if self._answer_by <= self._loop.time():
            self._is_late = True
            self.terminate()
        elif self._answer_by < math.inf:
            self._timer = self._loop.call_at(self._answer_by, self._on_timer)

    async def fetch(
        self,
        sql: str,
        *values: object,
        operation: str = "SELECT",
        table: str = "",
        answer_by: float = math.inf,
    ) -> list[Any]:
        """Return the rows of a statement. Closes the connection if it may be carried out later.
        ``answer_by``: a time of the event loop, if that is before TIMEOUT.
        """
        self._activity.round_trips += 1
        self._answer_by = min(self._loop.time() + TIMEOUT, answer_by)
        if self._timer is None:  # set once in that time, not for each statement
            self._timer = self._loop.call_at(self._answer_by, self._on_timer)
        elif self._timer.when() > self._answer_by:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._answer_by, self._on_timer)
        try:
            statement = self._prepared.get(sql)
            if statement is None:
                statement = await self._prepare(sql)
            rows: list[Any] = await statement.fetch(*values)
        except BaseException as error:
            # A cancelled one would have to be awaited; another connection is cheaper.
            if not isinstance(error, Exception):
                self.terminate()
                raise
            self._prepared.pop(sql, None)  # it may be outdated
            failure = translate(TimeoutError() if self._is_late else error, operation, table)
            if isinstance(failure, ConnectionLost):
                self.terminate()
            raise failure from error
        finally:
            self._answer_by = math.inf
        return rows

    async def _prepare(self, sql: str) -> "PreparedStatement[Any]":
        if len(self._prepared) >= _STATEMENTS:
            self._prepared.clear()
        statement = self._prepared[sql] = await self._connection.prepare(sql)
        return statement

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await self.fetch("BEGIN")
        try:
            yield
        except BaseException:
            if not self.is_closed:
                await self.fetch("ROLLBACK")
            raise
        await self.fetch("COMMIT")

    def terminate(self) -> None:
        self._stop()
        self._connection.terminate()

    async def close(self) -> None:
        self._stop()
        try:
            await self._connection.close(timeout=LOCK_TIMEOUT)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            self._connection.terminate()


class Connector:
    """Opens sessions. ``url`` and ``settings``: of :class:`keytables.stores.PostgresUrl`.

    ``failovers``: how often the server that a session reached had another history than the last.
    """

    def __init__(self, url: str, settings: dict[str, str], connect_timeout: float) -> None:
        self._urls = deque(each_host(url))
        self._settings = {"application_name": "keytables", **settings, **_SETTINGS}
        self._timeout = connect_timeout
        self._history = ""
        self.activity = Activity()
        self.failovers = 0

    async def connect(self, deadline: float = math.inf) -> Session:
        """Open a session and check its server: of several hosts the first that can be used, from
        the one that was used last. ``deadline``: of the event loop. Raises Unavailable.
        """
        loop, urls = asyncio.get_running_loop(), list(self._urls)
        for tried, url in enumerate(urls, 1):
            # A host that is silent leaves time for the others.
            left = (deadline - loop.time()) / (len(urls) - tried + 1)
            try:
                session = await self._connect(url, max(min(self._timeout, left), 0.0))
            except ConnectionLost:
                if tried == len(self._urls):
                    raise
            else:
                self._urls.rotate(-self._urls.index(url))
                return session
        raise AssertionError("unreachable")

    async def _connect(self, url: str, seconds: float) -> Session:
        end = asyncio.get_running_loop().time() + seconds
        try:
            connection = await asyncpg.connect(url, timeout=seconds, server_settings=self._settings)
        except Exception as error:  # noqa: BLE001 - translated
            failure = _connect_failure(error, url)
            # The text of an error about the URL may repeat parts of it, and would be logged.
            raise failure from (error if isinstance(failure, ConnectionLost) else None)
        try:
            async with asyncio.timeout_at(end):
                return await self._checked(connection)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, TimeoutError):
                raise translate(error) from error
            raise

    async def _checked(self, connection: "asyncpg.Connection[Any]") -> Session:
        try:
            row = await connection.fetchrow(_CHECK)
        except Exception as error:
            raise translate(error) from error
        assert row is not None
        pid, started, is_standby, version, encoding, _, history = row
        if pid != connection.get_server_pid():
            raise Unavailable(_POOLER)
        if version < OLDEST_SERVER * 10_000:
            raise Unavailable(
                f"PostgreSQL {version // 10_000} is too old: {OLDEST_SERVER} or newer is needed"
            )
        if encoding != "UTF8":
            raise Unavailable(f"the encoding of the database is {encoding}: UTF8 is needed")
        if is_standby:
            raise ConnectionLost(
                "the server is in recovery, a standby: with several hosts, "
                "target_session_attrs=read-write finds the primary"
            )
        _keep_alive(connection)
        self.failovers += self._history not in ("", history)
        self._history = history
        return Session(connection, Backend(pid, started), self.activity)


def _keep_alive(connection: "asyncpg.Connection[Any]") -> None:
    """As the server does by ``tcp_keepalives_idle``. The client has no option for it."""
    sock = connection._transport.get_extra_info("socket")
    if sock is None or sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def each_host(url: str) -> list[str]:
    """Return the URL with one of its hosts each. Given several, asyncpg has one timeout for all of
    them, which a host that is silent would use up.
    """
    # By hand: `urlsplit` knows URLs of one host, and refuses an IPv6 address behind another host.
    scheme, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    authority, slash, database = address.partition("/")
    login, at, place = authority.rpartition("@")
    options = dict(parse_qsl(query, keep_blank_values=True))
    named = options.pop("host", "") or os.environ.get("PGHOST", "")
    hosts = (place or quote(named, safe=",:[]")).split(",")
    ports = (options.pop("port", "") or os.environ.get("PGPORT", "")).split(",")
    if len(hosts) == 1 or len(ports) not in (1, len(hosts)):
        return [url]  # asyncpg says what is wrong with it
    urls = []
    for host, port in zip(hosts, ports * (len(hosts) // len(ports)), strict=True):
        has_port = not port or ":" in host.rpartition("]")[2]
        server = host if has_port else f"{host}:{port}"
        parameters = f"?{urlencode(options)}" if options else ""
        urls.append(f"{scheme}://{login}{at}{server}{slash}{database}{parameters}")
    return urls


_POOLER: Final = (
    "a connection pooler (such as PgBouncer) is between this process and PostgreSQL, and does not "
    "keep settings of a session: name the server itself; this engine has a pool of its own"
)


def _missing_file(url: str) -> str:
    """What is missing, if libpq's ``sslrootcert=FILE`` or the like is."""
    options = dict(parse_qsl(url.partition("?")[2], keep_blank_values=True))
    for name in ("sslrootcert", "sslcert", "sslkey", "sslcrl"):
        file = options.get(name) or os.environ.get(f"PG{name.upper()}", "")
        if file and not os.path.exists(file):
            return f"{name}: there is no file {file}"
    return "there is no such socket"


def _configuration(error: ValueError) -> str:
    text = str(error).partition("\n")[0]
    if "invalid literal for int()" in text:
        return "cannot connect to PostgreSQL: the port is not a number"
    known = ("`sslmode`", "`sslnegotiation`", "root certificate", "certificate", "TLS version")
    problem = text if any(word in text for word in known) else "a parameter has a wrong value"
    return f"cannot connect to PostgreSQL: {problem}"


def _connect_failure(error: Exception, url: str) -> KeytablesError:
    text = str(error).partition("\n")[0]
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unavailable(f"the certificate of PostgreSQL is refused: {error.verify_message}")
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return Unavailable(_configuration(error))
    if "unsupported startup parameter" in text:
        return Unavailable(_POOLER)
    if isinstance(error, asyncpg.PostgresError):
        if error.sqlstate in ("53300", "53400"):
            return ConnectionLost(f"PostgreSQL has no free connection: {text} (max_connections)")
        if error.sqlstate in ENDED:
            return ConnectionLost(f"PostgreSQL is not ready: {text}")
        return Unavailable(f"PostgreSQL refused the connection: {text}")
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return ConnectionLost("none of the hosts has the target_session_attrs")
    if isinstance(error, TimeoutError):
        return ConnectionLost("PostgreSQL did not answer in time")
    if isinstance(error, FileNotFoundError):
        return ConnectionLost(f"cannot connect to PostgreSQL: {_missing_file(url)}")
    if "connection_lost" in text:  # the client's word for it
        return ConnectionLost("cannot connect to PostgreSQL: it closed the connection")
    if isinstance(error, OSError):
        return ConnectionLost(f"cannot connect to PostgreSQL: {error}")
    return ConnectionLost(f"cannot connect to PostgreSQL: {type(error).__name__}")


class Pool:
    """At most ``size`` sessions, opened when they are needed and kept.

    While none can be opened, one attempt at a time is made, with growing pauses. ``failures`` gets
    each read that fails, and is told when fewer sessions can be opened than are needed: callers do
    without, and only wait longer.
    """

    def __init__(self, connector: Connector, size: int, failures: FailureReports) -> None:
        self._connector, self._size, self._failure_reports = connector, size, failures
        self._loop = asyncio.get_running_loop()
        self._idle: list[Session] = []
        self._count = 0
        self._waiting: deque[asyncio.Future[Session | None]] = deque()
        self._failures = self._attempts = 0
        self._next_attempt = 0.0
        self._last_failure: KeytablesError | None = None
        self._in_use: set[Session] = set()
        self.is_closed = False

    async def fetch(self, sql: str, *values: object, table: str = "") -> list[Any]:
        """Return the rows of a statement that may be repeated, and is while its connection breaks.

        Raises Throttled: all sessions are in use for too long, or the database is out of reach.
        """
        deadline = self._loop.time() + TIMEOUT
        attempts: Attempts | None = None
        while True:
            try:
                session = self._take_idle() or await self._acquire(deadline)
                try:
                    return await session.fetch(sql, *values, table=table, answer_by=deadline)
                finally:
                    self._release(session)
            except ConnectionLost as error:
                if attempts is None:
                    attempts = Attempts(_READ_BACKOFF, deadline)
                pause = attempts.next_delay(self._loop.time())
                if pause is None or self.is_closed:
                    self._failure_reports.report(error)
                    # Nothing was changed, and the database may soon be back.
                    raise OutOfReach(str(error)) from error
            except KeytablesError as error:
                self._failure_reports.report(error)
                raise
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A session for several statements. Raises Throttled: all are in use for too long;
        Unavailable: none can be opened.
        """
        session = await self._acquire(self._loop.time() + TIMEOUT)
        try:
            yield session
        finally:
            self._release(session)

    def _release(self, session: Session) -> None:
        if session.is_closed or self.is_closed:
            session.terminate()
            self._in_use.discard(session)
            self._count -= 1
            self._pass_on(None)
        # The one that has waited longest gets it, before one that asks only now.
        elif not self._pass_on(session):
            self._in_use.discard(session)
            self._idle.append(session)

    def _take_idle(self) -> Session | None:
        while self._idle:
            session = self._idle.pop()
            if not session.is_closed:
                self._in_use.add(session)
                return session
            self._count -= 1
        return None

    async def _acquire(self, deadline: float) -> Session:
        while True:
            if self.is_closed:
                raise StoreClosed("the store is closed")
            if (session := self._take_idle()) is not None:
                return session
            is_time = not self._attempts and self._loop.time() >= self._next_attempt
            may_attempt = not self._failures or is_time
            if self._count < self._size and may_attempt:
                if (opened := await self._open(deadline)) is not None:
                    self._in_use.add(opened)
                    return opened
                continue
            self._connector.activity.connection_waits += 1
            if (passed_on := await self._wait(deadline)) is not None:
                return passed_on

    async def _open(self, deadline: float) -> Session | None:
        self._count += 1
        self._attempts += 1
        # Others wait until this attempt has ended.
        self._next_attempt = deadline
        try:
            session = await self._connector.connect(deadline)
        except BaseException as error:
            self._count -= 1
            self._failures += 1
            self._next_attempt = self._loop.time() + _BACKOFF.delay(self._failures)
            if isinstance(error, ConnectionLost):
                # One that the caller's deadline ended says less than the one before it.
                if self._last_failure is None or self._loop.time() < deadline:
                    self._last_failure = error
                if self._count:
                    self._failure_reports.report(error)
                return None
            self._pass_on(None)  # another one may attempt it: this caller does not try again
            raise
        finally:
            self._attempts -= 1
        self._failures = 0
        self._last_failure = None
        return session

    async def _wait(self, deadline: float) -> Session | None:
        """Return the next session that is free; None: there may be one, or it may be opened."""
        now = self._loop.time()
        if now >= deadline:
            if self._last_failure is not None:
                raise ConnectionLost(str(self._last_failure)) from self._last_failure
            raise Throttled(f"all {self._size} connections to the database are in use")
        if len(self._waiting) >= MAX_WAITING:
            raise Throttled(f"{len(self._waiting)} reads wait for a connection already")
        until = min(deadline, self._next_attempt) if self._failures else deadline
        future: asyncio.Future[Session | None] = self._loop.create_future()
        self._waiting.append(future)
        timer = self._loop.call_at(max(until, now + 0.001), self._end_wait, future)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                with suppress(ValueError):  # it was skipped meanwhile
                    self._waiting.remove(future)
            elif (passed_on := future.result()) is None:
                self._pass_on(None)
            else:
                self._release(passed_on)
            raise
        finally:
            timer.cancel()

    def _end_wait(self, future: "asyncio.Future[Session | None]") -> None:
        if not future.done():
            self._waiting.remove(future)
            future.set_result(None)

    def _pass_on(self, session: Session | None) -> bool:
        """Give a session to the first that waits (None: it is to look again), if one does."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(session)
                return True
        return False

    async def close(self) -> None:
        self.is_closed = True
        while self._pass_on(None):
            pass
        for session in self._in_use:
            session.terminate()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(session.close() for session in idle))
