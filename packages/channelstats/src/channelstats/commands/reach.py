"""Whether the store reaches as far as a report does, in words.

Rule: a report that has nothing in it, or less than there was, is never without a line that says so.
"""

from collections.abc import AsyncIterator
from datetime import date

from channelstats.commands.call import Call
from channelstats.days import DAY, date_at
from channelstats.stats import Period
from channelstats.stats.gather import history_of
from channelstats.stats.period import WEEK
from channelstats.tables import Tables
from channelstats.views.report_data import ReportData
from channelstats.web.filters import Now


async def newest_period(call: Call, tables: Tables, usual: Period) -> Period:
    """The week that a report is on where nobody says which: the last whole one, or the last one
    that was read whole, and then it is said.
    """
    posts, read = await tables.first_posts.all(), await tables.configuration.last_run()
    history = history_of(posts, min(read, int(call.clock())), call.zone)
    last = Now(call.today, history, call.settings.first_weekday).last
    if last >= usual.last:
        return usual
    found = Period(last - (WEEK - 1) * DAY, WEEK, call.zone)
    call.say(f"messages are known up to {history.last}: this is the last whole week of them")
    return found


async def reach_of(call: Call, tables: Tables, data: ReportData) -> AsyncIterator[str]:
    """What to say of the days of a report, a line each; mostly nothing."""
    period = data.period
    if not data.now.measures.volume.messages:
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
