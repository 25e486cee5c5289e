"""Around whatever writes messages: one at a time.

Rule: a second one is refused with a line that says since when the first is going on.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from channelstats.commands.call import Call, Failure
from channelstats.commands.output import many
from channelstats.ingest.removal import remove_before
from channelstats.progress import Progress
from channelstats.tables import Tables, Taken


@asynccontextmanager
async def writing(call: Call, tables: Tables) -> AsyncIterator[None]:
    """A context in which nobody else writes.

    :raises Failure: somebody does
    """
    try:
        async with tables.writing(call.clock):
            yield
    except Taken as error:
        raise Failure(str(error)) from None


async def remove_old(call: Call, tables: Tables, progress: Progress) -> str:
    """Remove the messages that are older than they may grow; return what to say of it, "" where
    there were none.
    """
    retention, removed = call.settings.retention, 0
    if retention is None:
        return ""
    async for day, number in remove_before(tables, call.today - retention):
        removed += number
        progress.show(removed, 0, f"removing messages of {day}")
    progress.end()
    if not removed:
        return ""
    await tables.messages.close_days()
    return f"removed: {many(removed, 'message')} of more than {many(retention.days, 'day')} ago"
