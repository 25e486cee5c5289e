"""The lease of daily work: one process of all that share a store does it, once a day.

It is a row of the table of versions, under a key that no user agent has: who holds the lease, until
when, and when the work was last done. Rule: a lease that is not renewed ends, so a holder that
crashed is replaced; a holder that lost it stops. The work itself must allow for two at once: a
holder may stand still for longer than its lease.
"""

import uuid
from typing import Final

from autopush.clock import Clock
from keytables import Attr, Condition, ConditionFailed, Param, TableHandle, Update, Values

KEY: Final = ("maintenance", "lease")
LEASE: Final = 600
"""Seconds from one renewal to the end of the lease."""
PERIOD: Final = 86_400
"""Seconds from one run to the next."""

# Times of the future are those of a clock that was wrong, and count for nothing.
_IS_FREE: Final = (
    Attr("held_until").absent()
    | (Attr("held_until") <= Param("now"))
    | (Attr("held_until") > Param("latest"))
)
_IS_DUE: Final = (
    Attr("done_at").absent()
    | (Attr("done_at") <= Param("before"))
    | (Attr("done_at") > Param("now"))
)
_IS_HELD: Final = Attr("holder") == Param("holder")
_TAKE: Final = Update(set=("holder", "held_until"))
_RENEW: Final = Update(set=("held_until",))
_RELEASE: Final = Update(remove=("holder", "held_until"))
_COMPLETE: Final = Update(set=("done_at",), remove=("holder", "held_until"))


class DailyLease:
    """The lease, as one process takes it. `versions`: the table of versions."""

    def __init__(self, versions: TableHandle, clock: Clock) -> None:
        self._table = versions
        self._clock = clock
        self._holder = uuid.uuid4().hex

    async def acquire(self) -> bool:
        """Take it if the work is due and nobody else is at it."""
        now = int(self._clock())
        values: Values = {
            "holder": self._holder,
            "held_until": now + LEASE,
            "now": now,
            "latest": now + LEASE,
            "before": now - PERIOD,
        }
        return await self._write(_TAKE, values, _IS_FREE & _IS_DUE)

    async def renew(self) -> bool:
        """Keep it for longer; False when another process has it."""
        values: Values = {"holder": self._holder, "held_until": int(self._clock()) + LEASE}
        return await self._write(_RENEW, values, _IS_HELD)

    async def release(self) -> None:
        """Let another process do the work, soon."""
        await self._write(_RELEASE, {"holder": self._holder}, _IS_HELD)

    async def complete(self) -> None:
        """The work is done for today."""
        values: Values = {"holder": self._holder, "done_at": int(self._clock())}
        await self._write(_COMPLETE, values, _IS_HELD)

    async def _write(self, update: Update, values: Values, condition: Condition) -> bool:
        try:
            await self._table.update(KEY, update, values, condition=condition)
        except ConditionFailed:
            return False
        return True
