"""How a message reaches its user: a socket of this worker, another node, or the store."""

import asyncio
from typing import Any

import pytest

from autopush.delivery.bridged import BridgedUser
from autopush.delivery.calls import Outcome
from autopush.delivery.router import ACK_TIMEOUT, UserAgentRouter, UserOnRecord
from autopush.webpush.errors import PushError
from autopush.webpush.notification import Notification
from keytables import Throttled, Unavailable
from support.connection_harness import CHANNEL, NODE, OTHER, OTHER_NODE, UAID, Harness, UserAgent
from support.endpoint_harness import Endpoint
from support.month_cluster import NOVEMBER, ONE, TWO, Cluster

VIRTUAL_TIME = True

DEADLINE = 30
THIRD_NODE = "http://three:8081"

BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])


def router(
    harness: Harness, *, store_first: bool = True, ack_timeout: float = ACK_TIMEOUT
) -> UserAgentRouter:
    router = Endpoint(harness, store_first=store_first).router
    router.ack_timeout = ack_timeout
    return router


async def send(harness: Harness, *, store_first: bool, ttl: int = 60) -> Outcome:
    route = router(harness, store_first=store_first)
    recipient = await route.find(UAID, CHANNEL)
    assert not isinstance(recipient, BridgedUser)
    return await route.route(recipient, harness.message(ttl=ttl))


async def connected(harness: Harness) -> UserAgent:
    """A known user on a socket of this worker."""
    await harness.known_user()
    agent = await harness.identified(UAID)
    harness.engine.calls.clear()
    harness.nodes.calls.clear()
    return agent


async def not_connected(harness: Harness) -> None:
    """A known user whose record names no node."""
    await harness.known_user()
    await harness.store.users.clear_node(await harness.record())


async def refusal(harness: Harness, channel: str = CHANNEL) -> tuple[int, int | None]:
    """Status and errno of an endpoint that has no recipient."""
    with pytest.raises(PushError) as caught:
        await router(harness).find(UAID, channel)
    return caught.value.status, caught.value.errno


# ── finding the user ────────────────────────────────────────────────────────────────────────────


async def test_a_user_agent_of_this_worker_is_found_without_a_store_call(harness: Harness) -> None:
    agent = await connected(harness)
    assert await router(harness).find(UAID, CHANNEL) is agent.connection
    assert harness.engine.calls == []


async def test_an_unknown_user_is_410_103(harness: Harness) -> None:
    assert await refusal(harness) == (410, 103)


async def test_an_unknown_channel_is_410_106(harness: Harness) -> None:
    await harness.known_user()
    assert await refusal(harness, OTHER) == (410, 106)


async def test_a_user_of_an_unknown_table_is_dropped_with_410_106(harness: Harness) -> None:
    await harness.store.users.create(UAID, NODE, 5, "message_2011_01")
    assert await refusal(harness) == (410, 106)
    assert harness.users() == []


async def test_a_user_that_has_changed_tables_meanwhile_is_not_dropped(harness: Harness) -> None:
    await harness.store.users.create(UAID, NODE, 5, "message_2011_01")
    record = await harness.record()
    await harness.store.users.move(UAID, NODE, 5, old="message_2011_01", new="message")
    assert not await harness.store.drop_user(record)
    assert harness.users() == [UAID]


async def test_a_user_behind_a_bridge_is_400_108_and_its_record_is_kept(harness: Harness) -> None:
    await harness.known_user()
    harness.change_record(router_type="apns")
    assert await refusal(harness) == (400, 108)
    assert harness.users() == [UAID]


async def test_a_channel_the_connection_does_not_know_yet_is_read_from_the_store(
    harness: Harness,
) -> None:
    await connected(harness)
    await harness.store.current.add_channel(UAID, OTHER)
    assert isinstance(await router(harness).find(UAID, OTHER), UserOnRecord)


# ── connected to this worker ────────────────────────────────────────────────────────────────────


@BOTH
async def test_a_message_that_is_never_acked_dams_no_other(
    harness: Harness, store_first: bool
) -> None:
    await harness.known_user()
    stored = [(await harness.store_message(ttl=600)).version for _ in range(35)]
    never_acked = {version for number, version in enumerate(stored) if number % 10 == 0}
    seen: list[str] = []

    def ack_others(agent: UserAgent) -> None:
        batch = [each for each in agent.received() if isinstance(each, dict) and "version" in each]
        seen.extend(each["version"] for each in batch)
        agent.ack(*(each for each in batch if each["version"] not in never_acked))

    agent = await harness.hello(UAID)
    ack_others(agent)
    for _ in range(3):
        assert await send(harness, store_first=store_first, ttl=600) is Outcome.DONE
        await harness.pass_time(29)
        ack_others(agent)
        await harness.pass_time(2)
        ack_others(agent)
        await harness.run_until_idle()
    assert [version for version in seen if version in stored] == stored
    assert len(seen) == len(set(seen)) == 38
    assert set(harness.stored_versions()) == never_acked
    assert len(harness.wheel) == 0
    agent.disconnect()
    await harness.run_until_idle()
    assert set((await harness.hello(UAID)).versions()) == never_acked


async def test_store_first_stores_what_a_connected_user_agent_gets(harness: Harness) -> None:
    agent = await connected(harness)
    assert await send(harness, store_first=True) is Outcome.DONE
    assert agent.versions() == harness.stored_versions() != []
    assert harness.nodes.calls == []


async def test_bypass_never_calls_the_store_for_a_connected_user_agent(harness: Harness) -> None:
    agent = await connected(harness)
    assert await send(harness, store_first=False) is Outcome.DONE
    assert len(agent.versions()) == 1
    assert harness.engine.calls == []


@BOTH
async def test_ttl_0_never_calls_the_store(harness: Harness, store_first: bool) -> None:
    agent = await connected(harness)
    assert await send(harness, store_first=store_first, ttl=0) is Outcome.DONE
    assert len(agent.versions()) == 1
    agent.connection.output_paused()
    assert await send(harness, store_first=store_first, ttl=0) is Outcome.DISCARDED
    assert agent.received() == []
    assert harness.engine.calls == []


@BOTH
async def test_a_message_for_a_busy_user_agent_is_stored_and_its_node_called(
    harness: Harness, store_first: bool
) -> None:
    agent = await connected(harness)
    agent.connection.output_paused()
    assert await send(harness, store_first=store_first) is Outcome.STORED
    assert agent.received() == []
    assert len(harness.rows()) == 1
    assert harness.nodes.calls == [("check", NODE, UAID)]


async def test_a_message_is_not_delivered_if_its_user_agent_disconnects_during_the_commit(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.add(TWO)
    await cluster.known_user(NOVEMBER)
    agent = await cluster.hello(node)
    agent.received()
    node.gate.at(0, node.gate.hold)
    message = cluster.message()
    push = await cluster.start_push(node, message)
    assert agent.versions() == [message.version]
    agent.disconnect()
    await cluster.change_record(node_id=TWO)
    node.gate.release()
    await cluster.run_until_idle()
    assert await push is Outcome.STORED
    assert (await cluster.record()).node_id is None, "the node on record was called"


@BOTH
async def test_a_message_that_cannot_be_stored_is_an_error(
    harness: Harness, store_first: bool
) -> None:
    agent = await connected(harness)
    agent.connection.output_paused()
    harness.engine.fail("put message", Throttled("full"))
    with pytest.raises(Throttled):
        await send(harness, store_first=store_first)


# ── a store that fails after the message was sent ──────────────────────────────────────────────


async def push_to_failing_store(
    harness: Harness, *, ack_timeout: float
) -> tuple[UserAgent, dict[str, Any], "asyncio.Task[Outcome]"]:
    """A push whose message has reached its user agent, and could not be stored."""
    agent = await connected(harness)
    harness.engine.fail("put message", Unavailable("disk I/O error"))
    route = router(harness, ack_timeout=ack_timeout)
    recipient = await route.find(UAID, CHANNEL)
    assert not isinstance(recipient, BridgedUser)
    push = asyncio.ensure_future(route.route(recipient, harness.message()))
    await harness.run_until_idle()
    return agent, agent.reply(), push


async def test_a_message_that_is_acked_is_accepted_though_the_store_has_failed(
    harness: Harness,
) -> None:
    agent, received, push = await push_to_failing_store(harness, ack_timeout=DEADLINE)
    assert not push.done()
    agent.ack(received)
    assert await push is Outcome.DONE
    assert harness.rows() == []


async def test_an_ack_that_came_before_the_store_failed_counts_also_if_the_socket_is_closed_by_then(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await cluster.hello(node)
    agent.received()

    async def fail() -> None:
        await node.gate.hold()
        raise Unavailable("disk I/O error")

    node.gate.at(0, fail)
    push = await cluster.start_push(node, cluster.message())
    agent.ack(agent.reply())
    agent.disconnect()
    node.gate.step()
    assert await push is Outcome.DONE
    node.gate.release()
    await cluster.run_until_idle()


async def test_a_message_that_is_not_acked_in_time_is_refused_when_the_store_has_failed(
    harness: Harness,
) -> None:
    _, _, push = await push_to_failing_store(harness, ack_timeout=0.01)
    with pytest.raises(Unavailable):
        await push


@pytest.mark.parametrize("end", ["disconnects", "unsubscribes"])
async def test_a_message_that_cannot_be_acked_any_more_is_refused_at_once(
    harness: Harness, end: str
) -> None:
    agent, _, push = await push_to_failing_store(harness, ack_timeout=1e6)
    if end == "disconnects":
        agent.disconnect()
    else:
        agent.send_json(messageType="unregister", channelID=CHANNEL)
    await harness.run_until_idle()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(push, DEADLINE)


async def test_an_ack_of_another_message_accepts_nothing(harness: Harness) -> None:
    agent, received, push = await push_to_failing_store(harness, ack_timeout=0.05)
    await send(harness, store_first=True)
    agent.ack(agent.reply())
    agent.ack(received | {"channelID": OTHER})
    with pytest.raises(Unavailable):
        await push


async def test_a_message_acked_by_a_user_agent_that_has_gone_is_delivered_not_stored(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await cluster.hello(node)
    agent.received()
    node.gate.at(0, node.gate.hold)
    push = await cluster.start_push(node, cluster.message())
    agent.ack(agent.reply())
    agent.disconnect()
    node.gate.release()
    await cluster.run_until_idle()
    assert await push is Outcome.DONE


# ── on another node ─────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_the_node_on_record_gets_the_message(harness: Harness, store_first: bool) -> None:
    await harness.known_user()
    harness.nodes.push_answer = Outcome.DONE
    assert await send(harness, store_first=store_first) is Outcome.DONE
    assert harness.nodes.calls == [("push", OTHER_NODE, UAID)]
    assert len(harness.rows()) == int(store_first)
    assert harness.nodes.pushed[0].stored == ("message" if store_first else None)


@BOTH
async def test_a_message_with_ttl_0_is_pushed_to_the_node_and_never_stored(
    harness: Harness, store_first: bool
) -> None:
    await harness.known_user()
    harness.nodes.push_answer = Outcome.DONE
    assert await send(harness, store_first=store_first, ttl=0) is Outcome.DONE
    assert harness.nodes.calls == [("push", OTHER_NODE, UAID)]
    assert harness.rows() == []


@BOTH
@pytest.mark.parametrize("answer", [Outcome.ABSENT, Outcome.GONE])
async def test_a_node_without_the_user_agent_is_cleared_from_the_record(
    harness: Harness, store_first: bool, answer: Outcome
) -> None:
    await harness.known_user()
    harness.nodes.push_answer = harness.nodes.check_answer = answer
    assert await send(harness, store_first=store_first) is Outcome.STORED
    assert (await harness.record()).node_id is None
    assert len(harness.rows()) == 1
    assert harness.nodes.calls == [("push", OTHER_NODE, UAID)]


@pytest.mark.parametrize("answer", [Outcome.BUSY, Outcome.SILENT])
async def test_a_busy_or_silent_node_stays_on_record_and_is_called_to_check_storage(
    harness: Harness, answer: Outcome
) -> None:
    await harness.known_user()
    harness.nodes.push_answer = answer
    assert await send(harness, store_first=False) is Outcome.DONE
    assert (await harness.record()).node_id == OTHER_NODE
    assert harness.nodes.calls == [("push", OTHER_NODE, UAID), ("check", OTHER_NODE, UAID)]
    assert len(harness.rows()) == 1


@BOTH
async def test_a_message_for_a_user_that_is_not_connected_is_stored(
    harness: Harness, store_first: bool
) -> None:
    await not_connected(harness)
    assert await send(harness, store_first=store_first) is Outcome.STORED
    assert len(harness.rows()) == 1
    assert harness.nodes.calls == []


@BOTH
async def test_a_message_with_ttl_0_for_a_user_that_is_not_connected_is_discarded(
    harness: Harness, store_first: bool
) -> None:
    await not_connected(harness)
    assert await send(harness, store_first=store_first, ttl=0) is Outcome.DISCARDED
    assert harness.rows() == []


async def test_a_user_that_has_reconnected_meanwhile_is_found_by_the_second_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user()

    async def reconnect(node_id: str, notification: Notification) -> Outcome:
        await harness.store.users.connect(await harness.record(), THIRD_NODE, 6)
        return Outcome.ABSENT

    monkeypatch.setattr(harness.nodes, "push", reconnect)
    await send(harness, store_first=False)
    assert harness.nodes.calls == [("check", THIRD_NODE, UAID)]
    assert (await harness.record()).node_id == THIRD_NODE


async def test_a_user_that_was_dropped_meanwhile_is_410_105(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user()

    async def drop(node_id: str, notification: Notification) -> Outcome:
        await harness.store.users.drop(UAID)
        return Outcome.BUSY

    monkeypatch.setattr(harness.nodes, "push", drop)
    with pytest.raises(PushError) as caught:
        await send(harness, store_first=False)
    assert (caught.value.status, caught.value.errno) == (410, 105)


async def test_a_stale_node_found_only_by_the_second_read_is_cleared_too(harness: Harness) -> None:
    await harness.known_user()
    harness.nodes.push_answer = Outcome.BUSY
    harness.nodes.check_answer = Outcome.GONE
    assert await send(harness, store_first=False) is Outcome.STORED
    assert (await harness.record()).node_id is None


async def test_if_the_record_cannot_be_read_again_the_message_is_stored(harness: Harness) -> None:
    await not_connected(harness)
    harness.engine.fail("get router", None, Throttled("reads are throttled"))
    assert await send(harness, store_first=False) is Outcome.STORED
    assert len(harness.rows()) == 1
