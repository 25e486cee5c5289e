"""What is done about the store while it is served: tables of a new month, log lines, metrics."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Final

from autopush.clock import Clock, ServiceClock, until_next
from autopush.jobs import repeat
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.store.failures import StoreFailures
from autopush.telemetry import logs
from autopush.telemetry.metric_table import (
    MESSAGE_EXPIRED,
    STORE_COMMITS,
    STORE_CONNECTION_WAITS,
    STORE_CONNECTIONS,
    STORE_EXPIRED,
    STORE_ROUND_TRIPS,
    STORE_WRITTEN,
)
from autopush.telemetry.metrics import Metrics
from keytables import KeytablesError
from keytables.engine import Activity

ROTATION_INTERVAL: Final = 60.0
"""Seconds between two checks of the date."""
COMPARE_INTERVAL: Final = 60.0
"""Seconds between two comparisons with the database's clock."""
ACTIVITY: Final = {
    "connection_waits": STORE_CONNECTION_WAITS,
    "round_trips": STORE_ROUND_TRIPS,
    "commits": STORE_COMMITS,
    "written": STORE_WRITTEN,
}
"""What an engine counts, as metrics."""

_log: Final = logs.get(__name__)


async def rotate_monthly(
    rotate: Callable[[], Awaitable[None]], interval: float = ROTATION_INTERVAL
) -> None:
    """Call `rotate` every `interval` seconds until cancelled. Failures are logged."""

    async def rotate_or_log() -> None:
        try:
            await rotate()
        except KeytablesError as error:
            _log.warning("The message table of a month could not be made", reason=str(error))

    await asyncio.sleep(interval)
    await repeat(rotate_or_log, lambda: interval, "rotate_monthly")


def _to_next_second() -> float:
    return until_next(1.0, time.monotonic())


@dataclass(eq=False)
class StoreWatch:
    """Logs and counts what happens to the store while it is served.

    `reports_disk`: for one of the workers, which logs what concerns all: the clock and the disk.
    """

    store: PushStore
    failures: StoreFailures
    settings: Settings
    metrics: Metrics
    _: KW_ONLY
    clock: ServiceClock
    reports_disk: bool
    pause: Callable[[], float] = _to_next_second
    monotonic: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._was_nearly_full = False
        self._clock_was_set = self._clock_differs = False
        self._compare_at = 0.0
        self._connections = self.metrics.gauge(STORE_CONNECTIONS)
        self._counters = {name: self.metrics.counter(metric) for name, metric in ACTIVITY.items()}
        self._counted = Activity()
        self._expired = self.metrics.counter(STORE_EXPIRED)
        self._expired_messages = self.metrics.counter(MESSAGE_EXPIRED)
        self._counted_expired: Mapping[str, int] = {}

    async def run(self) -> None:
        await repeat(self._check, self.pause, "StoreWatch")

    async def _check(self) -> None:
        self.failures.report()
        self._count()
        if self.reports_disk:
            self._check_clock()
            self._check_space()
        with suppress(KeytablesError):  # it is reported, and tried again
            await self._compare_clocks()

    def _count(self) -> None:
        expired = dict(self.store.engine.expired)
        for table, count in expired.items():
            new = count - self._counted_expired.get(table, 0)
            self._expired.add(new)
            if self.store.is_message_table(table):
                self._expired_messages.add(new)
        self._counted_expired = expired
        activity = self.store.engine.activity
        if activity is None:
            return
        self._connections.set(activity.connections)
        for name, counter in self._counters.items():
            counter.add(getattr(activity, name) - getattr(self._counted, name))
        self._counted = replace(activity)

    async def _compare_clocks(self) -> None:
        if self.monotonic() < self._compare_at:
            return
        self._compare_at = self.monotonic() + COMPARE_INTERVAL
        difference = await self.store.engine.clock_difference(self.clock.own)
        self.clock.correct(difference)
        differs = bool(self.clock.ahead)
        if self.reports_disk and differs and not self._clock_differs:
            _log.warning(
                "The clock of this machine differs from the database's, which counts",
                seconds=round(difference, 1),
                advice="synchronize both with NTP",
            )
        self._clock_differs = differs

    def _check_clock(self) -> None:
        jump = self.store.engine.clock_jump
        if jump and not self._clock_was_set:
            _log.warning(
                "The clock was set: expired messages stay on the disk for now", seconds=round(jump)
            )
        self._clock_was_set = bool(jump)

    def _check_space(self) -> None:
        is_nearly_full = self.store.engine.is_nearly_full
        if is_nearly_full is self._was_nearly_full:
            return
        self._was_nearly_full = is_nearly_full
        fields: dict[str, object] = {"min_free_space": self.settings.min_free_space}
        if (path := self.settings.store_file) is not None:
            folder = Path(path).parent
            fields["free"], fields["folder"] = shutil.disk_usage(folder).free, str(folder)
        if is_nearly_full:
            _log.error("The disk is nearly full: new messages are refused", **fields)
        else:
            _log.info("The disk has space again: new messages are accepted", **fields)
