"""A clock that tests set."""


class ManualClock:
    """Seconds since the epoch; changes only when a test sets it."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
