"""`channelstats unarchive`: an archived channel, with the people who were in it."""

import argparse

from channelstats import lookup
from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command, Failure
from channelstats.commands.desk import desk
from channelstats.sending.reviving import Failed, Reviving, people_of
from channelstats.settings import Group
from channelstats.slack.errors import SlackError


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the channel: a name or an ID")
    parser.add_argument(
        "--dry-run", action="store_true", help="say how many would be invited, and do nothing"
    )


async def _run(call: Call) -> int:
    async with call.tables() as tables:
        cid = await lookup.channel_id(tables, call.given.name)
        channel = (await tables.channels.all())[cid]
        name = channel.name
        people = await people_of(tables, cid)
    if call.given.dry_run:
        if not channel.is_archived:
            raise Failure(f"#{name} is not archived, or was not when channels were read last")
        print(f"#{name} would be unarchived and {len(people):,} people invited")
        return DONE
    failed = 0
    async with desk(call) as opened:
        try:
            async for event in Reviving(opened.posting, opened.care).run(cid, people):
                if isinstance(event, Failed):
                    failed += 1
                    call.complain(f"#{name}: {event}")
                else:
                    call.say(f"#{name}: {event}")
        except SlackError as error:
            raise Failure(f"#{name}: {error}") from None
    return WITH_PROBLEMS if failed else DONE


COMMAND = Command(
    "unarchive",
    "bring back an archived channel and who was in it",
    _run,
    _flags,
    (Group.REPORTS,),
)
