"""Makes the pages that are opened first before anybody asks for them, each time something else is
stored: Overview and To do of the usual weeks. Then it keeps the columns of all other days.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from channelstats.facts.periods import Now
from channelstats.pages.model import OVERVIEW, TO_DO, ChoiceError
from channelstats.slack.rate_limits import Sleep
from channelstats.web.filters import asked
from channelstats.web.service import Busy, DashboardService, FirstImport
from keytables import KeytablesError

EVERY: Final = 30
"""Seconds between two looks at whether something else is stored."""

_log: Final = logging.getLogger("channelstats.web")


class UsualPages:
    """The usual pages of a dashboard, made as long as it runs."""

    def __init__(self, service: DashboardService, sleep: Sleep = asyncio.sleep) -> None:
        self._service, self._sleep = service, sleep
        self._made_of = ""

    async def run(self) -> None:
        """Look now, and again and again. What goes wrong is logged, and it goes on."""
        while True:
            try:
                await self.check()
            except (FirstImport, Busy):
                pass
            except (KeytablesError, TimeoutError, OSError) as error:
                _log.warning("the usual pages are not made: %s", error)
            await self._sleep(EVERY)

    async def check(self) -> None:
        """Make them unless they are made of what is stored, or somebody is writing."""
        service = self._service
        snapshot = await service.snapshot()
        if snapshot.is_empty or not snapshot.is_settled or snapshot.mark == self._made_of:
            return
        await service.names(snapshot)
        now = Now(service.today, snapshot.history, service.settings.first_weekday)
        for name in (OVERVIEW, TO_DO):
            usual = asked([], now, to_newest=name == TO_DO)
            with suppress(ChoiceError):  # the page says it
                await service.view(name, usual.choice, snapshot)
        await service.tables.messages.keep_days()
        self._made_of = snapshot.mark
