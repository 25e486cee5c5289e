"""A user agent's connection, from the socket to the store and back."""

import asyncio

import pytest

from autopush.telemetry import logs
from keytables import Throttled, Unavailable
from support import wire
from support.connection_harness import CHANNEL, OTHER, UAID, Harness

THROTTLED, UNAVAILABLE = Throttled("full"), Unavailable("gone")

# ── delivery ────────────────────────────────────────────────────────────────────────────────────


async def test_several_messages_of_a_page_leave_in_one_write(harness: Harness) -> None:
    await harness.known_user()
    for _ in range(5):
        await harness.store_message()
    agent = await harness.hello()
    assert len(agent.received()) == 6
    assert agent.transport.writes == 2  # the hello reply, and all five


async def test_a_user_agent_that_does_not_read_is_busy_until_it_has_read_all(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    agent.transport.stuck = True
    accepted = 0
    while accepted < 100 and agent.connection.deliver(
        message := harness.message(agent.uaid, ttl=0), None
    ):
        accepted += 1
        if accepted == 1:
            agent.transport.pending = agent.connection.write_high_water
    assert accepted < 100
    stored = await harness.store_message(message.uaid)
    agent.received()
    assert not agent.connection.check_storage()
    agent.transport.unstick()
    await harness.run_until_idle()
    assert agent.versions() == [stored.version]


# ── order ───────────────────────────────────────────────────────────────────────────────────────


async def test_messages_sent_in_one_piece_are_answered_in_order(harness: Harness) -> None:
    agent = await harness.identified()
    agent.send_json(
        {"messageType": "register", "channelID": CHANNEL},
        {},
        {"messageType": "unregister", "channelID": CHANNEL},
        {"messageType": "register", "channelID": OTHER},
    )
    assert agent.received() == []
    await harness.run_until_idle()
    kinds = [
        message.get("messageType") for message in agent.received() if isinstance(message, dict)
    ]
    assert kinds == ["register", None, "unregister", "register"]
    assert await harness.store.current.channels(agent.uaid) == {OTHER}


async def test_the_socket_is_not_read_while_a_register_waits(harness: Harness) -> None:
    agent = await harness.identified()
    agent.register()
    agent.send_json({})
    assert not agent.is_read()
    assert agent.received() == []
    await harness.run_until_idle()
    assert agent.is_read()
    register, pong = agent.received()
    assert isinstance(register, dict)
    assert (register["messageType"], pong) == ("register", {})


async def test_notifications_flow_while_a_register_waits(harness: Harness) -> None:
    agent = await harness.subscribed()
    agent.register(OTHER)
    message = harness.message(agent.uaid)
    assert agent.connection.deliver(message, None)
    assert agent.versions() == [message.version]
    await harness.run_until_idle()
    assert agent.reply()["channelID"] == OTHER


async def test_nothing_is_sent_before_the_hello_reply(harness: Harness) -> None:
    await harness.known_user()
    agent = harness.connect()
    agent.hello(UAID)
    await asyncio.sleep(0)  # the task of the hello has begun
    assert harness.registry.find(UAID) is agent.connection
    assert not agent.connection.deliver(harness.message(), None)
    assert not agent.connection.check_storage()
    assert agent.received() == []


async def test_the_connection_is_registered_before_the_router_record_is_written(
    harness: Harness,
) -> None:
    await harness.known_user()
    found: list[object] = []
    harness.engine.before("update router", lambda: found.append(harness.registry.find(UAID)))
    agent = await harness.identified(UAID)
    assert found == [agent.connection]


# ── the store fails ─────────────────────────────────────────────────────────────────────────────


async def test_a_page_that_cannot_be_read_for_a_bug_closes_after_the_hello(
    harness: Harness,
) -> None:
    await harness.known_user()
    harness.engine.fail("query message", RuntimeError("a bug"))
    agent = await harness.hello()
    hello, close = agent.received()
    assert isinstance(hello, dict)
    assert (hello["status"], close) == (200, ("close", 1011, "try again"))


async def test_no_session_timer_outlives_its_connection(harness: Harness) -> None:
    await harness.known_user()
    harness.engine.fail("query message", THROTTLED)
    agent = await harness.identified(UAID)
    assert len(harness.wheel) == 1
    agent.disconnect()
    await harness.run_until_idle()
    assert len(harness.wheel) == 0


# ── time ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_socket_without_hello_is_closed_after_the_hello_timeout() -> None:
    harness = await Harness.open(hello_timeout=30)
    agent = harness.connect()
    await harness.pass_time(29)
    assert agent.received() == []
    await harness.pass_time(1.5)
    assert agent.close_code() == 1008


async def test_a_hello_cancels_the_hello_timeout() -> None:
    harness = await Harness.open(hello_timeout=30)
    agent = await harness.identified()
    await harness.pass_time(3600)
    assert agent.received() == []
    assert agent.connection.is_open
    assert len(harness.wheel) == 0


async def test_without_a_hello_timeout_a_socket_may_stay_silent(harness: Harness) -> None:
    agent = harness.connect()
    await harness.pass_time(86_400)
    assert agent.connection.is_open


async def test_a_user_agent_that_answers_pings_stays_connected() -> None:
    harness = await Harness.open(auto_ping_interval=300)
    agent = await harness.hello(None)
    assert agent.reply()["ping"] == 300
    for _ in range(3):
        await harness.pass_time(299)
        assert agent.received() == []
        await harness.pass_time(2.1)
        assert agent.received() == [("ping",)]
        agent.send(wire.frame(wire.PONG))
    assert agent.connection.is_open


async def test_changed_broadcasts_are_sent_in_place_of_a_ping_after_the_pong() -> None:
    harness = await Harness.open(
        auto_ping_interval=300, auto_ping_timeout=4, broadcasts={"a/b": "1"}
    )
    agent = await harness.identified(broadcasts={"a/b": "1"})
    await harness.pass_time(301.1)
    assert agent.received() == [("ping",)]
    harness.node.broadcasts.update({"a/b": "2"})
    agent.send(wire.frame(wire.PONG, b""))
    await harness.pass_time(299)
    assert agent.received() == []
    await harness.pass_time(2.1)
    assert agent.received() == [{"messageType": "broadcast", "broadcasts": {"a/b": "2"}}]
    await harness.pass_time(298.8)
    assert agent.received() == [], "no pong is waited for, and the interval begins again"
    await harness.pass_time(2.3)
    assert agent.received() == [("ping",)]


async def test_a_user_agent_that_does_not_answer_a_ping_is_dropped_and_its_messages_saved() -> None:
    harness = await Harness.open(auto_ping_interval=300, auto_ping_timeout=4)
    agent = await harness.subscribed()
    message = harness.message(agent.uaid, ttl=86_400)
    agent.connection.deliver(message, None)
    await harness.pass_time(301.1)
    assert agent.connection.is_open
    await harness.pass_time(4.5)
    assert agent.transport.lost
    assert harness.registry.find(agent.uaid) is None
    assert not harness.registry.sockets
    assert harness.stored_versions() == [message.version]


async def test_no_timer_outlives_its_connection() -> None:
    harness = await Harness.open(auto_ping_interval=300, hello_timeout=30)
    silent, identified = harness.connect(), await harness.identified()
    assert len(harness.wheel) == 2
    silent.disconnect()
    identified.disconnect()
    await harness.run_until_idle()
    assert len(harness.wheel) == 0


# ── protocol errors ─────────────────────────────────────────────────────────────────────────────


async def test_a_request_that_is_cancelled_with_its_node_is_no_error(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[str] = []
    monkeypatch.setattr(logs.Log, "error", lambda _, event, **__: errors.append(event))
    requests: list[asyncio.Task[object]] = []

    async def never(*_: object) -> None:
        await asyncio.sleep(0)  # the rest runs in its own task
        task = asyncio.current_task()
        assert task is not None
        requests.append(task)
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(harness.node.requests, "execute", never)
    agent = await harness.hello()
    requests[0].cancel()
    await harness.run_until_idle()
    assert errors == []
    assert not agent.connection.is_connected


async def test_an_unexpected_error_is_logged(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[str] = []
    monkeypatch.setattr(logs.Log, "error", lambda _, event, **__: errors.append(event))
    await harness.known_user()
    harness.engine.fail("get router", RuntimeError("a bug"))
    await harness.hello()
    assert errors == ["Unexpected error"]


# ── bytes of incomplete messages ─────────────────────────────────────────────────────────────────


async def test_a_connection_counts_until_its_transport_is_closed() -> None:
    harness = await Harness.open()
    agent = harness.connect()
    agent.transport.stuck = True
    agent.connection.disconnect(1008)
    await harness.run_until_idle()
    assert (len(harness.registry.sockets), harness.node.connection_limits.open) == (1, 1)
    agent.disconnect()
    await harness.run_until_idle()
    assert (len(harness.registry.sockets), harness.node.connection_limits.open) == (0, 0)
