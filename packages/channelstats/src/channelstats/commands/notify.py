"""`channelstats notify`: tell subscribers of the dashboard of a weekly report.

`channelstats serve` does so by itself; this is for those who do not let it run all the time.
"""

import argparse

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command, Failure
from channelstats.commands.days import a_date
from channelstats.notifications import announce
from channelstats.notifications.weeks import newest_week
from channelstats.settings import Group
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week, week_of
from channelstats.tables import Tables


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--week", type=a_date, metavar="DATE", help="week of a date, else the newest that was read"
    )
    parser.add_argument("--dry-run", action="store_true", help="say how many, and send nothing")


async def _run(call: Call) -> int:
    dry = bool(call.given.dry_run)
    async with call.tables() as tables:
        week = await _week(call, tables)
        told = await announce(
            tables, week, call.settings, clock=call.clock, sleep=call.sleep, dry_run=dry
        )
    call.say(f"week of {week.start}: {told}")
    return WITH_PROBLEMS if told.left else DONE


async def _week(call: Call, tables: Tables) -> Period:
    first_weekday = call.settings.first_weekday
    if call.given.week is None:
        newest = await newest_week(tables, call.settings, call.clock)
        if newest is None:
            raise Failure(
                "no whole week was read yet; see channelstats import-export and channelstats sync"
            )
        return newest
    start = week_of(call.given.week, first_weekday)
    if start > last_complete_week(call.today, first_weekday):
        raise Failure(f"the week of {start} is not over")
    return Period(start, WEEK, call.zone)


COMMAND = Command(
    "notify",
    "tell subscribers of the dashboard of a weekly report",
    _run,
    _flags,
    (Group.DASHBOARD,),
)
