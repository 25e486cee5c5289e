"""How often one client address may do something.

Rule: addresses count as `TrustedProxies.limit_key` says, so what comes from a trusted proxy itself
is not limited.
"""

import time
from collections.abc import Callable

from autopush.rates import Rate, TokenBuckets


class AddressRates:
    """One token bucket for each client address. `rate`: None for no limit."""

    __slots__ = ("_buckets",)

    def __init__(
        self, rate: Rate | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._buckets = None if rate is None else TokenBuckets(rate, monotonic=monotonic)

    def take(self, key: str) -> float:
        """Take a token of the address with that `limit_key`, "" for one that is not limited.

        Returns 0.0, or in how many seconds there will be one.
        """
        return self._buckets.take(key) if self._buckets is not None and key else 0.0
