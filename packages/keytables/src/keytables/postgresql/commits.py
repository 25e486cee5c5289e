"""A connection that commits, and learns what became of a commit whose answer was lost.

Rule: the outcome is read, never guessed. The server's process is ended, so that the commit cannot
be made any more, and then the row is looked for that each commit leaves in ``~commits``.
"""

import asyncio
import math
import random
from collections.abc import Sequence
from typing import Final

from keytables.engine import Clock
from keytables.errors import KeytablesError
from keytables.postgresql.connections import TIMEOUT, Backend, Connector, Session
from keytables.postgresql.failures import ConnectionLost, NoConnection, NotApplied
from keytables.retries import Attempts, Backoff

WRITE_TIMEOUT: Final = TIMEOUT
"""Seconds for which a commit is tried again that was not made."""

NO_STANDBY: Final = (
    "no synchronous standby confirms commits: start it, or change synchronous_standby_names"
)

_LOOKED_FOR: Final = 2 * TIMEOUT
"""Seconds for which a commit that may have been made is looked for."""

_BACKOFF: Final = Backoff(0.02, 0.5)
_FENCE_INTERVAL: Final = 0.02

_END_BACKEND: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
)
_WAITS_FOR_STANDBY: Final = """
SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2 AND wait_event = 'SyncRep'
"""


class CommitConnection:
    """One commit at a time. ``schema``: the quoted name of the store's schema."""

    def __init__(
        self, connector: Connector, schema: str, clock: Clock, session: Session | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector, self._clock, self._session = connector, clock, session
        self._lost: list[Backend] = []
        self.is_sent = False
        """Whether a commit was sent that may have been made."""
        self._random = random.Random()  # noqa: S311 - numbers that are not alike, no secrets
        # An update, so that the answer waits for what the lost one waited for: with a synchronous
        # standby, a session that is ended leaves a commit that may be on the primary alone.
        self._find = f'UPDATE {schema}."~commits" SET rows = rows WHERE id = $1 RETURNING rows'  # noqa: S608

    @property
    def is_open(self) -> bool:
        return self._session is not None and not self._session.is_closed

    async def commit(self, sql: str, arrays: Sequence[object], tables: str) -> frozenset[int]:
        """Execute the statement of a commit, whose first parameter is its ID; return the numbers of
        the changes whose guard held. ``tables``: for errors.
        """
        identifier = self._new_identifier()
        deadline = self._loop.time() + WRITE_TIMEOUT
        attempts = Attempts(_BACKOFF, deadline)
        sent_at = 0.0
        self.is_sent = False
        while True:
            try:
                session = await self.open(attempts.deadline)
                if self.is_sent:
                    committed = await session.fetch(self._find, identifier)
                    if committed:
                        return frozenset(committed[0][0])
                sent_at, self.is_sent = self._loop.time(), True
                rows = await session.fetch(
                    sql, identifier, *arrays, operation="INSERT", table=tables
                )
                return frozenset(rows[0][0])
            except ConnectionLost as error:
                last: KeytablesError = error
            except NotApplied as error:
                last, self.is_sent = error, False
            attempts.deadline = max(deadline, sent_at + _LOOKED_FOR if self.is_sent else 0.0)
            await attempts.wait(last if self.is_sent else _no_connection(last))

    async def what_it_waits_for(self, deadline: float) -> str:
        """Why the server does not answer a commit that was sent, "" if that is not known."""
        backend = self._session.backend if self._session is not None else None
        if backend is None:
            return ""
        try:
            session = await self._connector.connect(deadline)
        except KeytablesError:
            return ""  # the same that the commit meets
        try:
            waits = await session.fetch(
                _WAITS_FOR_STANDBY, backend.pid, backend.started, answer_by=deadline
            )
        except KeytablesError:
            return ""
        finally:
            session.terminate()
        return NO_STANDBY if waits else ""

    async def open(self, deadline: float = math.inf) -> Session:
        """Return the session; a new one only after those that were lost have ended."""
        if self._session is None or self._session.is_closed:
            if self._session is not None:
                self._lost.append(self._session.backend)
                self._session = None
            session = await self._connector.connect(deadline)
            try:
                await self._end_lost(session)
            except BaseException:
                session.terminate()
                raise
            self._session = session
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _new_identifier(self) -> str:
        bits = self._random.getrandbits(74)
        high, low = bits >> 62, bits & (2**62 - 1)
        # As text, which the client takes too: an object of uuid costs ten times as much.
        return f"{commit_time(self._clock()) | high << 64 | 2 << 62 | low:032x}"

    async def _end_lost(self, session: Session) -> None:
        deadline = self._loop.time() + TIMEOUT
        while self._lost:
            backend = self._lost[0]
            while await session.fetch(_END_BACKEND, backend.pid, backend.started):
                if self._loop.time() > deadline:
                    raise ConnectionLost("an earlier connection to the database does not end")
                await asyncio.sleep(_FENCE_INTERVAL)
            self._lost.pop(0)


def _no_connection(error: KeytablesError) -> KeytablesError:
    if isinstance(error, NotApplied):
        return error
    failure = NoConnection(str(error))
    failure.__cause__ = error
    return failure


def commit_time(now: float) -> int:
    """Return the least ID of a commit at this time (RFC 9562, UUIDv7)."""
    return (int(now * 1000) & (2**48 - 1)) << 80 | 7 << 76
