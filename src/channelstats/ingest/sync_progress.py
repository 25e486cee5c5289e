"""Which channels an interrupted run has done already.

Rule: a channel is noted after all of it is stored. Notes that have grown old are not believed: the
channels have gone on meanwhile.
"""

from typing import Final

from channelstats.tables.attributes import number
from channelstats.tables.configuration import Configuration
from tablestore import Clock

BELIEVED: Final = 6 * 3600
"""Seconds after the last note in which a run goes on where the last one ended."""


class Progress:
    """The notes of one part of a run, in the row `sync <part>` of Configuration."""

    def __init__(self, configuration: Configuration, part: str, clock: Clock) -> None:
        self._configuration, self._key, self._clock = configuration, f"sync {part}", clock
        self._done: frozenset[str] = frozenset()

    async def start(self) -> frozenset[str]:
        """Return the IDs of the channels that are done."""
        row = await self._configuration.get(self._key)
        done, at = row.get("done"), number(row, "at")
        if isinstance(done, frozenset) and at is not None and 0 <= self._clock() - at < BELIEVED:
            self._done = frozenset(str(cid) for cid in done)
        return self._done

    async def add(self, cid: str) -> None:
        """Note that a channel is done."""
        self._done |= {cid}
        await self._configuration.put(self._key, {"done": self._done, "at": int(self._clock())})

    async def forget(self) -> None:
        """The run has come to its end: the next one begins anew."""
        await self._configuration.delete(self._key)
