"""The connections to one server: limits, order, failures, cancelled callers, closing."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from keytables.dynamodb.connections import (
    Connection,
    ConnectionLimits,
    ConnectionPool,
    HttpResponse,
    NotSent,
    PoolExhausted,
    ResponseLost,
)
from support.scripted_server import Exchange, ScriptedServer, ok
from support.sockets import full_port, unused_port

BOTH_LOOPS = True

REQUEST = b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n"

running = ScriptedServer.running
MakePool = Callable[..., ConnectionPool]


@pytest.fixture
async def make_pool() -> AsyncIterator[MakePool]:
    made: list[ConnectionPool] = []

    def make(
        port: int, *, size: int = 2, max_waiting: int = 100, limits: ConnectionLimits | None = None
    ) -> ConnectionPool:
        pool = ConnectionPool(
            "127.0.0.1",
            port,
            size=size,
            max_waiting=max_waiting,
            limits=limits or ConnectionLimits(),
        )
        made.append(pool)
        return pool

    yield make
    for pool in made:
        pool.close()


async def exchange(connection: Connection) -> HttpResponse:
    return await connection.exchange(REQUEST, 10)


async def waiting(pool: ConnectionPool, number: int) -> "list[asyncio.Task[Connection]]":
    """So many callers that wait, in this order."""
    tasks = [asyncio.create_task(pool.acquire(10)) for _ in range(number)]
    await asyncio.sleep(0)
    return tasks


async def test_the_connection_used_last_is_taken_first(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port)
        first, second = await asyncio.gather(pool.acquire(10), pool.acquire(10))
        await exchange(first)
        await exchange(second)
        assert pool.take_idle() is second
        assert pool.take_idle() is first
        assert pool.take_idle() is None


async def test_callers_are_served_in_order(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.acquire(10)
        tasks = await waiting(pool, 3)
        for number in range(3):
            await exchange(connection)
            await asyncio.sleep(0)
            assert [task.done() for task in tasks] == [n <= number for n in range(3)]
            assert tasks[number].result() is connection
        assert server.connections == 1


async def test_callers_above_the_limit_of_waiting_ones_are_refused(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1, max_waiting=2)
        connection = await pool.acquire(10)
        tasks = await waiting(pool, 2)
        with pytest.raises(PoolExhausted, match="2 calls are waiting"):
            await pool.acquire(10)
        tasks[0].cancel()
        await asyncio.sleep(0)
        late = await waiting(pool, 1)  # there is a place again
        late[0].cancel()
        await asyncio.sleep(0)
        with pytest.raises(PoolExhausted, match="in time"):
            await pool.acquire(0.0)
        late = await waiting(pool, 1)  # and once more
        for task in (tasks[1], *late):
            await exchange(connection)
            assert await task is connection


async def test_a_connection_that_closes_is_replaced(make_pool: MakePool) -> None:
    async with running([ok(Connection="close")]) as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.acquire(10)
        (task,) = await waiting(pool, 1)
        await exchange(connection)
        assert await task is not connection
        assert server.connections == 2


async def test_a_failure_to_connect_is_raised_in_each_waiting_caller(make_pool: MakePool) -> None:
    pool = make_pool(unused_port(), size=1)
    tasks = await waiting(pool, 3)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [NotSent] * 3


async def test_connecting_has_a_time_limit(make_pool: MakePool) -> None:
    with full_port() as port:
        pool = make_pool(port, limits=ConnectionLimits(connect_timeout=0.05))
        with pytest.raises(NotSent, match="connecting took too long"):
            await pool.acquire(10)


async def test_a_caller_whose_time_is_up_gets_the_reason(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.acquire(10)
        with pytest.raises(PoolExhausted, match="no connection became free in time"):
            await pool.acquire(0.01)
        await exchange(connection)
        assert pool.take_idle() is connection  # it is not reserved for the caller
    with full_port() as port, pytest.raises(NotSent, match="connecting took too long"):
        await make_pool(port).acquire(0.01)


async def test_a_connection_given_to_a_cancelled_caller_is_not_lost(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.acquire(10)
        first, second = await waiting(pool, 2)
        response = connection.exchange(REQUEST, 10)
        response.add_done_callback(lambda _: first.cancel())  # after the connection was given to it
        assert await second is connection
        assert first.cancelled()


async def test_connecting_goes_on_when_its_caller_is_cancelled(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        (task,) = await waiting(pool, 1)
        task.cancel()
        await exchange(await pool.acquire(10))
        assert server.connections == 1


async def test_a_coroutine_that_is_closed_while_it_waits_is_forgotten(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.acquire(10)
        abandoned = pool.acquire(10)
        abandoned.send(None)
        abandoned.close()
        await exchange(connection)
        assert pool.take_idle() is connection


async def test_idle_connections_can_be_discarded(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port)
        idle, busy = await asyncio.gather(pool.acquire(10), pool.acquire(10))
        await exchange(idle)
        pool.discard_idle()
        assert pool.take_idle() is None
        await server.until(lambda: server.closed == 1)
        await exchange(busy)
        assert pool.take_idle() is busy


async def test_a_closed_pool_makes_no_connection(make_pool: MakePool) -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with running([silent]) as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.acquire(10)
        response = connection.exchange(REQUEST, 10)
        await server.until(lambda: len(server.requests) == 1)
        (task,) = await waiting(pool, 1)
        pool.close()
        with pytest.raises(ResponseLost, match="the client is closed"):
            await response
        with pytest.raises(NotSent, match="the client is closed"):
            await task
        with pytest.raises(NotSent):
            await pool.acquire(0.01)
        assert server.connections == 1
