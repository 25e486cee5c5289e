"""All connections of a node: its limit, its shutdown, and records that have become old."""

import asyncio
from datetime import UTC, datetime

import pytest

from autopush.delivery import node
from autopush.store.messages import row_of
from keytables import Throttled
from support.connection_harness import Harness, UserAgent
from support.event_loops import at_once

VIRTUAL_TIME = True

LONG = 60.0

# ── limit ───────────────────────────────────────────────────────────────────────────────────────


async def test_every_open_socket_is_registered_identified_or_not_until_it_closes(
    harness: Harness,
) -> None:
    first, second = harness.connect(), await harness.identified()
    assert list(harness.registry.sockets) == [first.connection, second.connection]
    first.disconnect()
    await harness.run_until_idle()
    assert list(harness.registry.sockets) == [second.connection]


# ── shutdown ────────────────────────────────────────────────────────────────────────────────────


async def shut_down(harness: Harness) -> None:
    """The whole shutdown; the fake clocks do not advance meanwhile."""
    shutdown = asyncio.ensure_future(harness.node.shutdown(LONG))
    await harness.run_until_idle()
    await asyncio.wait_for(shutdown, 30)
    await harness.run_until_idle()


async def with_message(harness: Harness) -> UserAgent:
    agent = await harness.subscribed()
    assert agent.connection.deliver(harness.message(agent.uaid, ttl=3600), None)
    agent.received()
    return agent


async def test_every_socket_is_closed_with_1001_identified_or_not(harness: Harness) -> None:
    agents = [harness.connect(), await harness.identified(), await harness.subscribed()]
    await shut_down(harness)
    assert [agent.received() for agent in agents] == [[("close", 1001, "going away")]] * 3


async def test_after_shutdown_no_socket_is_left_even_if_the_peer_does_not_answer(
    harness: Harness,
) -> None:
    agents = [harness.connect(), await harness.identified()]
    await shut_down(harness)
    assert all(agent.transport.lost for agent in agents)
    assert not harness.registry.sockets


async def test_a_socket_that_is_being_closed_is_not_in_the_registry(harness: Harness) -> None:
    agent = await harness.subscribed()
    await shut_down(harness)
    assert harness.registry.find(agent.uaid) is None
    assert not agent.connection.deliver(harness.message(agent.uaid), None)


async def test_unacked_messages_are_saved_when_shutdown_returns(harness: Harness) -> None:
    for _ in range(5):
        await with_message(harness)
    await asyncio.wait_for(harness.node.shutdown(LONG), 30)
    assert len(harness.rows()) == 5


async def test_acked_rows_are_deleted_when_shutdown_returns(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    agent.connection.deliver(message, row_of(message))
    agent.ack(*agent.received())
    await asyncio.wait_for(harness.node.shutdown(LONG), 30)
    assert harness.rows() == []


async def test_a_save_that_fails_is_retried_before_shutdown_returns(harness: Harness) -> None:
    await with_message(harness)
    harness.engine.fail("put message", Throttled("full"), Throttled("full"))
    shutdown = asyncio.ensure_future(harness.node.shutdown(LONG))
    await harness.run_until_idle()
    assert not shutdown.done()
    await harness.pass_time(1)
    assert not shutdown.done()
    await harness.pass_time(2)
    await asyncio.wait_for(shutdown, 30)
    assert len(harness.rows()) == 1


async def test_a_store_that_does_not_answer_delays_shutdown_at_most_so_long(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_message(harness)
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(harness.engine.tables["message"], "put", lambda item: never)
    await asyncio.wait_for(harness.node.shutdown(0.02), 30)
    never.cancel()
    await harness.run_until_idle()


async def test_a_store_that_keeps_failing_delays_shutdown_at_most_so_long(harness: Harness) -> None:
    await with_message(harness)
    harness.engine.fail("put message", *[Throttled("full")] * 100)
    await asyncio.wait_for(harness.node.shutdown(0.02), 30)
    assert harness.rows() == []


async def test_an_idle_node_shuts_down_at_once(harness: Harness) -> None:
    assert at_once(harness.node.shutdown(LONG)) is None


async def test_a_node_that_shuts_down_accepts_no_connections(harness: Harness) -> None:
    accepting = [harness.node.is_accepting]
    await shut_down(harness)
    assert [*accepting, harness.node.is_accepting] == [True, False]


async def test_the_sockets_are_closed_a_few_at_a_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "CLOSES_PER_SLICE", 2)
    monkeypatch.setattr(node, "CLOSE_PAUSE", 0)
    agents = [harness.connect() for _ in range(5)]
    shutdown = asyncio.ensure_future(harness.node.shutdown(LONG))
    closed = []
    while not shutdown.done():
        await asyncio.sleep(0)
        closed.append(sum(not agent.connection.is_connected for agent in agents))
    assert sorted(set(closed)) == [2, 4, 5]


# ── records of long connections ─────────────────────────────────────────────────────────────────


async def turn_month(harness: Harness, month: int, day: int) -> None:
    harness.clock.now = datetime(2027, month, day, 12, tzinfo=UTC).timestamp()
    await harness.store.rotate()


async def connected_in_september() -> tuple[Harness, UserAgent]:
    harness = await Harness.open()
    await turn_month(harness, 9, 10)
    return harness, await harness.subscribed()


async def last_connect(harness: Harness, uaid: str) -> str:
    """Year and month."""
    return str((await harness.record(uaid)).last_connect)[:6]


async def pass_day(harness: Harness, month: int, day: int) -> None:
    await turn_month(harness, month, day)
    await harness.pass_time(node.REFRESH_WITHIN)


async def test_last_connect_is_refreshed_before_a_connection_is_two_months_old() -> None:
    harness, agent = await connected_in_september()
    await pass_day(harness, 10, 30)
    assert await last_connect(harness, agent.uaid) == "202709"
    await pass_day(harness, 10, 31)
    assert await last_connect(harness, agent.uaid) == "202710"
    await pass_day(harness, 11, 30)
    assert await last_connect(harness, agent.uaid) == "202711"


async def test_last_connect_is_not_refreshed_after_the_connection_ended() -> None:
    harness, agent = await connected_in_september()
    uaid = agent.uaid
    await turn_month(harness, 10, 31)
    agent.disconnect()
    await harness.pass_time(node.REFRESH_WITHIN)
    assert await last_connect(harness, uaid) == "202709"


async def test_a_connection_that_is_no_longer_recorded_refreshes_nothing() -> None:
    harness, agent = await connected_in_september()
    item = harness.engine.tables["router"].items[(agent.uaid,)]
    item["node_id"] = "http://elsewhere:8081"
    await pass_day(harness, 10, 31)
    assert await last_connect(harness, agent.uaid) == "202709"


async def test_nothing_is_written_for_a_connection_of_this_month_or_the_last() -> None:
    harness, agent = await connected_in_september()
    harness.engine.calls.clear()
    await pass_day(harness, 9, 30)
    assert "update router" not in harness.engine.calls
    assert await last_connect(harness, agent.uaid) == "202709"


async def test_a_user_without_subscriptions_is_not_recorded_by_a_refresh() -> None:
    harness = await Harness.open()
    await turn_month(harness, 9, 10)
    await harness.identified()
    await pass_day(harness, 10, 31)
    assert harness.users() == []
