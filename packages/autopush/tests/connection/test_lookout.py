"""A node that was out of touch looks for what was stored meanwhile, later and slowly."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from autopush.connection import lookout
from autopush.connection.lookout import BEAT, LATE, SETTLED, Lookout
from keytables import Throttled, Unavailable
from support.connection_house import House, UserAgent

TURNS = 12


class Time:
    """Stands still until it is told to pass; a sleeper wakes when it is due, or later."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._asleep: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.get_running_loop().create_future()
        self._asleep.append((self.seconds + seconds, awake))
        await awake

    async def stand_still(self, seconds: float) -> None:
        """So much time passes at once, as for a process that is stopped."""
        self.seconds += seconds
        due = [each for each in self._asleep if each[0] <= self.seconds + 1e-6]
        self._asleep = [each for each in self._asleep if each not in due]
        for _, awake in due:
            if not awake.done():
                awake.set_result(None)
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def pass_by(self, seconds: float) -> None:
        """So much time passes, and whoever is due wakes in time."""
        end = self.seconds + seconds
        while self.seconds < end:
            await self.stand_still(0.02)


class Post:
    """A node with a lookout, and the time."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.time = Time()
        self.lookout = Lookout(
            house.registry, house.store, now=self.time.now, sleep=self.time.sleep
        )
        self.running = asyncio.ensure_future(self.lookout.run())

    async def store_unheard(self, agent: UserAgent) -> str:
        """A message is stored, and nobody tells the node."""
        message = self.house.message(agent.uaid)
        await self.house.store.current.store(message)
        return message.version

    async def heard(self, agent: UserAgent) -> list[str]:
        await self.house.settle()
        return agent.versions()

    @contextmanager
    def reads(self, kind: str = "query message") -> Iterator[list[str]]:
        """The calls of that kind meanwhile."""
        before = len(self.house.engine.calls)
        seen: list[str] = []
        yield seen
        seen += [call for call in self.house.engine.calls[before:] if call == kind]


@pytest.fixture
async def post(house: House) -> AsyncIterator[Post]:
    made = Post(house)
    await made.time.stand_still(0)
    yield made
    made.running.cancel()
    await asyncio.wait([made.running])


async def test_a_node_in_touch_reads_no_messages(post: Post) -> None:
    agent = await post.house.subscribed()
    await post.store_unheard(agent)
    with post.reads() as read:
        await post.time.pass_by(3 * SETTLED)
    assert read == []
    assert await post.heard(agent) == []


@pytest.mark.parametrize("stall", [LATE + BEAT, 60])
async def test_a_node_that_was_stopped_looks_for_what_it_missed(post: Post, stall: float) -> None:
    agent = await post.house.subscribed()
    missed = await post.store_unheard(agent)
    await post.time.stand_still(stall + 0.01)
    await post.time.pass_by(SETTLED + 2 * BEAT)
    assert await post.heard(agent) == [missed]


@pytest.mark.parametrize("error", [Unavailable("cut off"), Throttled("too busy")])
async def test_a_node_whose_store_did_not_answer_looks_for_what_it_missed(
    post: Post, error: Exception
) -> None:
    agent = await post.house.subscribed()
    missed = await post.store_unheard(agent)
    post.house.engine.fail("get router", error)
    await post.time.pass_by(SETTLED + 3 * BEAT)
    assert await post.heard(agent) == [missed]


async def test_what_is_stored_by_those_who_were_still_waiting_is_found_too(post: Post) -> None:
    agent = await post.house.subscribed()
    await post.time.stand_still(20)
    await post.time.pass_by(SETTLED - BEAT)
    missed = await post.store_unheard(agent)
    await post.time.pass_by(3 * BEAT)
    assert await post.heard(agent) == [missed]


async def test_it_looks_once_and_then_no_more(post: Post) -> None:
    agent = await post.house.subscribed()
    await post.time.stand_still(20)
    with post.reads() as read:
        await post.time.pass_by(3 * SETTLED)
    assert len(read) == 1
    assert await post.heard(agent) == []


async def test_user_agents_are_looked_for_one_after_the_other_at_a_bounded_rate(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "USERS_A_SECOND", 2)
    agents = [await post.house.subscribed() for _ in range(10)]
    missed = [await post.store_unheard(agent) for agent in agents]
    await post.time.stand_still(20)
    await post.time.pass_by(SETTLED + BEAT)
    for _ in range(4):
        with post.reads() as read:
            await post.time.pass_by(1)
        assert len(read) <= 2 * 2  # each finds something, which its session reads again
    await post.time.pass_by(2)
    assert [await post.heard(agent) for agent in agents] == [[version] for version in missed]


async def test_a_store_that_is_too_busy_is_asked_again_and_ends_no_connection(post: Post) -> None:
    agent = await post.house.subscribed()
    missed = await post.store_unheard(agent)
    await post.time.stand_still(20)
    post.house.engine.fail("query message", Throttled("too busy"), Throttled("too busy"))
    await post.time.pass_by(SETTLED + 10)
    assert await post.heard(agent) == [missed]


async def test_a_store_that_fails_during_the_search_means_another_one(post: Post) -> None:
    agents = [await post.house.subscribed() for _ in range(3)]
    missed = [await post.store_unheard(agent) for agent in agents]
    await post.time.stand_still(20)
    post.house.engine.fail("query message", None, None, Unavailable("cut off"))
    await post.time.pass_by(2 * SETTLED + 5 * BEAT)
    assert [await post.heard(agent) for agent in agents] == [[version] for version in missed]


async def test_who_is_new_or_gone_or_has_not_said_hello_is_passed_over(post: Post) -> None:
    silent, new, gone = post.house.connect(), await post.house.greeted(), post.house.connect()
    gone.hello()
    await post.house.settle()
    await post.time.stand_still(20)
    gone.leave()
    with post.reads() as read:
        await post.time.pass_by(SETTLED + 3 * BEAT)
    assert read == []
    assert (silent.heard(), new.heard()) == ([], [])


async def test_a_second_stop_during_the_search_means_another_one(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "USERS_A_SECOND", 0.2)
    agents = [await post.house.subscribed() for _ in range(3)]
    await post.time.stand_still(20)
    await post.time.pass_by(SETTLED + 2 * BEAT)  # the first one was looked for
    missed = [await post.store_unheard(agent) for agent in agents]
    await post.time.stand_still(5)
    await post.time.pass_by(60)
    assert [await post.heard(agent) for agent in agents] == [[version] for version in missed]


async def test_its_end_ends_the_search(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "USERS_A_SECOND", 1)
    for _ in range(5):
        await post.house.subscribed()
    await post.time.stand_still(20)
    with post.reads() as read:
        await post.time.pass_by(SETTLED + 2 * BEAT)
    assert 1 <= len(read) < 5
    post.running.cancel()
    await asyncio.wait([post.running])
    with post.reads() as read:
        await post.time.pass_by(10)
    assert read == []
