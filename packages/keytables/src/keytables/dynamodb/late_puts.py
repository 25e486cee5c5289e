"""Puts that may take effect after their result: of an attempt that was given up nobody knows when,
or whether, the database will carry it out.

Rule: an attempt takes effect while its signature is valid, or never: later the database refuses it.
"""

import time
from collections.abc import Iterable
from typing import Final

from keytables.engine import Clock
from keytables.values import KeyTuple

__all__ = ["SETTLE_TIME", "SETTLE_TIME_OF_ALTERNATOR", "UnsettledPuts"]

SIGNATURE_VALID: Final = 300.0
"""Seconds for which AWS accepts a signature (Signature Version 4)."""
SIGNATURE_VALID_IN_ALTERNATOR: Final = 900.0
MARGIN: Final = 30.0
"""Seconds by which the clock that a request was signed by may be ahead."""

SETTLE_TIME: Final = SIGNATURE_VALID + MARGIN
SETTLE_TIME_OF_ALTERNATOR: Final = SIGNATURE_VALID_IN_ALTERNATOR + MARGIN

MAX_KEYS: Final = 100_000


class UnsettledPuts:
    """The keys whose puts may take effect late, for `settle_time` seconds each.

    With more than `max_keys` of them, every key counts as one for that time.
    """

    def __init__(
        self,
        settle_time: float = SETTLE_TIME,
        *,
        max_keys: int = MAX_KEYS,
        now: Clock = time.monotonic,
    ) -> None:
        self.settle_time = settle_time
        self._max_keys, self._now = max_keys, now
        self._until: dict[KeyTuple, float] = {}
        self._all_until = 0.0

    def add(self, key: KeyTuple) -> None:
        """A put of this item was repeated or given up just now."""
        now = self._now()
        self._drop_settled(now)
        self._until.pop(key, None)  # so that the order stays that of the times
        if len(self._until) >= self._max_keys:
            self._all_until = now + self.settle_time
            self._until.clear()
        self._until[key] = now + self.settle_time

    def among(self, keys: Iterable[KeyTuple]) -> frozenset[KeyTuple]:
        """Those of the keys whose puts may take effect late."""
        if not self._until and not self._all_until:
            return frozenset()
        now = self._now()
        self._drop_settled(now)
        if now < self._all_until:
            return frozenset(keys)
        return frozenset(key for key in keys if key in self._until)

    def _drop_settled(self, now: float) -> None:
        settled = []
        for key, until in self._until.items():
            if until > now:
                break
            settled.append(key)
        for key in settled:
            del self._until[key]
