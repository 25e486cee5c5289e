"""The rows that were acked on this node: those that the store may still have, and those of the last
minute.

A node that hands over a stored message cannot know whether the user agent has received and acked it
from the store meanwhile. What was acked here since the message was taken answers that without
reading the store. And a row that the store still returns, after it was acked, is known by it.
"""

from collections.abc import Iterable
from typing import Final

from autopush.clock import Clock
from autopush.protocol.effects import Row

KEPT: Final = 60.0
"""Seconds; a node that hands over waits for three."""
MAX_KEPT: Final = 50_000


class AckedRows:
    """By UAID. `clock`: epoch seconds."""

    def __init__(self, clock: Clock, *, max_kept: int = MAX_KEPT) -> None:
        self._clock = clock
        self._max_kept = max_kept
        self._undeleted: dict[str, set[Row]] = {}
        self._times: dict[tuple[str, Row], float] = {}
        self._forgotten = float("-inf")

    def add(self, uaid: str, rows: Iterable[Row], *, may_recur: bool = False) -> None:
        """These were acked now, and are to be deleted. `may_recur`: what is stored later may have
        the same rows; then they are not known for longer than until they are deleted.
        """
        undeleted = self._undeleted.get(uaid)
        if undeleted is None:
            self._undeleted[uaid] = set(rows)
        else:
            undeleted.update(rows)
        if may_recur:
            return
        now, times = self._clock(), self._times
        for row in rows:
            times[uaid, row] = now
        while times:
            oldest = next(iter(times))
            if len(times) <= self._max_kept and times[oldest] > now - KEPT:
                break
            self._forgotten = max(self._forgotten, times.pop(oldest))

    def deleted(self, uaid: str, rows: Iterable[Row]) -> bool:
        """The store has these no more; returns whether none of the user's is left."""
        undeleted = self._undeleted.get(uaid)
        if undeleted is None:
            return False
        undeleted.difference_update(rows)
        if undeleted:
            return False
        del self._undeleted[uaid]
        return True

    def undeleted(self, uaid: str) -> frozenset[Row]:
        """The user's rows that are not known to be deleted yet."""
        return frozenset(self._undeleted.get(uaid, ()))

    def has(self, uaid: str, row: Row) -> bool:
        """Whether that row was acked, as far as `remembers_since` goes."""
        return (uaid, row) in self._times

    def remembers_since(self, then: float) -> bool:
        """Whether everything that was acked after that time (epoch seconds) is known."""
        return self._forgotten < then
