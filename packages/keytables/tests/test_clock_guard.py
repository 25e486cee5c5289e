"""A wall clock that was set is noticed, and believed in the end."""

import pytest

from keytables.clock_guard import BELIEVED_AFTER, MAX_JUMP, ClockGuard, read_clocks
from support.clocks import ManualClock

DAY = 86_400.0


class Clocks:
    def __init__(self) -> None:
        self.wall, self.steady = ManualClock(1_000_000.0), ManualClock(50.0)
        self.guard = ClockGuard(self.wall, self.steady)

    def wait(self, seconds: float, drift: float = 0.0) -> None:
        self.wall.advance(seconds * (1 + drift))
        self.steady.advance(seconds)


def test_a_jump_is_noticed_until_it_is_undone() -> None:
    clocks = Clocks()
    clocks.wall.advance(31 * DAY)
    clocks.wait(50)
    assert clocks.guard.jump() == 31 * DAY
    clocks.wait(50)
    assert clocks.guard.jump() == 31 * DAY
    clocks.wall.advance(-31 * DAY)
    assert clocks.guard.jump() == 0.0


def test_a_process_that_starts_after_a_jump_notices_it_by_the_first_reading() -> None:
    clocks = Clocks()
    first = read_clocks(clocks.wall, clocks.steady)
    clocks.wait(365 * DAY, drift=0.0003)
    clocks.wall.advance(31 * DAY)
    later = ClockGuard(clocks.wall, clocks.steady, first=first)
    assert later.jump() == pytest.approx(31 * DAY, rel=0.01)
    clocks.wait(BELIEVED_AFTER)
    assert later.jump() == 0.0


def test_a_process_that_starts_late_takes_a_slow_gain_for_no_jump() -> None:
    clocks = Clocks()
    first = read_clocks(clocks.wall, clocks.steady)
    clocks.wait(365 * DAY, drift=0.0003)
    later = ClockGuard(clocks.wall, clocks.steady, first=first)
    assert later.jump() == 0.0
    clocks.wait(60)
    assert later.jump() == 0.0


def test_a_new_time_is_believed_when_it_has_stayed() -> None:
    clocks = Clocks()
    clocks.wall.advance(DAY)
    assert clocks.guard.jump() == DAY
    clocks.wait(BELIEVED_AFTER - 1)
    assert clocks.guard.jump() == DAY
    clocks.wait(1)
    assert clocks.guard.jump() == 0.0
    clocks.wait(60)
    assert clocks.guard.jump() == 0.0
    clocks.wall.advance(-DAY)
    assert clocks.guard.jump() == -DAY


def test_a_time_that_changes_again_is_not_believed() -> None:
    clocks = Clocks()
    for _ in range(10):
        clocks.wall.advance(DAY)
        assert clocks.guard.jump() > 0
        clocks.wait(BELIEVED_AFTER - 1)
        assert clocks.guard.jump() > 0


def test_a_small_correction_is_no_jump() -> None:
    clocks = Clocks()
    clocks.wall.advance(MAX_JUMP)
    assert clocks.guard.jump() == 0.0


def test_a_clock_that_gains_slowly_never_jumps() -> None:
    clocks = Clocks()
    for _ in range(10_000):
        clocks.wait(3600, drift=0.0003)
        assert clocks.guard.jump() == 0.0
