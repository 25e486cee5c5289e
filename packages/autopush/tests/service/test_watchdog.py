"""When the watchdog of the supervisor takes a worker for frozen."""

from autopush.service.supervisor import CONFIRM_AFTER, Watchdog


class Heartbeats:
    """Those of three workers, of which the watchdog hears after `timeout` 10."""

    def __init__(self) -> None:
        self.last = [100.0, 100.0, 100.0]
        self.watchdog = Watchdog(10.0, lambda: self.last)

    def look(self, now: float, *ready: int) -> dict[int, float]:
        return self.watchdog.frozen(dict.fromkeys(ready or (0, 1, 2), 90.0), now)


def test_a_worker_silent_at_two_looks_is_frozen_and_no_other() -> None:
    beats = Heartbeats()
    assert beats.look(101.0) == {}
    assert beats.watchdog.due == 110.0
    beats.last[:] = [109.0, 100.0, 109.5]
    assert beats.look(110.0) == {}
    assert beats.watchdog.due == 110.0 + CONFIRM_AFTER
    beats.last[:] = [110.5, 100.0, 110.5]
    assert beats.look(110.0 + CONFIRM_AFTER) == {1: 10.0 + CONFIRM_AFTER}
    beats.look(111.0, 0, 2)
    assert beats.watchdog.due == 120.5


def test_a_worker_that_beats_before_the_second_look_is_not_frozen() -> None:
    beats = Heartbeats()
    beats.look(101.0)
    beats.look(110.0)
    beats.last[:] = [110.9] * 3
    assert beats.look(111.0) == {}
    assert beats.watchdog.due == 120.9


def test_nobody_is_frozen_after_a_time_in_which_the_watchdog_did_not_run() -> None:
    beats = Heartbeats()
    beats.look(101.0)
    assert beats.look(3_600.0) == {}, "no look was due while they were silent"
    assert beats.look(3_600.5) == {}, "too early to decide"
    assert beats.look(7_200.0) == {}, "the look that was to decide came late"
    beats.last[:] = [7_200.2, 7_200.2, 100.0]
    assert beats.look(7_201.0) == {2: 7_101.0}


def test_the_silence_of_a_worker_begins_when_it_serves() -> None:
    beats = Heartbeats()
    beats.last[0] = 0.0
    assert beats.watchdog.frozen({0: 105.0}, 106.0) == {}
    assert beats.watchdog.due == 115.0


def test_a_timeout_of_0_watches_nobody() -> None:
    watchdog = Watchdog(0.0, lambda: [0.0])
    assert watchdog.frozen({0: 0.0}, 1e6) == {}
    assert watchdog.due is None
