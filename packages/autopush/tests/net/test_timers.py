"""The timer wheel: never early, at most a tick late, one timer of the loop, no leftovers."""

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.net.timers import COARSE, LONG, MAX_SECONDS, MAX_STEPS, Timer, TimerWheel
from support.fake_loop import FakeLoop
from support.referents import held_by

TICK = 0.25
LATE = TICK + 0.002  # one tick and the rounding of the loop
LONG_LATE = COARSE * TICK + 0.002


@pytest.fixture
def clock() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def wheel(clock: FakeLoop) -> TimerWheel:
    return TimerWheel(clock.loop, TICK, clock.perf_counter)


@given(
    start=st.floats(0, 1e6),
    delays=st.lists(st.floats(0, 400), min_size=1, max_size=20),
    stride=st.floats(0.01, 30),
)
def test_a_timer_is_never_early_and_at_most_one_tick_late_or_four_if_it_is_long(
    start: float, delays: list[float], stride: float
) -> None:
    clock = FakeLoop(start)
    wheel = TimerWheel(clock.loop, TICK)
    called: dict[int, float] = {}

    def note(number: int) -> None:
        assert number not in called
        called[number] = clock.now

    for number, delay in enumerate(delays):
        wheel.after(delay, note, number)
    while len(wheel):
        clock.advance(stride)
    for number, delay in enumerate(delays):
        late = LATE if delay < LONG else LONG_LATE
        assert start + delay <= called[number] <= start + delay + late


def test_callback_gets_its_arguments_once(clock: FakeLoop, wheel: TimerWheel) -> None:
    calls: list[tuple[int, str]] = []

    def note(number: int, text: str) -> None:
        calls.append((number, text))

    timer = wheel.after(1, note, 7, "x")
    assert timer.pending
    clock.advance(10)
    assert calls == [(7, "x")]
    assert not timer.pending


def test_a_cancelled_timer_is_not_called(clock: FakeLoop, wheel: TimerWheel) -> None:
    calls: list[str] = []
    kept = wheel.after(1, calls.append, "kept")
    gone = wheel.after(1, calls.append, "gone")
    gone.cancel()
    assert not gone.pending
    assert kept.pending
    clock.advance(2)
    assert calls == ["kept"]


def test_cancelling_twice_or_after_the_call_changes_nothing(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[str] = []
    first = wheel.after(1, calls.append, "first")
    second = wheel.after(5, calls.append, "second")
    clock.advance(2)
    first.cancel()
    first.cancel()
    assert len(wheel) == 1
    second.cancel()
    second.cancel()
    assert len(wheel) == 0


def test_a_callback_may_cancel_another_of_its_own_tick(clock: FakeLoop, wheel: TimerWheel) -> None:
    calls: list[str] = []
    timers: list[Timer] = []

    def first() -> None:
        calls.append("first")
        timers[1].cancel()

    timers.append(wheel.after(1, first))
    timers.append(wheel.after(1, calls.append, "second"))
    timers.append(wheel.after(1, calls.append, "third"))
    clock.advance(2)
    assert calls == ["first", "third"]


def test_a_callback_may_set_a_timer_which_waits_for_a_later_tick(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    times: list[float] = []

    def again() -> None:
        times.append(clock.now)
        if len(times) < 3:
            wheel.after(0, again)

    wheel.after(0, again)
    clock.advance(5)
    assert len(times) == 3
    assert times[0] < times[1] < times[2]


def test_the_loop_holds_one_timer_however_many_there_are(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    assert clock.scheduled == []
    for delay in range(500):
        wheel.after(delay / 3, int)
        assert len(clock.scheduled) == 1
    clock.advance(20)
    assert len(clock.scheduled) == 1


def test_the_loop_sleeps_until_the_first_timer(clock: FakeLoop, wheel: TimerWheel) -> None:
    wheel.after(50, int)
    assert clock.scheduled == [pytest.approx(clock.now + 50, abs=LATE)]
    sooner = wheel.after(20, int)
    wheel.after(30, int)
    assert clock.scheduled == [pytest.approx(clock.now + 20, abs=LATE)]
    sooner.cancel()
    clock.advance(25)
    assert clock.scheduled == [pytest.approx(clock.now + 5, abs=LATE)]
    clock.advance(10)
    assert clock.scheduled == [pytest.approx(clock.now + 15, abs=LATE)]


def test_long_timeouts_wake_the_loop_once_a_second(clock: FakeLoop, wheel: TimerWheel) -> None:
    times: set[float] = set()
    for number in range(1000):
        wheel.after(LONG + number / 100, lambda: times.add(clock.now))
    clock.advance(LONG + 12)
    assert len(wheel) == 0
    assert len(times) == 10


def test_an_empty_wheel_holds_no_timer_of_the_loop(clock: FakeLoop, wheel: TimerWheel) -> None:
    wheel.after(1, int)
    clock.advance(1 + LATE)
    assert clock.scheduled == []
    timer = wheel.after(100, int)
    timer.cancel()
    clock.advance(100 + LONG_LATE)
    assert clock.scheduled == []
    calls: list[int] = []
    wheel.after(1, calls.append, 1)
    clock.advance(1 + LATE)
    assert calls == [1]


def test_after_a_stall_all_that_fell_due_is_called_in_order(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    order: list[int] = []
    for delay in (30, 10, 20, 500):
        wheel.after(delay, order.append, delay)
    clock.advance(100, stall=True)
    assert order == [10, 20, 30]
    clock.advance(500)
    assert order == [10, 20, 30, 500]


def test_a_stall_is_not_walked_tick_by_tick(clock: FakeLoop) -> None:
    wheel = TimerWheel(clock.loop, 1e-6)
    calls: list[int] = []
    wheel.after(1, calls.append, 1)
    clock.advance(1e6, stall=True)  # 10**12 ticks: walking them would hit the test's time limit
    assert calls == [1]


def test_an_exception_goes_to_the_loop_and_stops_no_other_timer(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[int] = []
    error = ValueError("a fault of its owner")

    def fail() -> None:
        raise error

    wheel.after(1, fail)
    wheel.after(1, calls.append, 1)
    wheel.after(2, calls.append, 2)
    clock.advance(5)
    assert calls == [1, 2]
    assert [context["exception"] for context in clock.errors] == [error]


def test_close_cancels_all_and_later_timers_are_never_called(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[int] = []
    timers = [wheel.after(delay, calls.append, delay) for delay in (1, 1, 60)]
    wheel.close()
    assert clock.scheduled == []
    assert not any(timer.pending for timer in timers)
    late = wheel.after(1, calls.append, 4)
    assert not late.pending
    late.cancel()
    clock.advance(100)
    assert calls == []
    assert clock.scheduled == []


def test_close_inside_a_callback_stops_the_rest_of_the_tick(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[int] = []
    wheel.after(1, wheel.close)
    rest = wheel.after(1, calls.append, 1)
    clock.advance(5)
    assert calls == []
    assert not rest.pending
    assert len(wheel) == 0
    assert clock.scheduled == []


# --- many timers in one tick --------------------------------------------------------------------


def fall_due(clock: FakeLoop) -> None:
    """The next turn of the loop is a second late."""
    clock.now += 1 + LATE
    clock.turn()


def test_many_timers_of_one_tick_take_one_time_slice_of_each_turn_in_their_order(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[int] = []
    for number in range(1000):
        wheel.after(1, calls.append, number)
    wheel.after(1.6, calls.append, 1000)
    fall_due(clock)
    clock.now += 1  # the later tick has to wait until this one is done
    done = 0
    while done < 1000:
        assert done < len(calls) <= done + MAX_STEPS
        assert len(wheel) == 1001 - len(calls)
        assert len(clock.scheduled) == 1
        done = len(calls)
        clock.turn()
    clock.advance(LATE)
    assert calls == list(range(1001))
    assert clock.scheduled == []
    assert held_by(wheel, dict) == [{}]


def test_slow_callbacks_exhaust_a_time_slice_by_their_time(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[int] = []

    def slow(number: int) -> None:
        clock.busy += MAX_SECONDS * 0.6
        calls.append(number)

    for number in range(10):
        wheel.after(1, slow, number)
    fall_due(clock)
    assert len(calls) == 2
    clock.advance()
    assert calls == list(range(10))


def test_between_two_time_slices_timers_can_be_cancelled_and_set(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    calls: list[int] = []
    timers = [wheel.after(1, calls.append, number) for number in range(200)]
    fall_due(clock)
    done = len(calls)
    assert done < 200
    for number in range(done, 200, 2):
        timers[number].cancel()
    wheel.after(0, calls.append, 200)
    clock.turn()
    assert 200 not in calls
    clock.advance(LATE)
    assert calls == [*range(done), *range(done + 1, 200, 2), 200]
    assert len(wheel) == 0
    assert clock.scheduled == []


@pytest.mark.parametrize("spend", ["called", "cancelled"])
def test_a_called_or_cancelled_timer_refers_to_nothing_of_its_owner(
    clock: FakeLoop, wheel: TimerWheel, spend: str
) -> None:
    class Owner:
        def due(self, other: object) -> None: ...

    owner, argument = Owner(), Owner()
    seen = [weakref.ref(owner), weakref.ref(argument)]
    timer = wheel.after(1, owner.due, argument)
    if spend == "cancelled":
        timer.cancel()
    else:
        clock.advance(2)
    gc.disable()  # by reference count alone
    try:
        del owner, argument
        assert [ref() for ref in seen] == [None, None]
    finally:
        gc.enable()
    assert not timer.pending


def test_a_tick_must_be_positive(clock: FakeLoop) -> None:
    with pytest.raises(ValueError, match="tick must be a positive number"):
        TimerWheel(clock.loop, 0)


def test_close_between_two_time_slices_stops_the_rest(clock: FakeLoop, wheel: TimerWheel) -> None:
    calls: list[int] = []
    timers = [wheel.after(1, calls.append, number) for number in range(200)]
    fall_due(clock)
    done = len(calls)
    wheel.close()
    assert clock.scheduled == []
    assert not any(timer.pending for timer in timers)
    clock.advance(10)
    assert len(calls) == done < 200


def test_after_never_calls_at_once(clock: FakeLoop, wheel: TimerWheel) -> None:
    calls: list[int] = []
    wheel.after(-5, calls.append, 1)
    assert calls == []
    clock.advance(LATE)
    assert calls == [1]


def test_cancelled_timers_leave_no_trace_in_an_empty_wheel(
    clock: FakeLoop, wheel: TimerWheel
) -> None:
    for _ in range(100):
        wheel.after(1000, int).cancel()
        clock.advance(2)
    clock.advance(1000)
    assert held_by(wheel, dict) == [{}]
