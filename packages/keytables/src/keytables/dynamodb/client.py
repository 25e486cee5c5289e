"""The wire client: sends one call of the database's API, returns its response or a typed error.

Rule: a call ends in time, and its result tells whether an earlier attempt of it may have been
applied; no error contains anything that was sent or signed with.
"""

import asyncio
import functools
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import Final, Protocol, Self

import msgspec

from keytables.dynamodb.aws import Configuration, LoadCredentials, resolve_configuration
from keytables.dynamodb.connections import (
    ConnectionLimits,
    ConnectionPool,
    Host,
    HostRotation,
    HttpResponse,
    NotSent,
    PoolExhausted,
    ResponseLost,
    parse_endpoints,
)
from keytables.dynamodb.retries import CALL_TIMEOUT, ErrorKind, RetryPolicy, RetryState, read_error
from keytables.dynamodb.signing import (
    CREDENTIALS_HELP,
    CredentialRefresher,
    Credentials,
    RefreshTimes,
    Signer,
    run_in_thread,
)
from keytables.engine import Clock
from keytables.errors import Unavailable
from keytables.retries import MIN_REMAINING

OPEN_TIMEOUT: Final = 60.0
"""Seconds for finding credentials and endpoint."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds for which ``close`` waits for running calls."""
MAX_SKEW: Final = 60.0
"""Seconds of clock difference that do not explain a refused signature."""


class ApiResponse(msgspec.Struct, frozen=True, gc=False):
    """A success. ``maybe_applied``: an earlier attempt of this call may have been applied.
    ``date``: the server's, as an HTTP header.
    """

    body: bytes
    maybe_applied: bool
    date: bytes = b""


class ApiClient(Protocol):
    async def call(
        self,
        operation: str,
        body: bytes,
        *,
        table: str | None = None,
        time_limit: float = CALL_TIMEOUT,
    ) -> ApiResponse:
        """Call an operation with a JSON body, with retries, for ``time_limit`` seconds in all.

        ``table`` is for error texts. Raises Throttled, Unavailable, AccessRefused; ServiceError for
        what the caller has to interpret.
        """
        ...

    async def close(self) -> None:
        """Wait a moment for running calls, then close. Idempotent. Later calls fail with
        Unavailable.
        """
        ...


class Client:
    """The :class:`ApiClient` of a database. Belongs to the event loop it was opened on."""

    def __init__(
        self,
        hosts: HostRotation,
        configuration: Configuration,
        *,
        clock: Clock,
        retries: RetryPolicy,
        refresh: RefreshTimes,
    ) -> None:
        self._hosts, self._clock, self._retries = hosts, clock, retries
        self._loop = asyncio.get_running_loop()
        self._refresher = CredentialRefresher(
            configuration.loaded, configuration.load, self._set_credentials, refresh
        )
        self._calls = 0  # running
        self._closing = False  # no new calls
        self._closed = False  # running calls end too
        self._idle: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        region: str,
        endpoint: str | None = None,
        connections: int = 50,
        clock: Clock = time.time,
        max_waiting: int = 1000,
        tls: ssl.SSLContext | None = None,
        credentials: LoadCredentials | None = None,
        retries: RetryPolicy | None = None,
        limits: ConnectionLimits | None = None,
        refresh: RefreshTimes | None = None,
        open_timeout: float = OPEN_TIMEOUT,
    ) -> Self:
        """Find the servers and credentials. Nothing is sent yet.

        ``region``: empty for the one of AWS's environment and files, else us-east-1. ``endpoint``:
        URL of a server in place of the region's, or several, separated by commas. ``connections``:
        per server. ``max_waiting``: calls that wait for one; further ones are Throttled. ``clock``:
        for signatures. ``tls``, ``credentials`` (blocking; called again before they expire): in
        place of the environment's and botocore's. Raises Unavailable: no such region, no
        credentials (servers on this machine need none), botocore is needed and not installed;
        ValueError: no such URL.
        """
        endpoints = None if endpoint is None else parse_endpoints(endpoint)
        resolve = functools.partial(resolve_configuration, region, endpoints, tls, credentials)
        try:
            configuration = await asyncio.wait_for(run_in_thread(resolve), open_timeout)
        except TimeoutError:
            raise Unavailable(
                f"no AWS credentials were found in {open_timeout:.0f} s. {CREDENTIALS_HELP}"
            ) from None
        hosts = [
            Host(
                each,
                ConnectionPool(
                    each.host,
                    each.port,
                    size=connections,
                    max_waiting=max_waiting,
                    tls=configuration.tls if each.tls else None,
                    limits=limits or ConnectionLimits(),
                ),
                region=configuration.region,
                credentials=configuration.loaded.credentials,
                now=asyncio.get_running_loop().time,
            )
            for each in configuration.endpoints
        ]
        return cls(
            HostRotation(hosts),
            configuration,
            clock=clock,
            retries=retries or RetryPolicy(),
            refresh=refresh or RefreshTimes(),
        )

    async def call(
        self,
        operation: str,
        body: bytes,
        *,
        table: str | None = None,
        time_limit: float = CALL_TIMEOUT,
    ) -> ApiResponse:
        if self._closing:
            raise Unavailable("the client is closed")
        now, policy = self._loop.time, self._retries
        deadline = now() + time_limit
        left = time_limit
        state: RetryState | None = None
        result: HttpResponse | NotSent | ResponseLost
        self._calls += 1
        try:
            while not self._closed:
                host = self._hosts.next()
                pool, signer = host.pool, host.signer
                try:
                    connection = pool.take_idle()
                    if connection is None:
                        connection = await pool.acquire(left - MIN_REMAINING)
                        left = deadline - now()
                    result = await connection.exchange(
                        signer.request(operation, body, self._clock()),
                        min(policy.seconds_per_attempt(time_limit), max(left, MIN_REMAINING)),
                    )
                    if host.circuit.failures:
                        host.circuit.on_success()
                    if result.status == 200 and result.body.startswith(b"{"):
                        maybe_applied = state is not None and state.maybe_applied
                        return ApiResponse(result.body, maybe_applied, result.date)
                except (NotSent, ResponseLost) as failure:
                    result = failure.with_traceback(None)  # which would be a reference cycle
                if state is None:
                    state = RetryState(
                        operation, table, policy=policy, deadline=deadline, time_limit=time_limit
                    )
                await asyncio.sleep(await self._recover(state, result, host, signer, deadline))
                left = deadline - now()
            raise Unavailable("the client is closed")
        finally:
            self._calls -= 1
            if self._idle is not None and not self._calls and not self._idle.done():
                self._idle.set_result(None)

    async def close(self, *, grace: float = CLOSE_TIMEOUT) -> None:
        self._closing = True
        if self._calls and not self._closed:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=grace)
        self._closed = True
        self._refresher.close()
        self._hosts.close()

    async def _recover(
        self,
        state: RetryState,
        result: HttpResponse | NotSent | ResponseLost,
        host: Host,
        signer: Signer,
        deadline: float,
    ) -> float:
        """Return the delay before the next attempt, or raise the error that the call ends with."""
        now = self._loop.time()
        if isinstance(result, HttpResponse):
            error = read_error(result)
            repaired = False
            if error.kind is ErrorKind.CREDENTIALS and state.first_use("credentials"):
                repaired = await self._refresher.renew(signer.credentials, deadline - now)
            elif error.kind is ErrorKind.SIGNATURE and state.first_use("clock"):
                repaired = self._correct_clock(signer.skew, result.date)
            return state.on_error(error, self._loop.time(), repaired=repaired)
        if isinstance(result, ResponseLost):
            if result.stale:
                host.pool.discard_idle()
            else:
                host.circuit.on_failure()
            return state.on_response_lost(result, now)
        if not isinstance(result, PoolExhausted):
            host.circuit.on_failure()
        return state.on_not_sent(result, now)

    def _correct_clock(self, refused_skew: float, date: bytes) -> bool:
        """Sign by the server's clock; return False if the refused signature was made by it."""
        sent = epoch_of(date)
        if sent is None:
            return False
        skew = sent - self._clock()
        if abs(skew - refused_skew) <= MAX_SKEW:
            return False
        for host in self._hosts.hosts:
            host.sign_with(host.signer.credentials, skew=skew)
        return True

    def _set_credentials(self, credentials: Credentials) -> None:
        for host in self._hosts.hosts:
            host.sign_with(credentials, skew=host.signer.skew)


def epoch_of(date: bytes) -> float | None:
    """Seconds since the epoch of a Date header; None for none."""
    try:
        return parsedate_to_datetime(date.decode("latin-1")).timestamp()
    except ValueError:
        return None
