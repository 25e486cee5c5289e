"""Messages do not grow older than they may.

Rule: it goes by the date that a message is stored under; a whole date goes at a time, with what was
made of it. First posts stay, or everybody would look new.
"""

from collections.abc import AsyncIterator
from datetime import date

from channelstats.tables import Tables


async def remove_before(tables: Tables, first: date) -> AsyncIterator[tuple[str, int]]:
    """Remove the messages of the dates before ``first``; yield each date and how many it had.

    Days are open afterwards, as after every writing.
    """
    for day in sorted(await tables.messages.days()):
        if day < first.isoformat() and (removed := await tables.messages.empty_day(day)):
            yield day, removed
