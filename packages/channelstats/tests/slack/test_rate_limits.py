"""No more calls of a method than its tier allows, and none while Slack holds it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.slack.rate_limits import AppKind, RateLimiter, limits
from support.channelstats.slack_house import Waits


def pace(per_minute: int, waits: Waits) -> RateLimiter:
    return RateLimiter(per_minute, clock=waits.clock, sleep=waits.sleep)


async def turns(of: RateLimiter, waits: Waits, number: int) -> list[float]:
    """When each of so many turns was given."""
    times = []
    for _ in range(number):
        await of.acquire()
        times.append(waits.now)
    return times


async def test_a_tier_is_used_up_at_once_and_then_waited_for() -> None:
    waits = Waits()
    assert await turns(pace(3, waits), waits, 7) == [0, 0, 0, 61, 61, 61, 122]


async def test_once_a_minute_is_once_a_minute() -> None:
    waits = Waits()
    assert await turns(pace(1, waits), waits, 4) == [0, 61, 122, 183]


async def test_messages_are_posted_one_a_second() -> None:
    waits = Waits()
    limit = limits(AppKind.INTERNAL)["chat.postMessage"]
    of = RateLimiter(limit.per_minute, clock=waits.clock, sleep=waits.sleep, seconds=limit.seconds)
    assert await turns(of, waits, 4) == [0, 1, 2, 3]


@given(per_minute=st.integers(1, 6), pauses=st.lists(st.floats(0, 90), max_size=30))
async def test_no_minute_holds_more_turns_than_allowed(
    per_minute: int, pauses: list[float]
) -> None:
    waits = Waits()
    of = pace(per_minute, waits)
    given_at = []
    for pause in pauses:
        waits.now += pause
        await of.acquire()
        given_at.append(waits.now)
    for n in range(len(given_at) - per_minute):
        assert given_at[n + per_minute] - given_at[n] > 60


async def test_a_hold_is_kept_to_by_every_turn_that_follows() -> None:
    waits = Waits()
    of = pace(50, waits)
    of.hold(7)
    of.hold(5)
    assert await turns(of, waits, 2) == [7, 7]


async def test_a_hold_reaches_those_who_wait_already() -> None:
    waits = Waits()

    async def sleep(seconds: float) -> None:
        if not waits.slept:
            of.hold(100)
        await waits.sleep(seconds)

    of = RateLimiter(1, clock=waits.clock, sleep=sleep)
    assert await turns(of, waits, 2) == [0, 100]


async def test_turns_come_in_the_order_they_were_asked_for() -> None:
    waits = Waits()
    of = pace(1, waits)
    got: list[int] = []

    async def ask(number: int) -> None:
        await of.acquire()
        got.append(number)

    await asyncio.gather(*(ask(number) for number in range(5)))
    assert got == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", AppKind)
def test_only_an_unlisted_app_gets_one_call_and_fifteen_items(kind: AppKind) -> None:
    of = limits(kind)
    messages = [of[name] for name in ("conversations.history", "conversations.replies")]
    unlisted = kind is AppKind.UNLISTED
    assert {(limit.per_minute, limit.items) for limit in messages} == {
        (1, 15) if unlisted else (50, 200)
    }
    assert (of["users.list"].per_minute, of["conversations.members"].per_minute) == (20, 100)
