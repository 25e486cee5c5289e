"""The connections to one server: bounds, order, failures, cancelled callers, the end."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from keytables.dynamodb import pool as module
from keytables.dynamodb.connection import Answer, Connection, Lost, NotSent
from keytables.dynamodb.pool import Crowded, Pool
from support.scripted_server import Exchange, ScriptedServer, ok
from support.sockets import full_port, unused_port

BOTH_LOOPS = True

ASK = b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 0\r\n\r\n"

running = ScriptedServer.running
MakePool = Callable[..., Pool]


@pytest.fixture
async def make_pool() -> AsyncIterator[MakePool]:
    made: list[Pool] = []

    def make(port: int, *, size: int = 2, max_waiting: int = 100) -> Pool:
        made.append(Pool("127.0.0.1", port, size=size, max_waiting=max_waiting))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


async def exchange(connection: Connection) -> Answer:
    return await connection.exchange(ASK, 10)


async def waiting(pool: Pool, number: int) -> "list[asyncio.Task[Connection]]":
    """So many callers, each of whom has begun to wait, in this order."""
    tasks = [asyncio.create_task(pool.wait(10)) for _ in range(number)]
    await asyncio.sleep(0)
    return tasks


async def test_the_connection_used_last_is_taken_first(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port)
        first, second = await asyncio.gather(pool.wait(10), pool.wait(10))
        await exchange(first)
        await exchange(second)
        assert pool.take() is second
        assert pool.take() is first
        assert pool.take() is None


async def test_who_waits_is_served_in_order(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.wait(10)
        tasks = await waiting(pool, 3)
        for number in range(3):
            await exchange(connection)
            await asyncio.sleep(0)
            assert [task.done() for task in tasks] == [n <= number for n in range(3)]
            assert tasks[number].result() is connection
        assert server.connections == 1


async def test_there_are_never_more_connections_than_the_bound(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=3)
        tasks = await waiting(pool, 10)
        for task in tasks:
            await exchange(await task)
        assert server.connections == 3


async def test_above_the_bound_of_waiting_callers_none_is_taken(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1, max_waiting=2)
        connection = await pool.wait(10)
        tasks = await waiting(pool, 2)
        with pytest.raises(Crowded, match="2 calls are waiting"):
            await pool.wait(10)
        tasks[0].cancel()
        await asyncio.sleep(0)
        late = await waiting(pool, 1)  # there is room again
        late[0].cancel()
        await asyncio.sleep(0)
        with pytest.raises(Crowded, match="in time"):
            await pool.wait(0.0)
        late = await waiting(pool, 1)  # and again
        for task in (tasks[1], *late):
            await exchange(connection)
            assert await task is connection


async def test_a_connection_that_ends_makes_room_for_another(make_pool: MakePool) -> None:
    async with running([ok(Connection="close")]) as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.wait(10)
        (task,) = await waiting(pool, 1)
        await exchange(connection)
        assert await task is not connection
        assert server.connections == 2


async def test_a_failure_to_connect_is_told_to_each_who_waits_in_turn(
    make_pool: MakePool,
) -> None:
    pool = make_pool(unused_port(), size=1)
    tasks = await waiting(pool, 3)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [NotSent] * 3


async def test_connecting_that_hangs_is_given_up(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT", 0.05)
    with full_port() as port:
        pool = make_pool(port)
        with pytest.raises(NotSent, match="connecting took too long"):
            await pool.wait(10)


async def test_a_caller_whose_time_is_up_hears_why(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.wait(10)
        with pytest.raises(Crowded, match="no connection came free in time"):
            await pool.wait(0.01)
        await exchange(connection)
        assert pool.take() is connection  # it was kept for nobody
    with full_port() as port, pytest.raises(NotSent, match="connecting took too long"):
        await make_pool(port).wait(0.01)


async def test_a_connection_handed_to_a_caller_that_has_gone_is_not_lost(
    make_pool: MakePool,
) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.wait(10)
        first, second = await waiting(pool, 2)
        answer = connection.exchange(ASK, 10)
        answer.add_done_callback(lambda _: first.cancel())  # handed over, not yet taken
        assert await second is connection
        assert first.cancelled()


async def test_connecting_goes_on_for_the_next_when_its_caller_has_gone(
    make_pool: MakePool,
) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        (task,) = await waiting(pool, 1)
        task.cancel()
        await exchange(await pool.wait(10))
        assert server.connections == 1


async def test_a_caller_that_is_closed_while_it_waits_is_forgotten(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.wait(10)
        abandoned = pool.wait(10)
        abandoned.send(None)
        abandoned.close()
        await exchange(connection)
        assert pool.take() is connection


async def test_a_connection_ended_by_the_server_is_not_handed_out(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port)
        connection = await pool.wait(10)
        await exchange(connection)
        await server.close_all()
        async with asyncio.timeout(10):
            while connection.open:  # noqa: ASYNC110 - its end is on its way
                await asyncio.sleep(0.001)
        with pytest.raises(NotSent, match="closed the connection"):
            await connection.exchange(ASK, 10)
        assert pool.take() is None


async def test_idle_connections_can_be_discarded(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port)
        idle, busy = await asyncio.gather(pool.wait(10), pool.wait(10))
        await exchange(idle)
        pool.discard_idle()
        assert pool.take() is None
        await server.until(lambda: server.ended == 1)
        await exchange(busy)
        assert pool.take() is busy


async def test_a_retired_pool_ends_with_what_is_under_way(make_pool: MakePool) -> None:
    async with running() as server:
        pool = make_pool(server.port)
        idle, busy = await asyncio.gather(pool.wait(10), pool.wait(10))
        await exchange(idle)
        answer = busy.exchange(ASK, 10)
        pool.retire()
        assert (await answer).status == 200
        await server.until(lambda: server.ended == 2)


async def test_a_closed_pool_has_no_connection_and_makes_none(make_pool: MakePool) -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with running([silent]) as server:
        pool = make_pool(server.port, size=1)
        connection = await pool.wait(10)
        answer = connection.exchange(ASK, 10)
        await server.until(lambda: len(server.asked) == 1)
        (task,) = await waiting(pool, 1)
        pool.close()
        with pytest.raises(Lost, match="the client is closed"):
            await answer
        with pytest.raises(NotSent, match="the client is closed"):
            await task
        with pytest.raises(NotSent):
            await pool.wait(0.01)
        assert server.connections == 1
