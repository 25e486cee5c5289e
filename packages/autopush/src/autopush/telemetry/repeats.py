"""A bound on how often one kind of event is reported."""

import time
from collections.abc import Callable
from typing import Final

MAX_KINDS: Final = 1000
"""Kinds that are known at once; with more all are forgotten."""


class RepeatLimiter:
    """Admits up to `limit` events of a kind in each `interval` seconds, and counts the others."""

    def __init__(
        self,
        limit: int,
        interval: float = 1.0,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._interval = interval
        self._monotonic = monotonic
        self._windows: dict[int | str, _Window] = {}

    def admit(self, kind: int | str) -> dict[str, int] | None:
        """Whether to report this event: None if not; else the fields for its line, `suppressed` if
        events of its kind were not reported since the last one.
        """
        now = self._monotonic()
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= MAX_KINDS:
                self._windows.clear()
            window = self._windows[kind] = _Window(now)
        if now - window.start >= self._interval:
            window.start, window.admitted = now, 0
        if window.admitted >= self._limit:
            window.suppressed += 1
            return None
        window.admitted += 1
        suppressed, window.suppressed = window.suppressed, 0
        return {"suppressed": suppressed} if suppressed else {}


class _Window:
    __slots__ = ("admitted", "start", "suppressed")

    def __init__(self, start: float) -> None:
        self.start = start
        self.admitted = 0
        self.suppressed = 0
