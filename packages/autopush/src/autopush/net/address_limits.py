"""What one client address may use: how often it may do something.

Rule: addresses count as `TrustedProxies.limit_key` says, so what comes from a trusted proxy itself
is not limited.
"""

import time
from collections.abc import Callable

from autopush.net.client_address import TrustedProxies
from autopush.rates import Rate, TokenBuckets


class AddressRates:
    """One token bucket for each client address. `rate`: None for no limit."""

    __slots__ = ("_buckets", "_proxies")

    def __init__(
        self,
        proxies: TrustedProxies,
        rate: Rate | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proxies = proxies
        self._buckets = None if rate is None else TokenBuckets(rate, monotonic=monotonic)

    def take(self, address: str) -> float:
        """Take a token of the address. Returns 0.0, or in how many seconds there will be one."""
        if self._buckets is None:
            return 0.0
        key = self._proxies.limit_key(address)
        return 0.0 if key is None else self._buckets.take(key)
