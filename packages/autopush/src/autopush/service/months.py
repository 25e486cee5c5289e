"""The minute hand of monthly message tables.

Rule: it never stops; what fails is logged and tried again a minute later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from autopush.telemetry import logs
from keytables import KeytablesError

EVERY: Final = 60.0

_log = logs.get("months")


async def keep_turning(turn_month: Callable[[], Awaitable[None]], every: float = EVERY) -> None:
    """Look at the calendar each minute, for ever."""
    while True:
        await asyncio.sleep(every)
        try:
            await turn_month()
        except KeytablesError as error:
            _log.warning("The message table of a month could not be made", reason=str(error))
        except Exception as error:  # noqa: BLE001 - without this the month would never turn again
            _log.exception("Unexpected error", error=error, where="turn_month")
