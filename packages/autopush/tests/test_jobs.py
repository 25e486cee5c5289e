"""Jobs that repeat, the rate of background work, and how long it retries."""

import asyncio
from collections.abc import Callable

import pytest

from autopush.jobs import ATTEMPTS, LONGEST_PAUSE, RateLimiter, repeat
from keytables import Throttled, Unavailable
from support.clocks import ManualClock


class Sleeper:
    """Sleeps by setting the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.pauses: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.advance(seconds)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sleeper(clock: ManualClock) -> Sleeper:
    return Sleeper(clock)


async def test_a_defect_in_a_job_is_logged_and_it_is_done_again_after_its_pause(
    sleeper: Sleeper, end_logs: Callable[[], str]
) -> None:
    done = 0

    async def job() -> None:
        nonlocal done
        done += 1
        if done < 3:
            raise RuntimeError("a defect")
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await repeat(job, lambda: float(done), "the job", sleep=sleeper)
    assert sleeper.pauses == [1, 2]
    lines = [line for line in end_logs().splitlines() if "Unexpected error" in line]
    assert len(lines) == 2
    assert all("the job" in line for line in lines)


async def test_no_more_is_acquired_than_the_rate_allows(
    clock: ManualClock, sleeper: Sleeper
) -> None:
    limiter, began, done = RateLimiter(10, clock=clock, sleep=sleeper), clock(), 0
    for count in (5, 1, 20, 3, 7, 5, 5, 4):
        await limiter.acquire(count)
        assert done <= 10 * (clock() - began) + 1e-3
        done += count
        clock.advance(0.01)  # what the work itself takes


async def test_idle_time_is_not_credited(clock: ManualClock, sleeper: Sleeper) -> None:
    limiter = RateLimiter(10, clock=clock, sleep=sleeper)
    clock.advance(1000)
    await limiter.acquire(10)
    await limiter.acquire(10)
    assert sleeper.pauses == [pytest.approx(1.0)]


async def test_a_throttled_call_is_retried_later_and_the_rate_is_halved(
    clock: ManualClock, sleeper: Sleeper
) -> None:
    limiter, answers = (
        RateLimiter(100, clock=clock, sleep=sleeper),
        [Throttled("busy"), Throttled("busy")],
    )

    async def call() -> str:
        if answers:
            raise answers.pop()
        return "done"

    assert await limiter.with_retries(call) == "done"
    assert len(sleeper.pauses) == 2
    assert 0.5 <= sleeper.pauses[0] <= 1 <= sleeper.pauses[1] <= 2
    assert 25 <= limiter.rate < 30
    for _ in range(100):
        await limiter.with_retries(call)
    assert limiter.rate == 100


async def test_calls_throttled_together_halve_the_rate_once(clock: ManualClock) -> None:
    async def no_time(_: float) -> None: ...

    limiter = RateLimiter(100, clock=clock, sleep=no_time)
    refused = asyncio.Barrier(10)
    answers = [Throttled("busy")] * 10

    async def call() -> None:
        await refused.wait()
        if answers:
            raise answers.pop()

    await asyncio.gather(*(limiter.with_retries(call) for _ in range(10)))
    assert 50 <= limiter.rate < 100


async def test_the_last_attempt_raises(clock: ManualClock, sleeper: Sleeper) -> None:
    limiter, calls = RateLimiter(100, clock=clock, sleep=sleeper), 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise Throttled("busy")

    with pytest.raises(Throttled):
        await limiter.with_retries(call)
    assert calls == ATTEMPTS
    assert max(sleeper.pauses) <= LONGEST_PAUSE
    assert limiter.rate >= 1


async def test_other_errors_are_not_retried(clock: ManualClock, sleeper: Sleeper) -> None:
    async def call() -> None:
        raise Unavailable("gone")

    with pytest.raises(Unavailable):
        await RateLimiter(1, clock=clock, sleep=sleeper).with_retries(call)
    assert sleeper.pauses == []
