"""`channelstats forget`: a person goes out of the store, for good."""

import argparse

from channelstats import lookup
from channelstats.commands.call import DONE, Call, Command
from channelstats.commands.writing import writing
from channelstats.identifiers import is_user_id
from channelstats.ingest.forget import Forgetting, Forgotten
from channelstats.lookup import NotFound
from channelstats.tables import Tables


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="the person: a name or an ID")


async def _run(call: Call) -> int:
    progress = call.progress()
    done = Forgotten()
    async with call.tables() as tables, writing(call, tables):
        uid = await _meant(tables, call.given.user)
        async for done in Forgetting(tables, uid).run():
            progress.show(done.read, 0, f"{done.deleted:,} removed, {done.changed:,} changed")
        progress.end()
    call.say(
        f"forgotten: {done.deleted:,} messages removed, {done.changed:,} of others changed; "
        "stored reports removed. Files written earlier are not touched."
    )
    return DONE


async def _meant(tables: Tables, name: str) -> str:
    """Whom a name means; somebody unknown may be forgotten too, by ID."""
    try:
        return await lookup.user_id(tables, name)
    except NotFound:
        if is_user_id(name):
            return name
        raise


COMMAND = Command("forget", "remove a person from the store, for good", _run, _flags, ())
