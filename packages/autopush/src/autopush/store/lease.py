"""The lease of daily work: one process of all that share a store does it, once a day.

It is a row of the table of versions, under a key that no user agent has: a lease, and `done_at`,
when the work was last done.
"""

from typing import Final

from autopush.clock import Clock
from keytables import Attr, Param, TableHandle
from keytables.lease import Lease

KEY: Final = ("maintenance", "lease")
LEASE: Final = 600
"""Seconds from one renewal to the end of the lease."""
PERIOD: Final = 86_400
"""Seconds from one run to the next."""

# A time of the future is that of a clock that was wrong, and counts for nothing.
_IS_DUE: Final = (
    Attr("done_at").absent()
    | (Attr("done_at") <= Param("before"))
    | (Attr("done_at") > Param("now"))
)


class DailyLease(Lease):
    """The lease, as one process takes it. `versions`: the table of versions."""

    def __init__(self, versions: TableHandle, clock: Clock) -> None:
        super().__init__(versions, KEY, clock, seconds=LEASE)

    async def acquire_if_due(self) -> bool:
        """Take it if the work is due and nobody else is at it."""
        return await self.acquire(_IS_DUE, {"before": int(self._clock()) - PERIOD})

    async def complete(self) -> None:
        """The work is done for today."""
        await self.release({"done_at": int(self._clock())})
