"""`channelstats create-stats-channel`: the channels that reports on channels go to.

Rule: each name is done by itself; what is there already is left alone.
"""

import argparse

from channelstats import lookup
from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command
from channelstats.commands.desk import Desk, desk
from channelstats.lookup import NotFound
from channelstats.sending.companions import LONGEST_NAME, make_companion
from channelstats.sending.targets import companion_name
from channelstats.settings import Group
from channelstats.slack.errors import SlackError, TokenRefused
from channelstats.tables import Tables
from channelstats.tables.directory import Channel


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="channels to make NAME-stats for: names or IDs"
    )
    parser.add_argument("--dry-run", action="store_true", help="say which, and make none")


async def _run(call: Call) -> int:
    problems: list[str] = []
    async with call.tables() as tables:
        wanted = await _wanted(call, tables, problems)
        if call.given.dry_run:
            for channel in wanted:
                print(f"#{companion_name(channel.name)} would be made")
        elif wanted:
            async with desk(call) as opened:
                await _make(call, tables, opened, wanted, problems)
    for problem in problems:
        call.complain(problem)
    return WITH_PROBLEMS if problems else DONE


async def _wanted(call: Call, tables: Tables, problems: list[str]) -> list[Channel]:
    """The channels that have none beside them yet."""
    channels = await tables.channels.all()
    found = {}
    for name in call.given.names:
        try:
            channel = channels[await lookup.channel_id(tables, name)]
        except NotFound as error:
            problems.append(str(error))
            continue
        beside = companion_name(channel.friendly_name)
        there = await tables.channels.named(beside)
        if there is not None and there.friendly_name == beside:
            call.say(f"#{beside} is there already")
        elif not channel.friendly_name or len(beside) > LONGEST_NAME:
            problems.append(f"#{beside}: a name has {LONGEST_NAME} letters at most")
        else:
            found[channel.slack_cid] = channel
    return list(found.values())


async def _make(
    call: Call, tables: Tables, opened: Desk, wanted: list[Channel], problems: list[str]
) -> None:
    for channel in wanted:
        beside = companion_name(channel.friendly_name)
        try:
            made = await make_companion(tables, opened.care, channel)
        except SlackError as error:
            problems.append(f"#{beside}: {error}")
            if isinstance(error, TokenRefused):
                return
            continue
        call.say(f"#{made.name} made")


COMMAND = Command(
    "create-stats-channel",
    "make channels for channel reports",
    _run,
    _flags,
    (Group.REPORTS,),
)
