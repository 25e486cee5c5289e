"""How often something may happen: rates, and one token bucket for each of many keys.

Rule: what is kept is bounded. A key whose bucket is full again is forgotten, since that is how an
unknown one begins.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

MAX_KEYS: Final = 100_000
"""Keys that are known at once. With more, those that have used least of their bucket are forgotten
first.
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

    What is kept of a bucket is when it will be full. `monotonic`: seconds since any moment.
    """

    __slots__ = ("_full_at", "_interval", "_max_keys", "_monotonic", "_seconds")

    def __init__(
        self,
        rate: Rate,
        *,
        max_keys: int = MAX_KEYS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = float(rate.seconds)
        self._interval = rate.seconds / rate.count
        self._max_keys = max_keys
        self._monotonic = monotonic
        self._full_at: dict[Hashable, float] = {}

    def take(self, key: Hashable) -> float:
        """Take a token. Returns 0.0, or in how many seconds there will be one: then none was
        taken.
        """
        now = self._monotonic()
        full_at = self._full_at.get(key, 0.0)
        if full_at < now:
            full_at = now
        full_at += self._interval
        wait = full_at - now - self._seconds
        if wait > 1e-9:
            return wait
        if len(self._full_at) >= self._max_keys and key not in self._full_at:
            self._forget(now)
        self._full_at[key] = full_at
        return 0.0

    def _forget(self, now: float) -> None:
        """Forget the keys whose buckets are full, and if they are few, those that are so next."""
        used = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        most = self._max_keys // 2
        if len(used) > most:
            used = dict(sorted(used.items(), key=lambda item: item[1])[-most:])
        self._full_at = used
