"""How often something may happen: rates, and one token bucket for each of many keys.

Rule: what is kept is bounded. A key that is forgotten begins with a full bucket again.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from autopush.recently_used import RecentlyUsed

MAX_KEYS: Final = 100_000
"""Keys that are known at once. With more, those used longest ago are forgotten; half of so many are
always known.
"""

UNITS: Final = {"s": 1, "min": 60, "h": 3600}
"""Seconds of the times that a rate can be of, as settings write them."""


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` times in a `unit` of time. So many at once are admitted too, if there were none
    before.
    """

    count: int
    unit: str

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"

    @property
    def seconds(self) -> int:
        return UNITS[self.unit]


class TokenBuckets:
    """A bucket of `rate.count` tokens for each key, which fills again within `rate.seconds`.

    `rate`: None for no limit. The key "" has none either (see `TrustedProxies.limit_key`).
    `monotonic`: seconds since any moment.
    """

    __slots__ = ("_full_at", "_interval", "_monotonic", "_seconds", "rate")

    def __init__(
        self,
        rate: Rate | None,
        *,
        max_keys: int = MAX_KEYS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rate: Final = rate
        seconds, count = (rate.seconds, rate.count) if rate is not None else (0, 1)
        self._seconds = seconds + 1e-9  # what rounding may take from the last token
        self._interval = seconds / count
        self._monotonic = monotonic
        self._full_at = RecentlyUsed[float](max_keys)
        """When each bucket will be full."""

    def take(self, key: Hashable, now: float | None = None) -> float:
        """Take a token. Returns 0.0, or in how many seconds there will be one: then none was
        taken.

        `now`: what the clock says, for callers that have read it.
        """
        if not (self._interval and key):
            return 0.0
        if now is None:
            now = self._monotonic()
        known = self._full_at
        full_at = known.newest.get(key)
        if full_at is None:
            full_at = known.recall(key, 0.0)
        if full_at <= now:
            full_at = now
        elif (wait := full_at + self._interval - now - self._seconds) > 0.0:
            return wait
        known.newest[key] = full_at + self._interval
        return 0.0
