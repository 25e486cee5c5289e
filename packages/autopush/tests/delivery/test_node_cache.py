"""Pushes to the node that took the last one, without a read: what may have changed since then."""

import asyncio
from typing import Any

import pytest

from autopush.bridges import stub
from autopush.delivery.answering import Answer, Answering
from autopush.delivery.bridged import BridgedUser
from autopush.delivery.calls import NodeCall, Outcome, Push
from autopush.delivery.router import CACHED_FOR, CachedUser, NodeCache
from autopush.store import UserRecord
from autopush.store.users import WEBPUSH
from autopush.telemetry.metric_table import HOST_GONE
from autopush.webpush.errors import PushError
from keytables import Unavailable
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, OTHER, UAID, UserAgent
from support.memory_engine import MemoryEngine
from support.month_cluster import DECEMBER, NOVEMBER, ONE, THREE, TWO, Cluster, Node, at
from support.recorded import recorded

FIND = ["get router", f"get {NOVEMBER}"]
CONDITIONAL = f"PUT /push/{UAID}/subscribed"
PUSH = f"PUT /push/{UAID}"
CHECK = f"PUT /notif/{UAID}"


# ── the entries ─────────────────────────────────────────────────────────────────────────────────


def record(uaid: str = UAID, connected_at: int = 5) -> UserRecord:
    return UserRecord(uaid, WEBPUSH, connected_at, ONE)


def test_an_entry_is_used_for_a_minute_from_the_read_on_however_often_it_is_used() -> None:
    clock = ManualClock()
    cache = NodeCache(monotonic=clock)
    cache.add(record(), ONE)
    for _ in range(3):
        assert cache.find(UAID) == CachedUser(ONE, 5, clock.now + CACHED_FOR)
    clock.advance(CACHED_FOR / 2)
    assert cache.find(UAID) is not None
    clock.advance(CACHED_FOR / 2)
    assert cache.find(UAID) is None
    assert len(cache) == 0


def test_a_newer_entry_replaces_an_older_one() -> None:
    cache = NodeCache(monotonic=ManualClock())
    cache.add(record(), ONE)
    cache.add(record(connected_at=6), TWO)
    found = cache.find(UAID)
    assert found is not None
    assert (found.node_id, found.connected_at) == (TWO, 6)


def test_there_are_never_more_entries_than_the_limit_and_the_last_half_is_known() -> None:
    cache = NodeCache(max_users=10, monotonic=ManualClock())
    for number in range(100):
        cache.add(record(str(number)), ONE)
        assert len(cache) <= 10
    assert all(cache.find(str(number)) for number in range(95, 100))
    assert cache.find("0") is None


# ── a cluster with one user agent that has got a message ────────────────────────────────────────


class Setup:
    """A user agent of ONE, a sender at TWO whose first message it has got and acked."""

    def __init__(self, cluster: Cluster, one: Node, two: Node, agent: UserAgent) -> None:
        self.cluster = cluster
        self.one = one
        self.two = two
        self.agent = agent

    @classmethod
    async def open(cls, *, store_first: bool = False, **options: Any) -> "Setup":
        clock = ManualClock()
        cluster = Cluster(MemoryEngine(clock), clock)
        one = await cluster.add(ONE, store_first=store_first)
        two = await cluster.add(TWO, store_first=store_first, **options)
        await cluster.known_user(NOVEMBER)
        setup = cls(cluster, one, two, await cluster.hello(one))
        setup.agent.received()
        await setup.is_delivered()
        return setup

    async def push(self, **members: object) -> Outcome:
        message = self.cluster.message()
        for name, value in members.items():
            setattr(message, name, value)
        self.cluster.calls.clear()
        engine = self.cluster.engine
        assert isinstance(engine, MemoryEngine)
        engine.calls.clear()
        push = await self.cluster.start_push(self.two, message)
        self.store_calls = list(engine.calls)
        return await push

    async def is_delivered(self, agent: UserAgent | None = None) -> None:
        """Push a message, which that user agent gets and acks."""
        assert await self.push() is Outcome.DONE
        assert len(await self.cluster.receive_all(agent or self.agent)) == 1

    async def refusal(self) -> tuple[int, int | None]:
        with pytest.raises(PushError) as caught:
            await self.push()
        return caught.value.status, caught.value.errno

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The calls between nodes that the last push made."""
        return self.cluster.calls


async def test_the_second_message_goes_to_the_node_that_took_the_first_without_a_read() -> None:
    setup = await Setup.open()
    assert (setup.calls, setup.store_calls) == ([(ONE, PUSH)], FIND)
    for _ in range(3):
        await setup.is_delivered()
        assert (setup.calls, setup.store_calls) == ([(ONE, CONDITIONAL)], [])


async def test_the_record_is_read_again_each_minute() -> None:
    setup = await Setup.open()
    await setup.is_delivered()
    await setup.cluster.pass_time(CACHED_FOR)
    await setup.is_delivered()
    assert (setup.calls, setup.store_calls) == ([(ONE, PUSH)], FIND)


async def test_store_first_reads_the_record_for_each_message() -> None:
    setup = await Setup.open(store_first=True)
    await setup.is_delivered()
    assert setup.calls == [(ONE, PUSH)]
    assert setup.store_calls[:2] == FIND


async def test_a_message_with_ttl_0_goes_by_way_of_an_entry_too() -> None:
    setup = await Setup.open()
    assert await setup.push(ttl=0) is Outcome.DONE
    assert (setup.calls, setup.store_calls) == ([(ONE, CONDITIONAL)], [])
    setup.agent.disconnect()
    await setup.cluster.receive_all(setup.agent)
    assert await setup.push(ttl=0) is Outcome.DISCARDED


async def test_what_was_not_taken_is_no_entry() -> None:
    setup = await Setup.open()
    setup.agent.disconnect()
    await setup.cluster.run_until_idle()
    assert await setup.push() is Outcome.STORED
    assert await setup.push() is Outcome.STORED
    assert setup.calls == []
    assert setup.store_calls == [*FIND, f"put {NOVEMBER}", "get router"]


async def test_the_own_node_is_no_entry() -> None:
    setup = await Setup.open()
    await setup.one.store.current.add_channel(UAID, OTHER)  # not known to the session
    message = setup.cluster.message()
    message.channel_id = OTHER
    for _ in range(2):
        found = await setup.one.router.find(UAID, OTHER)
        assert not isinstance(found, BridgedUser | CachedUser)
        assert await setup.one.router.route(found, message) is Outcome.DONE


# ── the user agent has gone, or is elsewhere ────────────────────────────────────────────────────


async def test_a_user_agent_that_has_disconnected_is_not_looked_for_twice() -> None:
    setup = await Setup.open()
    setup.agent.disconnect()
    await setup.cluster.run_until_idle()
    assert await setup.push() is Outcome.STORED
    assert setup.calls == [(ONE, CONDITIONAL)]
    assert (await setup.cluster.record()).node_id is None
    assert len(await setup.cluster.stored(NOVEMBER)) == 1


async def test_a_user_agent_that_has_moved_to_another_node_gets_its_messages_there() -> None:
    setup = await Setup.open()
    three = await setup.cluster.add(THREE, store_first=False)
    moved = await setup.cluster.hello(three)
    setup.agent.received()
    moved.received()
    await setup.is_delivered(moved)
    assert setup.calls == [(ONE, CONDITIONAL), (THREE, PUSH)]
    await setup.is_delivered(moved)
    assert setup.calls == [(THREE, CONDITIONAL)]
    assert setup.agent.received() == []


async def test_a_user_agent_that_has_moved_to_the_own_worker_gets_its_messages_there() -> None:
    setup = await Setup.open()
    moved = await setup.cluster.hello(setup.two)
    moved.received()
    await setup.is_delivered(moved)
    assert setup.calls == []


async def test_a_user_agent_that_has_connected_again_to_the_same_node_gets_its_messages() -> None:
    setup = await Setup.open()
    again = await setup.cluster.hello(setup.one)
    again.received()
    await setup.is_delivered(again)
    assert (setup.calls, setup.store_calls) == ([(ONE, CONDITIONAL)], [])


async def test_what_an_old_node_took_as_it_could_not_be_told_of_the_move_is_not_lost() -> None:
    setup = await Setup.open()
    three = await setup.cluster.add(THREE, store_first=False)
    setup.one.cut_off = True
    moved = await setup.cluster.hello(three)
    moved.received()
    setup.one.cut_off = False
    assert await setup.push() is Outcome.DONE
    assert setup.calls == [(ONE, CONDITIONAL)]
    assert await setup.cluster.receive_all(moved) == []
    await setup.cluster.pass_time(CACHED_FOR)
    await setup.is_delivered(moved)
    setup.agent.disconnect()  # its user agent is not there any more
    assert len(await setup.cluster.receive_all(moved)) == 1


# ── the node is gone ────────────────────────────────────────────────────────────────────────────


async def test_a_node_that_is_gone_is_called_and_counted_once_and_cleared() -> None:
    setup = await Setup.open()
    setup.one.dead = True
    assert await setup.push() is Outcome.STORED
    assert setup.calls == [(ONE, CONDITIONAL)]
    assert (await setup.cluster.record()).node_id is None
    assert recorded(setup.two.metrics, HOST_GONE) == 1


async def test_what_an_unresponsive_node_did_not_take_is_stored_and_it_is_asked_to_check() -> None:
    setup = await Setup.open()
    setup.one.cut_off = True
    assert await setup.push() is Outcome.STORED
    assert setup.calls[0] == (ONE, CONDITIONAL)
    assert {call for _, call in setup.calls[1:]} == {CHECK}
    assert recorded(setup.two.metrics, HOST_GONE) == 2, "as without an entry: push and check"
    setup.one.cut_off = False
    assert len(await setup.cluster.receive_all(setup.agent)) == 1


# ── the user is gone, or its subscription ───────────────────────────────────────────────────────


async def test_a_dropped_user_whose_session_was_ended_is_410_103() -> None:
    setup = await Setup.open()
    known = await setup.cluster.record()
    assert await setup.two.store.drop_user(known)
    await setup.two.nodes.end_duplicate(ONE, UAID, known.connected_at)
    assert await setup.refusal() == (410, 103)
    assert await setup.refusal() == (410, 103)
    assert setup.calls == []


async def test_a_user_that_was_dropped_behind_its_session_is_410_103_within_a_minute() -> None:
    setup = await Setup.open()
    assert await setup.one.store.drop_user(await setup.cluster.record())
    await setup.is_delivered()
    await setup.cluster.pass_time(CACHED_FOR)
    assert await setup.refusal() == (410, 103)


async def test_a_channel_that_was_unregistered_is_410_106_and_its_message_is_not_sent() -> None:
    setup = await Setup.open()
    setup.agent.send_json(messageType="unregister", channelID=CHANNEL)
    await setup.cluster.run_until_idle()
    assert setup.agent.reply()["status"] == 200
    assert await setup.refusal() == (410, 106)
    assert setup.calls == [(ONE, CONDITIONAL)]
    assert setup.agent.received() == []


async def test_a_channel_that_the_session_does_not_know_is_read_from_the_store() -> None:
    setup = await Setup.open()
    await setup.two.store.current.add_channel(UAID, OTHER)
    found = await setup.two.router.find(UAID, OTHER)
    assert isinstance(found, CachedUser)
    message = setup.cluster.message()
    message.channel_id = OTHER
    setup.calls.clear()
    assert await setup.two.router.route(found, message) is Outcome.DONE
    assert setup.calls == [(ONE, CONDITIONAL), (ONE, PUSH)]
    assert setup.agent.versions() == [message.version]


async def test_a_user_that_is_behind_a_bridge_by_now_is_for_the_next_attempt() -> None:
    setup = await Setup.open()
    setup.agent.disconnect()
    await setup.cluster.run_until_idle()
    setup.two.bridges.routers = {"stub": stub.StubRouter()}
    await setup.cluster.change_record(router_type="stub")
    with pytest.raises(Unavailable, match="router type"):
        await setup.push()
    assert isinstance(await setup.two.router.find(UAID, CHANNEL), BridgedUser)


# ── the user agent cannot take it ───────────────────────────────────────────────────────────────


async def test_a_message_for_a_busy_user_agent_is_stored_and_received_once_when_it_can() -> None:
    setup = await Setup.open()
    setup.agent.connection.output_paused()
    assert await setup.push() is Outcome.STORED
    assert [call for _, call in setup.calls] == [CONDITIONAL, PUSH, CHECK]
    assert len(await setup.cluster.stored(NOVEMBER)) == 1
    setup.agent.connection.output_resumed()
    assert len(await setup.cluster.receive_all(setup.agent)) == 1
    assert await setup.cluster.stored(NOVEMBER) == []


# ── the month ───────────────────────────────────────────────────────────────────────────────────


async def test_a_message_for_a_user_that_has_changed_tables_is_stored_in_the_new_one() -> None:
    setup = await Setup.open()
    cluster = setup.cluster
    found = await setup.two.router.find(UAID, CHANNEL)
    assert isinstance(found, CachedUser)
    await cluster.turn_month(at(2026, 12, 1, 0, 1))
    setup.agent.connection.schedule_table_change()
    await cluster.pass_time(3600)
    assert (await cluster.record()).current_month == DECEMBER
    setup.agent.connection.output_paused()
    message = cluster.message()
    push = asyncio.ensure_future(setup.two.router.route(found, message))
    await cluster.run_until_idle()
    assert await push is Outcome.STORED
    assert await cluster.stored(DECEMBER) == [message.version]
    assert await cluster.stored(NOVEMBER) == []


async def test_a_user_agent_that_changes_tables_gets_its_messages_by_way_of_an_entry() -> None:
    setup = await Setup.open()
    found = await setup.two.router.find(UAID, CHANNEL)
    assert isinstance(found, CachedUser)
    await setup.cluster.turn_month(at(2026, 12, 1, 0, 1))
    setup.agent.connection.schedule_table_change()
    await setup.cluster.pass_time(3600)
    setup.calls.clear()
    assert await setup.two.router.route(found, setup.cluster.message()) is Outcome.DONE
    assert setup.calls == [(ONE, CONDITIONAL)]
    assert len(await setup.cluster.receive_all(setup.agent)) == 1


# ── the limit of what is stored ─────────────────────────────────────────────────────────────────


async def test_a_message_is_charged_and_its_share_counted_in_the_table_on_record() -> None:
    setup = await Setup.open(max_stored_messages=8)
    await setup.is_delivered()
    assert setup.calls == [(ONE, CONDITIONAL)]
    await setup.is_delivered()  # the third: a share is a quarter of the limit
    assert setup.calls == [(ONE, PUSH)]
    assert setup.store_calls[:2] == FIND
    assert setup.store_calls[2:] == [f"query {NOVEMBER}"]


async def test_a_user_agent_with_as_many_messages_as_may_be_stored_gets_429_204() -> None:
    setup = await Setup.open(max_stored_messages=4)
    for _ in range(4):
        await setup.one.store.current.store(setup.cluster.message())
    assert await setup.refusal() == (429, 204)
    assert setup.calls == []


# ── nodes of a version before ───────────────────────────────────────────────────────────────────


class OlderAnswering(Answering):
    """As an earlier version, which refuses the path of a call that it does not know."""

    def __call__(self, call: NodeCall) -> Answer:
        is_known = not (isinstance(call, Push) and call.only_subscribed)
        return super().__call__(call) if is_known else Outcome.BUSY


async def with_older_node() -> Setup:
    setup = await Setup.open()
    setup.one.answering = OlderAnswering(setup.one.registry, setup.cluster.ring)
    return setup


async def test_a_node_of_a_version_before_gets_each_message_after_a_read() -> None:
    setup = await with_older_node()
    for _ in range(3):
        await setup.is_delivered()
        assert setup.calls == [(ONE, CONDITIONAL), (ONE, PUSH)]
        assert setup.store_calls == FIND


async def test_a_node_of_a_version_before_takes_no_message_for_an_unregistered_channel() -> None:
    setup = await with_older_node()
    setup.agent.send_json(messageType="unregister", channelID=CHANNEL)
    await setup.cluster.run_until_idle()
    setup.agent.received()
    assert await setup.refusal() == (410, 106)
    assert setup.agent.received() == []
