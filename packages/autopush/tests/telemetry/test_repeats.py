from autopush.telemetry.logs import MAX_KINDS, RepeatLimiter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_of_each_kind_so_many_are_admitted_in_an_interval_and_the_others_counted() -> None:
    clock = Clock()
    limiter = RepeatLimiter(2, 10.0, monotonic=clock)
    assert [limiter.admit("a") for _ in range(4)] == [{}, {}, None, None]
    assert limiter.admit("b") == {}
    clock.now += 9.9
    assert limiter.admit("a") is None
    clock.now += 0.1
    assert [limiter.admit("a") for _ in range(3)] == [{"suppressed": 3}, {}, None]
    assert limiter.admit(7) == {}


def test_the_number_of_kinds_is_bounded() -> None:
    limiter = RepeatLimiter(1, 10.0, monotonic=Clock())
    for kind in range(MAX_KINDS):
        assert limiter.admit(kind) == {}
    assert limiter.admit(0) is None
    assert limiter.admit("one more") == {}
    assert limiter.admit(0) == {}  # forgotten
