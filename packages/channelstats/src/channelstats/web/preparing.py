"""Prepares the pages that are offered to everybody, so that to open one of them first is to read a
file: all views without a filter, of each period that has a button.

Rule: it is done in a process of its own, of low priority, that ends when all are there. So no
request waits for it, and its memory is given back. It is done again when something else is
stored; what was prepared before is never shown again.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from channelstats.facts.periods import Now
from channelstats.pages.model import TO_DO, VIEWS, Choice
from channelstats.processes import become_child
from channelstats.settings import Settings
from channelstats.tables import Tables
from channelstats.web.filters import PRESETS, USUAL, asked
from channelstats.web.service import DashboardService, FirstImport, StoreSnapshot
from keytables import Clock, KeytablesError

EVERY: Final = 30
"""Seconds between two looks at whether something else is stored."""

_NICE: Final = 10
"""It gets a tenth of a processor that requests want, which the lowest priority would hardly get."""

_FIRST_TO_END: Final = 500
"""How much sooner than others the process is ended where memory is short, of at most 1,000."""

_log: Final = logging.getLogger("channelstats.web")

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


def offered(now: Now) -> dict[Choice, list[str]]:
    """The days that buttons offer, the usual ones first, and the views that are offered of them."""
    days: dict[Choice, list[str]] = {}
    for weeks in sorted(PRESETS, key=lambda weeks: (weeks != USUAL, weeks)):
        for name in VIEWS:
            choice = asked([("weeks", str(weeks))], now, to_newest=name == TO_DO).choice
            names = days.setdefault(choice, [])
            if name not in names:  # of a short history several buttons offer the same days
                names.append(name)
    return days


class PagePreparer:
    """Prepares pages of a dashboard as long as it runs. ``make`` makes those that are missing."""

    def __init__(
        self,
        service: DashboardService,
        make: Callable[[DashboardService], Awaitable[bool]],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._service, self._make, self._sleep = service, make, sleep
        self._tried: tuple[str, Choice] | None = None
        self._is_done = False

    async def run(self) -> None:
        """Look now, and again and again. What goes wrong is logged, and it goes on."""
        while True:
            try:
                await self.check()
            except FirstImport:
                pass
            except (KeytablesError, TimeoutError, OSError) as error:
                _log.warning("pages are not prepared: %s", error)
            await self._sleep(EVERY)

    async def check(self) -> None:
        """Make what is missing. What failed is tried again when something else is stored."""
        service = self._service
        snapshot = await service.snapshot()
        if snapshot.is_empty or not await service.is_current(snapshot):
            return
        usual, (first, *_) = next(iter(offered(_now(service, snapshot)).items()))
        this = snapshot.mark, usual
        # An import that changes nothing removes them too.
        is_gone = self._is_done and not await service.has_prepared(first, usual, snapshot)
        if this == self._tried and not is_gone:
            return
        await service.names(snapshot)  # the next page needs them in any case
        is_whole = await self._make(service)
        if await service.is_current(snapshot):
            self._tried = this
        self._is_done = await service.has_prepared(first, usual, snapshot)
        if not is_whole:
            _log.warning("the process that prepares pages has failed; they are made when asked for")


def _now(service: DashboardService, snapshot: StoreSnapshot) -> Now:
    return Now(service.today, snapshot.history, service.settings.first_weekday)


# ── the process ──────────────────────────────────────────────────────────────────────────────────


async def in_process(service: DashboardService) -> bool:
    """Make the missing pages of a dashboard in a process; return whether it came to its end."""
    given = service.settings, service.tables.zone.key, service.clock
    process = get_context("spawn").Process(target=_prepare, args=given, daemon=True)
    process.start()
    try:
        await _ended(process)
    finally:
        process.kill()
        process.join()
    return process.exitcode == 0


async def _ended(process: SpawnProcess) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(process.sentinel)


def _prepare(settings: Settings, zone: str, clock: Clock) -> None:
    become_child()
    os.nice(_NICE)
    with suppress(OSError):  # of Linux alone
        Path("/proc/self/oom_score_adj").write_text(str(_FIRST_TO_END))
    try:
        asyncio.run(_prepare_all(settings, ZoneInfo(zone), clock))
    except KeytablesError as error:
        raise SystemExit(f"channelstats: pages are not prepared: {error}") from None


async def _prepare_all(settings: Settings, zone: ZoneInfo, clock: Clock) -> None:
    opening = Tables.opened(settings.store_url, settings.prefix, zone, settings.folder, clock)
    async with opening as tables:
        service = DashboardService(tables, settings, clock=clock)
        try:
            with suppress(FirstImport):
                await prepare(service)
        finally:
            await service.close()


async def prepare(service: DashboardService) -> None:
    """Make the missing pages, then the columns of all other days, for what people choose."""
    snapshot = await service.snapshot()
    if not snapshot.is_empty:
        await service.prepare(offered(_now(service, snapshot)))
        await service.tables.messages.keep_days()
