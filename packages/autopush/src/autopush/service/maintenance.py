"""Daily maintenance by the service itself: what `autopush maintain` does, slowly.

Each worker checks now and then whether the work is due; a lease decides which of them does it. An
interrupted run continues later, since all progress is in the tables. Steps are small and paced, a
busy store slows them down, and a failure ends the run until later.

Rule: nothing is dropped by a clock that has just been set: a wrong one would make every user agent
look long unseen.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Final

from autopush.clock import Clock
from autopush.jobs import RateLimiter, Sleep, repeat
from autopush.store import PushStore
from autopush.store.maintenance import (
    OLDEST_MONTHS,
    UNSEEN_MONTHS,
    UserRemover,
    drop_old_users,
    find_old_users,
    months_ago,
)
from autopush.store.rotation import (
    IDLE,
    MIN_KEEP,
    CreateTable,
    DropTable,
    apply_step,
    find_tables,
    plan_rotation,
)
from autopush.store.users import connect_keys, connect_keys_of_day
from autopush.telemetry import logs
from autopush.telemetry.metric_table import UA_EXPIRATION
from autopush.telemetry.metrics import Metrics
from keytables import Attr, KeytablesError, Param
from keytables.clock_guard import ClockGuard, ClockReading, steady_clock
from keytables.lease import Lease, LeaseLost

FIRST_CHECK: Final = (120.0, 600.0)
"""Range of the seconds from the start of a worker to its first check, picked at random."""
NEXT_CHECK: Final = (1_800.0, 5_400.0)
"""Range of the seconds to the next check. So the time of day at which it runs varies."""
RATE: Final = 20.0
"""User agents a second: 0.7 % of a core."""
BATCH: Final = 10
"""User agents dropped concurrently."""
MONTH_PAUSE: Final = 3.0
"""Seconds after reading the index of a month, which takes some 30 ms."""
LEASE_KEY: Final = ("maintenance", "lease")
"""A row of the versions table that is no user agent; its `done_at`: when the work was last done."""
LEASE: Final = 600
"""Seconds from a renewal to the end of the lease."""
PERIOD: Final = 86_400
"""Seconds from one run to the next."""
# A `done_at` in the future is from a clock that was wrong, and is ignored.
_IS_DUE: Final = (
    Attr("done_at").absent()
    | (Attr("done_at") <= Param("before"))
    | (Attr("done_at") > Param("now"))
)
MAX_CLOCK_STEP: Final = 600.0
"""Seconds of a clock jump that is tolerated."""
DISTRUST: Final = 86_400.0
"""Seconds for which the clock is not trusted after a larger jump."""

_log = logs.get(__name__)


@dataclass(slots=True)
class _Progress:
    users_dropped: int = 0
    tables_made: list[str] = field(default_factory=list)
    tables_dropped: list[str] = field(default_factory=list)

    @property
    def fields(self) -> dict[str, object]:
        return {
            "users_dropped": self.users_dropped,
            "tables_made": self.tables_made,
            "tables_dropped": self.tables_dropped,
        }


@dataclass(eq=False)
class Maintenance:
    """Maintenance by one worker. `first_reading`: of the clocks, at the start of the service."""

    store: PushStore
    metrics: Metrics
    clock: Clock
    _: KW_ONLY
    first_reading: ClockReading | None
    key_hash: str = field(repr=False)
    steady: Clock = steady_clock
    sleep: Sleep = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform

    def __post_init__(self) -> None:
        self._dropped = self.metrics.counter(UA_EXPIRATION, reason="not_seen")
        self._guard = ClockGuard(
            self.clock,
            self.steady,
            first=self.first_reading,
            max_jump=MAX_CLOCK_STEP,
            believed_after=DISTRUST,
        )
        self._clock_was_set = False

    async def run(self) -> None:
        """Check after some minutes, and then repeatedly until cancelled."""
        await self.sleep(self.uniform(*FIRST_CHECK))
        pause = partial(self.uniform, *NEXT_CHECK)
        await repeat(self.run_if_due, pause, "maintenance", sleep=self.sleep)

    async def run_if_due(self) -> None:
        """Do the work if it is due and no other worker does it; store failures are logged."""
        progress = _Progress()
        now = int(self.clock())
        lease = Lease(self.store.versions_table, LEASE_KEY, self.clock, seconds=LEASE)
        try:
            if self._clock_is_trusted() and await lease.acquire(_IS_DUE, {"before": now - PERIOD}):
                await self._work(lease, progress)
        except LeaseLost:
            _log.warning("Maintenance goes on in another process", **progress.fields)
        except KeytablesError as error:
            _log.warning(
                "Maintenance failed and is tried again later", reason=str(error), **progress.fields
            )

    async def _work(self, lease: Lease, progress: _Progress) -> None:
        began = self.steady()
        try:
            await self._maintain_tables(lease, progress)
            await self._drop_users(lease, progress)
        except BaseException:  # also when the service stops
            with suppress(KeytablesError):  # then it expires
                await lease.release()
            raise
        await lease.release({"done_at": int(self.clock())})
        seconds = round(self.steady() - began, 1)
        _log.info("Maintenance is done", **progress.fields, seconds=seconds)

    async def _maintain_tables(self, lease: Lease, progress: _Progress) -> None:
        engine, plan = self.store.engine, self.store.plan
        if not plan.rotating:
            return
        tables = await find_tables(engine, plan)
        for step in plan_rotation(tables, plan, self.clock(), keep=MIN_KEEP, idle=IDLE):
            await lease.confirm()
            await apply_step(engine, step)
            match step:
                case CreateTable(table):
                    progress.tables_made.append(table)
                case DropTable(table):
                    progress.tables_dropped.append(table)

    async def _drop_users(self, lease: Lease, progress: _Progress) -> None:
        store = self.store
        remover = await UserRemover.open(store.engine, store.plan, key_hash=self.key_hash)
        if remover is None:
            return
        limiter = RateLimiter(RATE, clock=self.steady, sleep=self.sleep)
        now = self.clock()
        today = datetime.fromtimestamp(now, UTC).day
        for month in months_ago(now, UNSEEN_MONTHS, OLDEST_MONTHS):
            # Of the keys that name a day, those of today's number: so each is read once a month.
            keys = chain(connect_keys(month), connect_keys_of_day(month, today))
            counts = await find_old_users(remover, keys, limiter=limiter)
            await self.sleep(MONTH_PAUSE)
            batches = drop_old_users(remover, counts, limiter=limiter, batch_size=BATCH, now=now)
            async with aclosing(batches):
                async for batch in batches:
                    progress.users_dropped += batch.dropped
                    self._dropped.add(batch.dropped)
                    await lease.confirm()

    def _clock_is_trusted(self) -> bool:
        """Whether the clock has not jumped recently."""
        step = self._guard.jump()
        if step and not self._clock_was_set:
            _log.warning("The clock was set; maintenance waits for a day", step=round(step))
        self._clock_was_set = bool(step)
        return not step
