"""The end of a node: everybody is told, nothing is lost, nobody new is let in."""

import asyncio

import pytest

from autopush.connection import node
from autopush.store.messages import row_of
from keytables import Throttled
from support.connection_house import House, UserAgent

LONG = 60.0


async def ended(house: House, seconds: float = LONG) -> None:
    """The whole shutdown; time does not pass meanwhile."""
    shutdown = asyncio.ensure_future(house.node.shutdown(seconds))
    await house.settle()
    await asyncio.wait_for(shutdown, 10)
    await house.settle()


async def with_message(house: House) -> UserAgent:
    agent = await house.subscribed()
    assert agent.connection.deliver(house.message(agent.uaid, ttl=3600), None)
    agent.heard()
    return agent


async def test_every_socket_is_closed_with_1001_greeted_or_not(house: House) -> None:
    agents = [house.connect(), await house.greeted(), await house.subscribed()]
    await ended(house)
    assert [agent.heard() for agent in agents] == [[("close", 1001, "going away")]] * 3


async def test_afterwards_no_socket_is_left_even_if_the_peer_does_not_answer(house: House) -> None:
    agents = [house.connect(), await house.greeted()]
    await ended(house)
    assert all(agent.transport.lost for agent in agents)
    assert not house.registry.sockets


async def test_a_place_is_empty_as_soon_as_its_socket_is_told_to_go(house: House) -> None:
    agent = await house.subscribed()
    await ended(house)
    assert house.registry.find(agent.uaid) is None
    assert not agent.connection.deliver(house.message(agent.uaid), None)


async def test_what_is_unacked_is_safe_when_the_shutdown_is_over(house: House) -> None:
    for _ in range(5):
        await with_message(house)
    shutdown = asyncio.ensure_future(house.node.shutdown(LONG))
    await asyncio.wait_for(shutdown, 10)
    assert len(house.rows()) == 5


async def test_acked_rows_are_deleted_before_the_shutdown_is_over(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.deliver(message, row_of(message))
    agent.ack(*agent.heard())
    await asyncio.wait_for(house.node.shutdown(LONG), 10)
    assert house.rows() == []


async def test_a_save_that_fails_is_tried_again_before_the_shutdown_is_over(house: House) -> None:
    await with_message(house)
    house.engine.fail("put message", Throttled("full"), Throttled("full"))
    shutdown = asyncio.ensure_future(house.node.shutdown(LONG))
    await house.settle()
    assert not shutdown.done()
    await house.pass_time(1)
    assert not shutdown.done()
    await house.pass_time(2)
    await asyncio.wait_for(shutdown, 10)
    assert len(house.rows()) == 1


async def test_a_store_that_does_not_answer_delays_the_end_only_so_long(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_message(house)
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(house.engine.tables["message"], "put", lambda item: never)
    await asyncio.wait_for(house.node.shutdown(0.02), 10)
    never.cancel()
    await house.settle()


async def test_a_store_that_keeps_failing_delays_the_end_only_so_long(house: House) -> None:
    await with_message(house)
    house.engine.fail("put message", *[Throttled("full")] * 100)
    await asyncio.wait_for(house.node.shutdown(0.02), 10)
    assert house.rows() == []


async def test_an_idle_node_ends_at_once(house: House) -> None:
    shutdown = house.node.shutdown(LONG)
    with pytest.raises(StopIteration):
        shutdown.send(None)


async def test_nobody_new_is_let_in(house: House) -> None:
    welcome = [house.node.accepting]
    await ended(house)
    assert [*welcome, house.node.accepting] == [True, False]


async def test_the_sockets_are_closed_a_few_at_a_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "CLOSINGS_AT_ONCE", 2)
    monkeypatch.setattr(node, "CLOSING_PAUSE", 0)
    agents = [house.connect() for _ in range(5)]
    shutdown = asyncio.ensure_future(house.node.shutdown(LONG))
    told = []
    while not shutdown.done():
        await asyncio.sleep(0)
        told.append(sum(not agent.connection.here for agent in agents))
    assert sorted(set(told)) == [2, 4, 5]


async def test_with_a_limit_further_sockets_are_not_welcome_until_one_leaves() -> None:
    house = await House.open(max_connections=2)
    first = house.connect()
    welcome = [house.node.accepting]
    house.connect()
    welcome.append(house.node.accepting)
    first.leave()
    await house.settle()
    welcome.append(house.node.accepting)
    assert welcome == [True, False, True]
