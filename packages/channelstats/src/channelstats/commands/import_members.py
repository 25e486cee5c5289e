"""`channelstats import-members`: when accounts were made, from Slack's list of members.

Rule: a line that cannot be understood is named, and the rest is taken in.
"""

import argparse
import asyncio
from pathlib import Path

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command, Failure
from channelstats.commands.output import many
from channelstats.ingest.exclusions import Exclusions
from channelstats.ingest.members_csv import MalformedMembers, add_members, read_members


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="CSV", help="the list, as Slack exports it")


async def _run(call: Call) -> int:
    try:
        read = await asyncio.to_thread(read_members, call.given.path, call.zone, call.today)
    except MalformedMembers as error:
        raise Failure(str(error)) from None
    async with call.tables(make=True) as tables:
        excluded, users = call.settings.excluded_users, await tables.users.all()
        new = await add_members(
            tables, read.created, await Exclusions.load(tables, excluded, users)
        )
    for problem in read.problems:
        call.complain(str(problem))
    call.say(f"read: {many(len(read.created), 'account')}, {new:,} new or earlier than known")
    return WITH_PROBLEMS if read.problems else DONE


COMMAND = Command(
    "import-members", "take in when accounts were made: Slack's list of members", _run, _flags, ()
)
