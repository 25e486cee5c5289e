"""The newest week that is there.

Rule: a week is there when all of it was read: when a run over everything has come to its end that
saw something later than the week.
"""

from zoneinfo import ZoneInfo

from channelstats.days import date_at
from channelstats.settings import Settings
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week
from channelstats.tables import Tables
from keytables import Clock


def week_there(read_up_to: int, now: float, zone: ZoneInfo, first_weekday: int) -> Period | None:
    """The newest week that is over and read. ``read_up_to``: seconds, 0 for nothing."""
    if read_up_to <= 0:
        return None
    at = min(read_up_to, int(now))
    return Period(last_complete_week(date_at(at, zone), first_weekday), WEEK, zone)


async def newest_week(tables: Tables, settings: Settings, clock: Clock) -> Period | None:
    """The newest week that is there in the store."""
    read = await tables.configuration.last_run()
    return week_there(read, clock(), tables.zone, settings.first_weekday)
