"""A pool under a storm of reads: what it asks of the database, and how long anybody waits.

Pools of another service made a connection for each caller while the database was away, past its
circuit breaker; and let callers queue without limit while all connections were in use.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from keytables import OutOfReach, Throttled
from keytables.engine import Activity
from keytables.failures import FailureReports
from keytables.postgresql import connections
from keytables.postgresql.connections import Connector, Pool
from keytables.postgresql.failures import ConnectionLost

VIRTUAL_TIME = True

SIZE, CALLERS = 4, 300


class FakeSession:
    """Answers when it is told to."""

    is_closed = False

    def __init__(self, may_answer: asyncio.Event) -> None:
        self._may_answer = may_answer

    async def fetch(self, sql: str, *values: object, **options: object) -> list[Any]:
        await self._may_answer.wait()
        await asyncio.sleep(0)
        return [sql]

    def terminate(self) -> None:
        self.is_closed = True

    async def close(self) -> None:
        self.is_closed = True


class FakeDatabase:
    """Opens sessions, unless it is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.activity = Activity()
        self.may_answer = asyncio.Event()
        self.attempts = self.under_way = self.most_under_way = self.opened = 0
        self.seconds = 0.01
        self.silent_after = math.inf
        """How many attempts are answered."""
        self.tried = asyncio.Event()
        """Set when as many attempts have ended as the pool may have sessions."""

    async def connect(self, deadline: float = 0.0) -> FakeSession:
        self.attempts += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if self.attempts > self.silent_after:
            await asyncio.sleep(deadline - asyncio.get_running_loop().time())
            raise ConnectionLost("no answer in time")
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        if self.attempts >= SIZE and not self.under_way:
            self.tried.set()
        if self.is_away:
            raise ConnectionLost("nothing listens")
        self.opened += 1
        return FakeSession(self.may_answer)


@pytest.fixture
async def database() -> FakeDatabase:
    return FakeDatabase()


@pytest.fixture
async def pool(database: FakeDatabase) -> AsyncIterator[Pool]:
    opened = Pool(cast(Connector, database), SIZE, FailureReports())
    yield opened
    await opened.close()


def read(pool: Pool, count: int) -> list["asyncio.Task[list[Any]]"]:
    return [asyncio.ensure_future(pool.fetch("SELECT")) for _ in range(count)]


async def failures(reads: list["asyncio.Task[list[Any]]"]) -> list[BaseException]:
    results = await asyncio.gather(*reads, return_exceptions=True)
    return [result for result in results if isinstance(result, BaseException)]


async def test_a_storm_of_reads_makes_one_attempt_at_a_time_while_the_database_is_away(
    database: FakeDatabase, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TIMEOUT", 0.5)
    database.is_away = True
    await asyncio.gather(*read(pool, SIZE), return_exceptions=True)
    database.attempts = database.most_under_way = 0
    database.seconds = 0.7  # longer than the first have time
    reads = read(pool, CALLERS)
    await asyncio.sleep(0.1)
    reads += read(pool, CALLERS)  # whose time is not over when that of the first is
    failed = await failures(reads)
    assert {type(error) for error in failed} == {OutOfReach}
    assert len(failed) == 2 * CALLERS
    assert database.most_under_way <= 1
    assert database.attempts <= 5


async def test_an_attempt_that_the_last_moment_leaves_no_time_hides_no_reason(
    database: FakeDatabase, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TIMEOUT", 0.5)
    database.is_away = True
    database.silent_after = 1
    with pytest.raises(OutOfReach, match="nothing listens"):
        await pool.fetch("SELECT")
    assert database.attempts == 2


async def test_a_database_that_is_back_gets_no_more_sessions_than_the_pool_has(
    database: FakeDatabase, pool: Pool
) -> None:
    database.is_away = True
    reads = read(pool, CALLERS)
    await database.tried.wait()
    database.is_away = False
    database.may_answer.set()
    assert await failures(reads) == []
    assert database.opened <= SIZE


async def test_beyond_a_number_of_waiting_reads_further_ones_are_refused_at_once(
    database: FakeDatabase, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_WAITING", 10)
    reads = read(pool, SIZE + 10)
    await database.tried.wait()
    with pytest.raises(Throttled, match="10 reads wait for a connection already"):
        await pool.fetch("SELECT")
    database.may_answer.set()
    assert await failures(reads) == []


async def test_nobody_waits_longer_than_the_limit_for_connections_that_are_in_use(
    database: FakeDatabase, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TIMEOUT", 0.1)
    busy = read(pool, SIZE)
    await database.tried.wait()
    failed = await failures(read(pool, CALLERS))
    assert [str(error) for error in failed] == [
        f"all {SIZE} connections to the database are in use"
    ] * CALLERS
    database.may_answer.set()
    assert await failures(busy) == []


async def test_a_session_that_becomes_free_is_for_the_read_that_has_waited_longest(
    database: FakeDatabase, pool: Pool
) -> None:
    ended: list[str] = []

    async def read_repeatedly(times: int, name: str) -> None:
        for _ in range(times):
            await pool.fetch("SELECT")
            ended.append(name)

    busy = [asyncio.ensure_future(read_repeatedly(10, "busy")) for _ in range(SIZE)]
    await database.tried.wait()
    late = asyncio.ensure_future(read_repeatedly(1, "late"))
    await asyncio.sleep(0)
    database.may_answer.set()
    await asyncio.gather(*busy, late)
    assert ended.index("late") <= 2 * SIZE


async def test_a_read_that_is_given_up_while_it_waits_takes_no_session(
    database: FakeDatabase, pool: Pool
) -> None:
    busy = read(pool, SIZE)
    await database.tried.wait()
    [waiting, other] = read(pool, 2)
    await asyncio.sleep(0)
    waiting.cancel()
    database.may_answer.set()
    assert await failures([*busy, other]) == []
    assert waiting.cancelled()
    assert await failures(read(pool, SIZE)) == []
    assert database.opened == SIZE


async def test_a_read_that_is_given_up_while_it_connects_leaves_the_attempt_to_the_next(
    database: FakeDatabase, pool: Pool
) -> None:
    database.may_answer.set()
    connecting = read(pool, SIZE)
    [waiting] = read(pool, 1)
    await asyncio.sleep(0)
    for each in connecting:
        each.cancel()
    async with asyncio.timeout(connections.TIMEOUT / 2):
        assert await waiting == ["SELECT"]
    assert database.opened == 1
