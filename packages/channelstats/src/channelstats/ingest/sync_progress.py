"""Which channels an interrupted run has done already.

Rule: a channel is noted after all of it is stored. Notes are not believed where they have grown old
(the channels have gone on meanwhile), and where another choice of channels or of days made them.
"""

from typing import Final

from channelstats.tables.attributes import number, text
from channelstats.tables.configuration import Configuration
from keytables import Clock, Item

BELIEVED: Final = 6 * 3600
"""Seconds after the last note in which a run goes on where the last one ended."""


class Progress:
    """The notes of one part of a run, in the row `sync <part>` of Configuration. ``mark`` tells a
    choice from every other. ``begun``: when the first of the runs began that have left them.
    """

    def __init__(self, configuration: Configuration, part: str, clock: Clock, mark: str) -> None:
        self._configuration, self._key, self._clock = configuration, f"sync {part}", clock
        self._mark = mark
        self._done: frozenset[str] = frozenset()
        self.begun = 0

    async def start(self) -> frozenset[str]:
        """Return the IDs of the channels that are done."""
        row = await self._configuration.get(self._key)
        done, at = row.get("done"), number(row, "at")
        recent = at is not None and 0 <= self._clock() - at < BELIEVED
        begun, self.begun = number(row, "begun"), int(self._clock())
        believed = recent and text(row, "of") == self._mark
        if believed and isinstance(done, frozenset) and begun is not None:
            self._done, self.begun = frozenset(str(cid) for cid in done), begun
        return self._done

    async def add(self, cid: str) -> None:
        """Note that a channel is done."""
        self._done |= {cid}
        columns: Item = {"done": self._done, "at": int(self._clock()), "of": self._mark}
        await self._configuration.put(self._key, {**columns, "begun": self.begun})

    async def forget(self) -> None:
        """The run has come to its end: the next one begins anew."""
        await self._configuration.delete(self._key)
