"""The wire client: one call of the database's API in, its answer or a typed error out.

The rule: a call ends in time, and its answer tells whether an earlier try of it may have been
applied; nothing that was sent or signed with is in any error.
"""

import asyncio
import functools
import random
import ssl
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, Self

import botocore.session
import msgspec
from botocore.exceptions import BotoCoreError

from keytables.dynamodb.connection import Answer, Lost, NotSent
from keytables.dynamodb.credentials import (
    MADE_UP,
    WAYS,
    Found,
    Keeper,
    find_credentials,
    in_thread,
)
from keytables.dynamodb.endpoint import Endpoint, check_region, endpoint_of, parse_endpoint
from keytables.dynamodb.faults import Kind, read_fault
from keytables.dynamodb.nodes import Cluster, Nodes
from keytables.dynamodb.pool import Crowded, Pool
from keytables.dynamodb.retries import LEAST, PATIENCE, Course, ServiceError, try_seconds
from keytables.dynamodb.signature import Credentials, Signer
from keytables.engine import Clock
from keytables.errors import Unavailable

__all__ = ["PATIENCE", "Client", "Reply", "ServiceError"]

OPEN: Final = 60.0
"""Seconds for finding credentials and endpoint at the start."""
GRACE: Final = 5.0
"""Seconds for which ``close`` waits for calls under way."""
SKEW: Final = 60.0
"""Seconds of difference from the server's clock that explain a refused signature."""


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A success. ``repeated``: an earlier try of this call may have been applied."""

    body: bytes
    repeated: bool


class Client:
    """Calls to one database. Belongs to the event loop it was opened on."""

    def __init__(
        self, prepared: "_Prepared", nodes: Nodes, *, clock: Clock, random: Callable[[], float]
    ) -> None:
        self._nodes = nodes
        self._clock = clock
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._make_signer = functools.partial(
            Signer, region=prepared.region, authority=prepared.endpoint.authority
        )
        self._signer = self._make_signer(prepared.found.credentials)
        self._keeper = Keeper(prepared.found, prepared.load, self._sign_with)
        self._active = 0
        self._closed = False  # no call begins any more
        self._over = False  # nor goes on
        self._drained: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        *,
        region: str,
        endpoint: str | None = None,
        connections: int = 50,
        alternator: bool = False,
        clock: Clock = time.time,
        max_waiting: int = 1000,
        tls: ssl.SSLContext | None = None,
        credentials: Callable[[], Found | None] | None = None,
        random: Callable[[], float] = random.random,
    ) -> Self:
        """Find endpoint and credentials. Nothing is sent yet, but to an Alternator cluster.

        ``region`` may be empty: the one the environment and files of AWS name, else us-east-1.
        ``endpoint``: URL of a server in place of the region's. ``connections`` per server;
        ``max_waiting``: calls that wait for one, further ones are Throttled. ``clock``: requests
        are signed by it. ``tls`` and ``credentials`` (blocking; asked again before they expire)
        replace what botocore's configuration says.

        Raises Unavailable: no such region, no credentials (a server on this machine needs none).
        ValueError: no such URL.
        """
        server = None if endpoint is None else parse_endpoint(endpoint)
        prepare = functools.partial(_prepare, region, server, tls, credentials)
        try:
            prepared = await asyncio.wait_for(in_thread(prepare), OPEN)
        except TimeoutError:
            raise Unavailable(f"no AWS credentials were found in {OPEN:.0f} s. {WAYS}") from None

        def connect(host: str) -> Pool:
            return Pool(
                host,
                prepared.endpoint.port,
                size=connections,
                max_waiting=max_waiting,
                tls=prepared.tls,
                server_name=prepared.endpoint.host,
            )

        contact = connect(prepared.endpoint.host)
        if not alternator:
            return cls(prepared, Nodes(contact), clock=clock, random=random)
        cluster = Cluster(contact, authority=prepared.endpoint.authority, connect=connect)
        try:
            await cluster.begin()
        except asyncio.CancelledError:
            cluster.close()
            raise
        return cls(prepared, cluster, clock=clock, random=random)

    async def call(
        self,
        operation: str,
        body: bytes,
        *,
        table: str | None = None,
        patience: float = PATIENCE,
    ) -> Reply:
        """Call an operation with a JSON body, again if need be, for ``patience`` seconds in all.

        ``table`` is for error texts. Raises Throttled, Unavailable, AccessRefused; ServiceError for
        what the caller has to judge.
        """
        if self._closed:
            raise Unavailable("the client is closed")
        now = self._loop.time
        deadline = now() + patience
        left = patience
        course: Course | None = None
        outcome: Answer | NotSent | Lost
        self._active += 1
        try:
            while not self._over:
                pool = self._nodes.next()
                signer = self._signer
                try:
                    connection = pool.take()
                    if connection is None:
                        connection = await pool.wait(left - LEAST)
                        left = deadline - now()
                    outcome = await connection.exchange(
                        signer.request(operation, body, self._clock()),
                        min(try_seconds(patience), max(left, LEAST)),
                    )
                    if outcome.status == 200 and outcome.body.startswith(b"{"):
                        return Reply(outcome.body, course is not None and course.repeated)
                except (NotSent, Lost) as failure:
                    outcome = failure.with_traceback(None)  # that would be a cycle
                if course is None:
                    course = Course(
                        operation, table, deadline=deadline, patience=patience, random=self._random
                    )
                await self._recover(course, outcome, pool, signer, deadline)
                left = deadline - now()
            raise Unavailable("the client is closed")
        finally:
            self._active -= 1
            if self._drained is not None and not self._active and not self._drained.done():
                self._drained.set_result(None)

    async def close(self) -> None:
        """Wait for the calls under way, but not long; then end them and all connections.

        Idempotent. Calls after it fail with Unavailable.
        """
        self._closed = True
        if self._active and not self._over:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.wait([self._drained], timeout=GRACE)
        self._over = True
        self._keeper.close()
        self._nodes.close()

    def _sign_with(self, credentials: Credentials) -> None:
        self._signer = self._make_signer(credentials, skew=self._signer.skew)

    async def _recover(
        self,
        course: Course,
        outcome: Answer | NotSent | Lost,
        pool: Pool,
        signer: Signer,
        deadline: float,
    ) -> None:
        """Return when the call is to be tried again; raises how it ends otherwise."""
        now = self._loop.time()
        if isinstance(outcome, Answer):
            fault = read_fault(outcome)
            mended = False
            if fault.kind is Kind.CREDENTIALS and course.first("credentials"):
                mended = await self._keeper.renew(signer.credentials, deadline - now)
            elif fault.kind is Kind.SIGNATURE and course.first("clock"):
                mended = self._correct(signer.skew, outcome.date)
            pause = course.answered(fault, self._loop.time(), mended=mended)
        elif isinstance(outcome, Lost):
            if outcome.stale:
                pool.discard_idle()
            else:
                self._nodes.failed(pool)
            pause = course.lost(outcome, now)
        else:
            if not isinstance(outcome, Crowded):
                self._nodes.failed(pool)
            pause = course.not_sent(outcome, now)
        await asyncio.sleep(pause)

    def _correct(self, refused: float, date: bytes) -> bool:
        """Set the clock by the server's; False if the one that was refused was right."""
        try:
            skew = parsedate_to_datetime(date.decode("latin-1")).timestamp() - self._clock()
        except ValueError:
            return False
        if abs(skew - refused) <= SKEW:
            return False
        self._signer = self._make_signer(self._signer.credentials, skew=skew)
        return True


class _Prepared(msgspec.Struct, frozen=True):
    """What is found out at the start. ``load`` asks for credentials again."""

    region: str
    endpoint: Endpoint
    tls: ssl.SSLContext | None
    found: Found
    load: Callable[[], Found | None]


def _prepare(
    region: str,
    endpoint: Endpoint | None,
    tls: ssl.SSLContext | None,
    load: Callable[[], Found | None] | None,
) -> _Prepared:
    """The part of the start that blocks."""
    session = botocore.session.Session()
    try:
        region = check_region(region or session.get_config_variable("region") or "us-east-1")
        authorities = session.get_config_variable("ca_bundle")
    except BotoCoreError as exc:
        raise Unavailable(f"the configuration of AWS cannot be used: {exc}. {WAYS}") from exc
    server = endpoint or endpoint_of(session, region)
    if load is None:
        load = functools.partial(find_credentials, region, role=not server.loopback)
    found = load()
    if found is None:
        if not server.loopback:
            raise Unavailable(f"no AWS credentials were found. {WAYS}")
        found = MADE_UP
    if server.tls and tls is None:
        try:
            tls = ssl.create_default_context(cafile=authorities)
        except OSError as exc:
            raise Unavailable(f"the CA bundle {authorities} cannot be used: {exc}") from exc
    return _Prepared(region, server, tls if server.tls else None, found, load)
