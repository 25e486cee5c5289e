"""After an outage a node checks, after a pause and slowly, what was stored during it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from autopush.service import store_watch
from autopush.service.store_watch import (
    PROBE_INTERVAL,
    PROBE_TOLERANCE,
    QUIET_PERIOD,
    OutageRecovery,
)
from autopush.store.push_store import UNUSED_UAID
from keytables import Throttled, Unavailable
from support.connection_harness import TURNS, Harness, UserAgent


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
            await self.jump(0.02)


class RunningRecovery:
    """The outage recovery of a node, on a fake clock."""

    def __init__(self, harness: Harness, probe: Callable[[], Awaitable[object]] | None) -> None:
        self.harness = harness
        self.time = FakeTime()
        recovery = OutageRecovery(harness.registry, probe, now=self.time.now, sleep=self.time.sleep)
        self.task = asyncio.ensure_future(recovery.run())

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
async def recovery(harness: Harness) -> AsyncIterator[RunningRecovery]:
    running = RunningRecovery(harness, partial(harness.store.users.get, UNUSED_UAID))
    await running.time.jump(0)
    yield running
    await running.stop()


async def test_without_an_outage_no_messages_are_read(recovery: RunningRecovery) -> None:
    agent = await recovery.harness.subscribed()
    await recovery.harness.store_message(agent.uaid)
    with recovery.reads() as reads:
        await recovery.time.advance(3 * QUIET_PERIOD)
    assert reads == []
    assert await recovery.versions(agent) == [[]]


@pytest.mark.parametrize("stopped", [PROBE_TOLERANCE + PROBE_INTERVAL, 60])
async def test_after_the_process_was_stopped_storage_is_checked(
    recovery: RunningRecovery, stopped: float
) -> None:
    agent = await recovery.harness.subscribed()
    missed = await recovery.harness.store_message(agent.uaid)
    await recovery.time.jump(stopped + 0.01)
    await recovery.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)
    assert await recovery.versions(agent) == [[missed.version]]


@pytest.mark.parametrize("error", [Unavailable("cut off"), Throttled("too busy")])
async def test_after_the_store_did_not_answer_storage_is_checked(
    recovery: RunningRecovery, error: Exception
) -> None:
    agent = await recovery.harness.subscribed()
    missed = await recovery.harness.store_message(agent.uaid)
    recovery.harness.engine.fail("get router", error)
    await recovery.time.advance(QUIET_PERIOD + 3 * PROBE_INTERVAL)
    assert await recovery.versions(agent) == [[missed.version]]


async def test_without_a_probe_the_store_is_not_called_but_a_stop_is_noticed(
    harness: Harness,
) -> None:
    recovery = RunningRecovery(harness, None)
    await recovery.time.jump(0)
    agent = await harness.subscribed()
    missed = await harness.store_message(agent.uaid)
    harness.engine.calls.clear()
    await recovery.time.advance(3 * PROBE_INTERVAL)
    assert harness.engine.calls == []
    await recovery.time.jump(60)
    await recovery.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)
    assert await recovery.versions(agent) == [[missed.version]]
    await recovery.stop()


async def test_messages_stored_until_the_end_of_the_quiet_period_are_found(
    recovery: RunningRecovery,
) -> None:
    agent = await recovery.harness.subscribed()
    await recovery.time.jump(20)
    await recovery.time.advance(QUIET_PERIOD - PROBE_INTERVAL)
    missed = await recovery.harness.store_message(agent.uaid)
    await recovery.time.advance(3 * PROBE_INTERVAL)
    assert await recovery.versions(agent) == [[missed.version]]


async def test_storage_is_checked_once_per_outage(recovery: RunningRecovery) -> None:
    agent = await recovery.harness.subscribed()
    await recovery.time.jump(20)
    with recovery.reads() as reads:
        await recovery.time.advance(3 * QUIET_PERIOD)
    assert len(reads) == 1
    assert await recovery.versions(agent) == [[]]


async def test_users_are_checked_one_after_the_other_at_a_bounded_rate(
    recovery: RunningRecovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "USERS_CHECKED_PER_SECOND", 2)
    agents = [await recovery.harness.subscribed() for _ in range(10)]
    missed = [(await recovery.harness.store_message(agent.uaid)).version for agent in agents]
    await recovery.time.jump(20)
    await recovery.time.advance(QUIET_PERIOD + PROBE_INTERVAL)
    for _ in range(4):
        with recovery.reads() as reads:
            await recovery.time.advance(1)
        assert len(reads) <= 2 * 2  # what is found, the session reads once more
    await recovery.time.advance(2)
    assert await recovery.versions(*agents) == [[version] for version in missed]


async def test_a_throttled_check_is_retried_and_ends_no_connection(
    recovery: RunningRecovery,
) -> None:
    agent = await recovery.harness.subscribed()
    missed = await recovery.harness.store_message(agent.uaid)
    await recovery.time.jump(20)
    recovery.harness.engine.fail("query message", Throttled("too busy"), Throttled("too busy"))
    await recovery.time.advance(QUIET_PERIOD + 10)
    assert await recovery.versions(agent) == [[missed.version]]


async def test_a_store_failure_during_the_checks_starts_them_again(
    recovery: RunningRecovery,
) -> None:
    agents = [await recovery.harness.subscribed() for _ in range(3)]
    missed = [(await recovery.harness.store_message(agent.uaid)).version for agent in agents]
    await recovery.time.jump(20)
    recovery.harness.engine.fail("query message", None, None, Unavailable("cut off"))
    await recovery.time.advance(2 * QUIET_PERIOD + 5 * PROBE_INTERVAL)
    assert await recovery.versions(*agents) == [[version] for version in missed]


async def test_new_disconnected_and_unidentified_users_are_skipped(
    recovery: RunningRecovery,
) -> None:
    silent, new, lost = (
        recovery.harness.connect(),
        await recovery.harness.identified(),
        recovery.harness.connect(),
    )
    lost.hello()
    await recovery.harness.run_until_idle()
    await recovery.time.jump(20)
    lost.disconnect()
    with recovery.reads() as reads:
        await recovery.time.advance(QUIET_PERIOD + 3 * PROBE_INTERVAL)
    assert reads == []
    assert (silent.received(), new.received()) == ([], [])


async def test_a_second_outage_during_the_checks_starts_them_again(
    recovery: RunningRecovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "USERS_CHECKED_PER_SECOND", 0.2)
    agents = [await recovery.harness.subscribed() for _ in range(3)]
    await recovery.time.jump(20)
    await recovery.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)  # the first one was checked
    missed = [(await recovery.harness.store_message(agent.uaid)).version for agent in agents]
    await recovery.time.jump(5)
    await recovery.time.advance(60)
    assert await recovery.versions(*agents) == [[version] for version in missed]


async def test_cancelling_it_ends_the_checks(
    recovery: RunningRecovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_watch, "USERS_CHECKED_PER_SECOND", 1)
    for _ in range(5):
        await recovery.harness.subscribed()
    await recovery.time.jump(20)
    with recovery.reads() as reads:
        await recovery.time.advance(QUIET_PERIOD + 2 * PROBE_INTERVAL)
    assert 1 <= len(reads) < 5
    await recovery.stop()
    with recovery.reads() as reads:
        await recovery.time.advance(10)
    assert reads == []
