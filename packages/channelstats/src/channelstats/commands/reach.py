"""Whether the store reaches as far as a report does, in words.

Rule: a report that has nothing in it, or less than there was, is never without a line that says so.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import date

from channelstats.commands.call import Call
from channelstats.days import date_at
from channelstats.stats import Period
from channelstats.stats.values import Json
from channelstats.tables import Tables


async def reach_of(
    call: Call, tables: Tables, period: Period, document: Mapping[str, Json]
) -> AsyncIterator[str]:
    """What to say of the days of a report, a line each; mostly nothing."""
    if _is_silent(document):
        newest = max(await tables.messages.days(), default="")
        hint = f"; the newest message is of {newest}: --week {newest}" if newest else ""
        yield f"nothing was said from {period.start} to {period.last}{hint}"
    read = await tables.configuration.last_run()
    until = date_at(min(read, int(call.clock())), call.zone) if read else date.max
    if period.last >= call.today:
        were = f"the days up to {until} were read; " if read else ""
        yield f"{were}{period.last} is not over"
    elif until < period.last:
        yield f"the days up to {until} were read; what came later is not in this report"


def _is_silent(document: Mapping[str, Json]) -> bool:
    statistics = document.get("statistics")
    return isinstance(statistics, Mapping) and not statistics.get("messages")
