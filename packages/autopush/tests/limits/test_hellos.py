"""How many hellos are in progress at once, and whose turn is next."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from autopush.delivery.connected import ConnectedUser
from autopush.limits import HELLOS_IN_PROGRESS, HelloQueue
from autopush.protocol.effects import TRY_AGAIN_LATER, Identify, StoreRequest, StoreResult
from autopush.protocol.session import CLOSE_DELAY
from autopush.telemetry.metric_table import LIMIT_REFUSED
from keytables import Throttled
from support.connection_harness import Harness, UserAgent
from support.recorded import recorded

TRY_AGAIN = ("close", TRY_AGAIN_LATER, "try again")


class HeldHellos:
    """Holds every hello of a node in the store until `answer`."""

    def __init__(self, harness: Harness, *, most: int, max_waiting: int) -> None:
        self.started: list[ConnectedUser] = []
        self._answers = asyncio.Semaphore(0)
        self._execute = harness.node.requests.execute
        harness.node.limits.hellos = HelloQueue(most=most, max_waiting=max_waiting)
        harness.node.requests.execute = self._hold  # type: ignore[method-assign]
        self._harness = harness

    async def _hold(self, user: ConnectedUser, request: StoreRequest) -> StoreResult:
        if isinstance(request, Identify):
            self.started.append(user)
            await self._answers.acquire()
        return await self._execute(user, request)

    async def answer(self, count: int = 1) -> None:
        for _ in range(count):
            self._answers.release()
        await self._harness.run_until_idle()

    async def answer_all(self) -> None:
        started = -1
        while started < len(self.started):
            started = len(self.started)
            await self.answer(HELLOS_IN_PROGRESS)


class Hold(Protocol):
    def __call__(self, harness: Harness, *, most: int, max_waiting: int = 100) -> HeldHellos: ...


@pytest.fixture
async def hold() -> AsyncIterator[Hold]:
    """Holds the hellos of a node. At the end of the test they are answered: a hello that the end of
    the loop cancels would start the next one, on a loop that runs no more.
    """
    made: list[HeldHellos] = []

    def hold(harness: Harness, *, most: int, max_waiting: int = 100) -> HeldHellos:
        made.append(HeldHellos(harness, most=most, max_waiting=max_waiting))
        return made[-1]

    yield hold
    for held in made:
        await held.answer_all()


async def arrive(harness: Harness, address: str, count: int = 1) -> list[UserAgent]:
    agents = [harness.connect(address=address) for _ in range(count)]
    for agent in agents:
        agent.hello()
    await harness.run_until_idle()
    return agents


def is_answered(agent: UserAgent) -> bool:
    return [reply["status"] for reply in agent.received() if isinstance(reply, dict)] == [200]


async def test_only_so_many_hellos_are_in_progress_and_all_are_answered(hold: Hold) -> None:
    harness = await Harness.open()
    held = hold(harness, most=2)
    agents = await arrive(harness, "192.0.2.1", 5)
    assert len(held.started) == 2
    await held.answer()
    assert len(held.started) == 3
    await held.answer(4)
    assert all(map(is_answered, agents))
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="hellos") == 0


async def test_a_hello_that_fails_gives_its_place_to_the_next(hold: Hold) -> None:
    harness = await Harness.open()
    held = hold(harness, most=1)
    await harness.known_user()
    failing, waiting = harness.connect(), harness.connect()
    failing.hello("0123456789abcdef0123456789abcdef")
    waiting.hello()
    harness.engine.fail("get router", Throttled("busy"))
    await held.answer(2)
    assert is_answered(waiting)
    await harness.pass_time(CLOSE_DELAY[1])
    assert failing.received() == [TRY_AGAIN]


async def test_the_addresses_of_one_ipv6_network_take_their_turns_together(hold: Hold) -> None:
    harness = await Harness.open()
    held = hold(harness, most=1)
    for number in range(10):
        await arrive(harness, f"2001:db8::{number + 1}")
    (other,) = await arrive(harness, "2001:db8:0:1::1")
    await held.answer(2)
    assert other.connection in held.started[:3]


async def test_a_register_does_not_wait_for_hellos(hold: Hold) -> None:
    harness = await Harness.open()
    agent = await harness.identified()
    hold(harness, most=1)
    await arrive(harness, "192.0.2.2", 10)
    agent.register()
    await harness.run_until_idle()
    assert agent.reply()["status"] == 200


async def test_a_hello_that_waits_too_long_is_closed_with_1013_after_a_pause(hold: Hold) -> None:
    harness = await Harness.open(hello_timeout=30)
    held = hold(harness, most=1)
    _, waiting = await arrive(harness, "192.0.2.1", 2)
    await harness.pass_time(30)
    await harness.pass_time(CLOSE_DELAY[0] - 0.1)
    assert waiting.received() == []
    await harness.pass_time(CLOSE_DELAY[1] - CLOSE_DELAY[0])
    assert waiting.received() == [TRY_AGAIN]
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="hellos") == 2
    await held.answer()
    assert len(held.started) == 1, "whoever was closed asks nothing of the store"


async def test_a_hello_whose_turn_comes_during_that_pause_is_answered(hold: Hold) -> None:
    harness = await Harness.open(hello_timeout=30)
    held = hold(harness, most=1)
    _, waiting = await arrive(harness, "192.0.2.1", 2)
    await harness.pass_time(30)
    await held.answer(2)
    assert is_answered(waiting)
    await harness.pass_time(CLOSE_DELAY[1])
    assert waiting.connection.is_connected


async def test_with_too_many_waiting_hellos_are_refused_after_random_pauses(hold: Hold) -> None:
    harness = await Harness.open()
    hold(harness, most=1, max_waiting=1)
    await arrive(harness, "192.0.2.1", 2)
    harness.chance = 0.0
    (soon,) = await arrive(harness, "192.0.2.1")
    harness.chance = 1.0
    (late,) = await arrive(harness, "192.0.2.1")
    await harness.pass_time(sum(CLOSE_DELAY) / 2)
    assert (soon.received(), late.received()) == ([TRY_AGAIN], [])
    await harness.pass_time(CLOSE_DELAY[1])
    assert late.received() == [TRY_AGAIN]
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="hellos") == 2


async def test_who_leaves_while_waiting_takes_no_turn(hold: Hold) -> None:
    harness = await Harness.open()
    held = hold(harness, most=1)
    _, leaving, staying = await arrive(harness, "192.0.2.1", 3)
    leaving.disconnect()
    await held.answer(2)
    assert is_answered(staying)
    assert leaving.connection not in held.started
