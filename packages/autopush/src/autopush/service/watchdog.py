"""Finds workers that are frozen, so that the supervisor kills them.

A frozen worker may hold the store's write lock, on which all others wait. Rule: none is killed for
a silence in which the supervisor did not run either, since then the whole machine stood still. So a
worker must be silent at two looks, of which the second was on time.
"""

from collections.abc import Callable, Sequence
from typing import Final

SECOND_LOOK: Final = 1.0
"""Seconds from the look at which a worker is silent to the one that decides. A look that is late by
as much decides nothing.
"""


class Watchdog:
    """Finds the workers whose heartbeat stopped.

    `timeout`: seconds of silence after which a worker is frozen, 0 if none ever is. `heartbeats`:
    when the event loop of each worker last ran, by index; all times are those of the monotonic
    clock.
    """

    def __init__(self, timeout: float, heartbeats: Callable[[], Sequence[float]]) -> None:
        self._timeout = timeout
        self._heartbeats = heartbeats
        self._suspects: dict[int, float] = {}
        self.due: float | None = None
        """When to look again; None while nothing is watched."""

    def frozen(self, ready: dict[int, float], now: float) -> dict[int, float]:
        """The workers to be killed, with the seconds they were silent. `ready`: since when each of
        those has served that are to be watched.
        """
        was_late = self.due is not None and now - self.due >= SECOND_LOOK
        if not (self._timeout and ready):
            self.due = None
            return {}
        frozen = {}
        heartbeats = self._heartbeats()
        self._suspects = {each: at for each, at in self._suspects.items() if each in ready}
        dues = []
        for index, since in ready.items():
            last = max(heartbeats[index], since)
            if now - last < self._timeout:
                self._suspects.pop(index, None)
                dues.append(last + self._timeout)
                continue
            if was_late or index not in self._suspects:
                self._suspects[index] = now + SECOND_LOOK
            if now < self._suspects[index]:
                dues.append(self._suspects[index])
            else:
                del self._suspects[index]
                frozen[index] = now - last
        self.due = min(dues, default=None)
        return frozen
