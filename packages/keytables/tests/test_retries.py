"""Delays between attempts, attempts until a deadline, and the circuit breaker."""

import asyncio
import random

import pytest

from keytables import Throttled
from keytables.retries import Attempts, Backoff, CircuitBreaker
from support.clocks import ManualClock


@pytest.mark.parametrize(
    ("jitter", "least", "most"),
    [(1.0, [0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 4.0, 5.0]), (0.5, [0.5, 1, 2, 2.5], [1, 2, 4, 5])],
)
def test_the_bound_of_a_delay_doubles_up_to_the_longest(
    jitter: float, least: list[float], most: list[float]
) -> None:
    for random_, expected in ((0.0, least), (1.0, most)):
        backoff = Backoff(1.0, 5.0, jitter, random=lambda random_=random_: random_)  # type: ignore[misc]
        assert [backoff.delay(failures) for failures in (1, 2, 3, 4)] == expected


def test_delays_are_spread_over_the_whole_range() -> None:
    backoff = Backoff(0.025, 1.0, random=random.Random(1).random)
    delays = [backoff.delay(100_000) for _ in range(1000)]
    assert min(delays) < 0.01
    assert max(delays) > 0.99
    assert 0.45 < sum(delays) / 1000 < 0.55


def test_without_a_limit_of_attempts_the_deadline_ends_them() -> None:
    attempts = Attempts(Backoff(0.5, 8.0, jitter=0.0), deadline=100.0)
    assert [attempts.next_delay(0.0) for _ in range(2000)][-1] == 8.0
    assert attempts.next_delay(91.9) == 8.0
    assert attempts.next_delay(92.0) is None


async def test_waiting_raises_the_given_error_when_it_is_too_late() -> None:
    now = asyncio.get_running_loop().time()
    await Attempts(Backoff(0.0, 0.0), now + 60).wait(Throttled("late"))
    with pytest.raises(Throttled, match="late"):
        await Attempts(Backoff(0.0, 0.0), now).wait(Throttled("late"))


class Circuit:
    """A breaker that opens for 30 s after 3 failures."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.breaker = CircuitBreaker(open_for=30.0, now=self.clock, max_failures=3)

    def fail(self, times: int) -> None:
        for _ in range(times):
            self.breaker.on_failure()


def test_a_circuit_opens_after_so_many_failures_in_a_row() -> None:
    circuit = Circuit()
    circuit.fail(2)
    circuit.breaker.on_success()
    circuit.fail(2)
    assert circuit.breaker.begin_call() == 0.0
    circuit.fail(1)
    assert circuit.breaker.is_open
    assert circuit.breaker.begin_call() == 30.0
    circuit.clock.advance(10)
    assert circuit.breaker.begin_call() == 20.0


def test_the_success_of_the_probe_closes_an_open_circuit() -> None:
    circuit = Circuit()
    circuit.fail(3)
    circuit.clock.advance(30)
    assert circuit.breaker.begin_call() == 0.0
    circuit.breaker.on_success()
    assert not circuit.breaker.is_open
    assert circuit.breaker.begin_call() == circuit.breaker.begin_call() == 0.0


@pytest.mark.parametrize("outcome", ["fails", "does not end"])
def test_one_call_at_a_time_probes_an_open_circuit(outcome: str) -> None:
    circuit = Circuit()
    circuit.fail(3)
    for _ in range(3):
        circuit.clock.advance(30)
        assert circuit.breaker.begin_call() == 0.0
        assert circuit.breaker.begin_call() == 30.0
        if outcome == "fails":
            circuit.clock.advance(2)
            circuit.fail(1)
            assert circuit.breaker.begin_call() == 30.0


def test_calls_that_began_before_keep_the_circuit_open_when_they_fail() -> None:
    circuit = Circuit()
    circuit.fail(3)
    circuit.clock.advance(20)
    circuit.fail(1)
    assert circuit.breaker.begin_call() == 30.0
