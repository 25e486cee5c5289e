"""A node keeps the router records of its user agents true, and finds what they have missed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from autopush.delivery import presence
from autopush.delivery.calls import Outcome
from autopush.delivery.presence import (
    CHECK_INTERVAL,
    PROBE_INTERVAL,
    PROBE_TOLERANCE,
    QUIET_PERIOD,
    Presence,
    notify_node,
)
from autopush.store.push_store import RESTORE_TIME, UNUSED_UAID
from autopush.telemetry.metric_table import CONNECTIONS_UNRECORDED, UA_RECORD_RESTORED
from keytables import Throttled, Unavailable
from support.connection_harness import (
    CHANNEL,
    NODE,
    OTHER,
    OTHER_NODE,
    TURNS,
    UAID,
    Harness,
    UserAgent,
)


class FakeTime:
    """A clock that tests advance; a sleeper wakes when it is due, or later."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, awake))
        await awake

    async def jump(self, seconds: float) -> None:
        """So much time passes at once, as for a process that is stopped."""
        self.seconds += seconds
        due = [each for each in self._sleepers if each[0] <= self.seconds + 1e-6]
        self._sleepers = [each for each in self._sleepers if each not in due]
        for _, awake in due:
            if not awake.done():
                awake.set_result(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """So much time passes, and every sleeper wakes in time."""
        end = self.seconds + seconds
        while self.seconds < end:
            due = [each for each, _ in self._sleepers if self.seconds < each < end]
            await self.jump(min(due, default=end) - self.seconds)


class RunningPresence:
    """On a fake clock; the node tells it of pings."""

    def __init__(self, harness: Harness, probe: Callable[[], Awaitable[object]] | None) -> None:
        self.harness = harness
        self.time = FakeTime()
        harness.node.presence = Presence(
            harness.store,
            harness.registry,
            harness.nodes,
            harness.parts.placement,
            harness.metrics,
            probe=probe,
            now=self.time.now,
            sleep=self.time.sleep,
        )
        self.task = asyncio.ensure_future(harness.node.presence.run())

    async def versions(self, *agents: UserAgent) -> list[list[str]]:
        """What these user agents have received."""
        await self.harness.run_until_idle()
        return [agent.versions() for agent in agents]

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    @contextmanager
    def reads(self) -> Iterator[list[str]]:
        """The reads of messages within the block."""
        before = len(self.harness.engine.calls)
        reads: list[str] = []
        yield reads
        reads += [call for call in self.harness.engine.calls[before:] if call == "query message"]


@pytest.fixture
async def running(harness: Harness) -> AsyncIterator[RunningPresence]:
    started = RunningPresence(harness, partial(harness.store.users.get, UNUSED_UAID))
    await started.time.jump(0)
    yield started
    await started.stop()


async def test_without_an_outage_no_messages_are_read(running: RunningPresence) -> None:
    agent = await running.harness.subscribed()
    await running.harness.store_message(agent.uaid)
    with running.reads() as reads:
        await running.time.advance(3 * QUIET_PERIOD)
    assert reads == []
    assert await running.versions(agent) == [[]]


@pytest.mark.parametrize("stopped", [PROBE_TOLERANCE + PROBE_INTERVAL, 60])
async def test_after_the_process_was_stopped_storage_is_checked(
    running: RunningPresence, stopped: float
) -> None:
    agent = await running.harness.subscribed()
    missed = await running.harness.store_message(agent.uaid)
    await running.time.jump(stopped + 0.01)
    await running.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)
    assert await running.versions(agent) == [[missed.version]]


@pytest.mark.parametrize("error", [Unavailable("cut off"), Throttled("too busy")])
async def test_after_the_store_did_not_answer_storage_is_checked(
    running: RunningPresence, error: Exception
) -> None:
    agent = await running.harness.subscribed()
    missed = await running.harness.store_message(agent.uaid)
    running.harness.engine.fail("get router", error)
    await running.time.advance(QUIET_PERIOD + 3 * PROBE_INTERVAL)
    assert await running.versions(agent) == [[missed.version]]


async def test_without_a_probe_the_store_is_not_called_but_a_stop_is_noticed(
    harness: Harness,
) -> None:
    running = RunningPresence(harness, None)
    await running.time.jump(0)
    agent = await harness.subscribed()
    missed = await harness.store_message(agent.uaid)
    harness.engine.calls.clear()
    await running.time.advance(3 * PROBE_INTERVAL)
    assert harness.engine.calls == []
    await running.time.jump(60)
    await running.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)
    assert await running.versions(agent) == [[missed.version]]
    await running.stop()


async def test_messages_stored_until_the_end_of_the_quiet_period_are_found(
    running: RunningPresence,
) -> None:
    agent = await running.harness.subscribed()
    await running.time.jump(20)
    await running.time.advance(QUIET_PERIOD - PROBE_INTERVAL)
    missed = await running.harness.store_message(agent.uaid)
    await running.time.advance(3 * PROBE_INTERVAL)
    assert await running.versions(agent) == [[missed.version]]


async def test_storage_is_checked_once_per_outage(running: RunningPresence) -> None:
    agent = await running.harness.subscribed()
    await running.time.jump(20)
    with running.reads() as reads:
        await running.time.advance(3 * QUIET_PERIOD)
    assert len(reads) == 1
    assert await running.versions(agent) == [[]]


async def test_users_are_checked_one_after_the_other_at_a_bounded_rate(
    running: RunningPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "USERS_CHECKED_PER_SECOND", 2)
    agents = [await running.harness.subscribed() for _ in range(10)]
    missed = [(await running.harness.store_message(agent.uaid)).version for agent in agents]
    await running.time.jump(20)
    await running.time.advance(QUIET_PERIOD + PROBE_INTERVAL)
    for _ in range(4):
        with running.reads() as reads:
            await running.time.advance(1)
        assert len(reads) <= 2 * 2  # what is found, the session reads once more
    await running.time.advance(2)
    assert await running.versions(*agents) == [[version] for version in missed]


async def test_a_throttled_check_is_retried_and_ends_no_connection(
    running: RunningPresence,
) -> None:
    agent = await running.harness.subscribed()
    missed = await running.harness.store_message(agent.uaid)
    await running.time.jump(20)
    running.harness.engine.fail("query message", Throttled("too busy"), Throttled("too busy"))
    await running.time.advance(QUIET_PERIOD + 10)
    assert await running.versions(agent) == [[missed.version]]


async def test_a_store_failure_during_the_checks_starts_them_again(
    running: RunningPresence,
) -> None:
    agents = [await running.harness.subscribed() for _ in range(3)]
    missed = [(await running.harness.store_message(agent.uaid)).version for agent in agents]
    await running.time.jump(20)
    running.harness.engine.fail("query message", None, None, Unavailable("cut off"))
    await running.time.advance(2 * QUIET_PERIOD + 5 * PROBE_INTERVAL)
    assert await running.versions(*agents) == [[version] for version in missed]


async def test_new_disconnected_and_unidentified_users_are_skipped(
    running: RunningPresence,
) -> None:
    silent, new, lost = (
        running.harness.connect(),
        await running.harness.identified(),
        running.harness.connect(),
    )
    lost.hello()
    await running.harness.run_until_idle()
    await running.time.jump(20)
    lost.disconnect()
    with running.reads() as reads:
        await running.time.advance(QUIET_PERIOD + 3 * PROBE_INTERVAL)
    assert reads == []
    assert (silent.received(), new.received()) == ([], [])


async def test_a_second_outage_during_the_checks_starts_them_again(
    running: RunningPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "USERS_CHECKED_PER_SECOND", 0.2)
    agents = [await running.harness.subscribed() for _ in range(3)]
    await running.time.jump(20)
    await running.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)  # the first one was checked
    missed = [(await running.harness.store_message(agent.uaid)).version for agent in agents]
    await running.time.jump(5)
    await running.time.advance(60)
    assert await running.versions(*agents) == [[version] for version in missed]


async def test_cancelling_it_ends_the_checks(
    running: RunningPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "USERS_CHECKED_PER_SECOND", 1)
    for _ in range(5):
        await running.harness.subscribed()
    await running.time.jump(20)
    with running.reads() as reads:
        await running.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)
    assert 1 <= len(reads) < 5
    await running.stop()
    with running.reads() as reads:
        await running.time.advance(10)
    assert reads == []


# ── router records ──────────────────────────────────────────────────────────────────────────────

WRONG = [
    pytest.param({"node_id": None}, id="cleared"),
    pytest.param({"node_id": OTHER_NODE, "connected_at": 5}, id="of-the-connection-before"),
    pytest.param({"unread": 1}, id="a-message-could-not-be-announced"),
]


async def connected(harness: Harness, **attributes: str | int | None) -> UserAgent:
    """A user agent whose record was changed, and the message that it has missed."""
    await harness.known_user()
    agent = await harness.identified(UAID)
    harness.change_record(**attributes)
    return agent


@pytest.mark.parametrize("attributes", WRONG)
async def test_a_wrong_record_is_put_right_within_the_interval(
    running: RunningPresence, attributes: dict[str, str | int | None]
) -> None:
    agent = await connected(running.harness, **attributes)
    missed = await running.harness.store_message()
    await running.time.advance(CHECK_INTERVAL + 1)
    assert await running.versions(agent) == [[missed.version]]
    record = await running.harness.record()
    assert (record.node_id, record.unread) == (NODE, 0)


@pytest.mark.parametrize("attributes", WRONG)
async def test_a_ping_puts_a_wrong_record_right_at_once(
    running: RunningPresence, attributes: dict[str, str | int | None]
) -> None:
    agent = await connected(running.harness, **attributes)
    missed = await running.harness.store_message()
    agent.send_json({})
    assert await running.versions(agent) == [[missed.version]]
    assert (await running.harness.record()).node_id == NODE


async def test_a_true_record_costs_a_read_and_no_write(running: RunningPresence) -> None:
    agent = await connected(running.harness)
    running.harness.engine.calls.clear()
    agent.send_json({})
    await running.harness.run_until_idle()
    assert running.harness.engine.calls == ["batch_get router"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"node_id": OTHER_NODE, "connected_at": 1 << 50},
        {"node_id": None, "connected_at": 1 << 50},
        {"router_type": "fcm"},
    ],
)
async def test_a_connection_that_is_not_the_newest_ends(
    running: RunningPresence, attributes: dict[str, str | int | None]
) -> None:
    agent = await connected(running.harness, **attributes)
    agent.send_json({})
    await running.harness.run_until_idle()
    assert agent.received()[-1] == ("close", 1000, "replaced")


async def test_the_connection_of_a_user_that_was_deleted_ends(running: RunningPresence) -> None:
    agent = await connected(running.harness)
    await running.harness.store.users.drop(UAID)
    await running.time.advance(CHECK_INTERVAL + 1)
    assert agent.received()[-1] == ("close", 1000, "user reset")
    assert running.harness.users() == []


async def test_new_users_and_those_about_to_identify_are_left_alone(
    running: RunningPresence,
) -> None:
    await running.harness.known_user()
    new = await running.harness.identified()
    early = running.harness.connect()
    running.harness.engine.before(
        "update router", partial(running.harness.node.presence.check_soon, early.connection)
    )
    early.hello(UAID)
    running.harness.node.presence.check_soon(new.connection)
    await running.harness.run_until_idle()
    assert (new.received(), early.reply()["status"]) == ([], 200)


async def test_wrong_records_are_counted(running: RunningPresence) -> None:
    metrics = running.harness.metrics
    await connected(running.harness, node_id=None)
    await running.time.advance(2 * CHECK_INTERVAL)
    assert metrics.gauge(CONNECTIONS_UNRECORDED).value == 1
    assert metrics.counter(UA_RECORD_RESTORED).value == 1
    await running.time.advance(CHECK_INTERVAL)
    assert metrics.gauge(CONNECTIONS_UNRECORDED).value == 0


async def test_checks_of_many_users_are_spread(
    running: RunningPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "BATCH", 2)
    for _ in range(6):
        await running.harness.subscribed()
    await running.time.advance(CHECK_INTERVAL)
    running.harness.engine.calls.clear()
    for done in (1, 2, 3):
        await running.time.advance(CHECK_INTERVAL / 3)
        assert running.harness.engine.calls.count("batch_get router") == done


async def test_a_failing_store_leaves_the_check_to_the_next_sweep(running: RunningPresence) -> None:
    agent = await connected(running.harness, node_id=None)
    running.harness.engine.fail("batch_get router", Unavailable("cut off"))
    agent.send_json({})
    await running.time.advance(CHECK_INTERVAL + 1)
    assert (await running.harness.record()).node_id == NODE


# ── a node that cannot be notified ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", Outcome)
async def test_a_record_is_marked_only_while_its_node_does_not_answer(
    harness: Harness, answer: Outcome
) -> None:
    await harness.known_user()
    harness.nodes.check_answer = answer
    record = await harness.record()
    node_id = record.node_id or ""
    assert await notify_node(harness.store, harness.nodes, record, node_id) is answer
    record = await harness.record()
    assert record.unread == answer.may_be_back
    assert record.node_id == OTHER_NODE
    harness.engine.calls.clear()
    await notify_node(harness.store, harness.nodes, record, record.node_id or "")
    assert "update router" not in harness.engine.calls


# ── a failover that loses commits ───────────────────────────────────────────────────────────────


async def test_what_a_failover_lost_is_written_again(running: RunningPresence) -> None:
    harness = running.harness
    agent = await harness.subscribed(secret=True)
    agent.register(OTHER)
    await harness.run_until_idle()
    before = await harness.record(agent.uaid)
    harness.engine.tables["router"].items.clear()
    harness.engine.tables["message"].items.clear()
    harness.engine.lost_commits += 1
    await running.time.advance(3 * PROBE_INTERVAL)
    after = await harness.record(agent.uaid)
    assert (after.node_id, after.secret_hash) == (NODE, before.secret_hash)
    assert after.current_month == before.current_month
    assert await harness.store.current.channels(agent.uaid) == {CHANNEL, OTHER}
    agent.received()
    missed = await harness.store_message(agent.uaid)
    agent.send_json({})
    agent.connection.check_storage()
    assert await running.versions(agent) == [[missed.version]]


async def test_after_a_failover_nobody_is_called_unknown_for_some_time(
    running: RunningPresence,
) -> None:
    store, seen = running.harness.store, []
    for lost, seconds in ((0, 0), (1, 0), (0, RESTORE_TIME - 1), (0, 2)):
        running.harness.engine.lost_commits += lost
        running.harness.clock.advance(seconds)
        seen.append(store.is_restoring)
    assert seen == [False, True, True, False]


async def test_a_failover_that_changes_the_table_of_a_user_ends_its_connection(
    running: RunningPresence,
) -> None:
    agent = await connected(running.harness, current_month="message_2020_1")
    running.harness.engine.lost_commits += 1
    await running.time.advance(3 * PROBE_INTERVAL)
    assert agent.received()[-1] == ("close", 1001, "the record is outdated")


async def test_a_store_that_fails_again_is_restored_from_the_beginning(
    running: RunningPresence,
) -> None:
    agent = await running.harness.subscribed()
    running.harness.engine.tables["router"].items.clear()
    running.harness.engine.fail("batch_get router", Unavailable("down again"))
    running.harness.engine.lost_commits += 1
    await running.time.advance(5 * PROBE_INTERVAL)
    assert (await running.harness.record(agent.uaid)).node_id == NODE
