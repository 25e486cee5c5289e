"""`channelstats forget`: a person goes out of the store, for good.

Rule: at a terminal nobody goes before they were named and somebody said yes.
"""

import argparse

from channelstats import lookup
from channelstats.commands.asking import is_sure
from channelstats.commands.call import DONE, Call, Command, Failure
from channelstats.commands.output import many
from channelstats.commands.writing import writing
from channelstats.identifiers import is_user_id
from channelstats.ingest.removal import Forgetting, Forgotten
from channelstats.lookup import NotFound
from channelstats.tables import Tables


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="the person: a name or an ID")
    parser.add_argument(
        "--dry-run", action="store_true", help="say how much would go, and touch nothing"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask, at a terminal either")


async def _run(call: Call) -> int:
    async with call.tables() as tables:
        uid = await _meant(tables, call.given.user)
        who = await _named(tables, uid)
        if call.given.dry_run:
            done = await _count(call, tables, uid)
            print(f"{who}: {_told(done, 'would be')}")
            return DONE
        if not call.given.yes and not is_sure(f"Remove everything of {who}?"):
            raise Failure("nothing was removed")
        async with writing(call, tables):
            done = await _forget(call, tables, uid)
    call.say(
        f"forgotten: {_told(done)}; stored reports removed. Files written earlier are not touched."
    )
    return DONE


async def _count(call: Call, tables: Tables, uid: str) -> Forgotten:
    progress, done = call.progress(), Forgotten()
    async for done in Forgetting(tables, uid).count():
        progress.show(done.read, 0, f"read, {done.deleted:,} of theirs")
    progress.end()
    return done


async def _forget(call: Call, tables: Tables, uid: str) -> Forgotten:
    progress, done = call.progress(), Forgotten()
    async for done in Forgetting(tables, uid).run():
        progress.show(done.read, 0, f"{done.deleted:,} removed, {done.changed:,} changed")
    progress.end()
    return done


def _told(done: Forgotten, would: str = "") -> str:
    """6 messages removed, 7 of others changed."""
    before = f"{would} " if would else ""
    return (
        f"{many(done.deleted, 'message')} {before}removed, {done.changed:,} of others "
        f"{before}changed"
    )


async def _meant(tables: Tables, name: str) -> str:
    """Whom a name means; somebody unknown may be forgotten too, by ID."""
    try:
        return await lookup.user_id(tables, name)
    except NotFound:
        if is_user_id(name):
            return name
        raise


async def _named(tables: Tables, uid: str) -> str:
    """Bob Berg (UBOB), or the ID of somebody unknown."""
    user = (await tables.users.all()).get(uid)
    name = user and (user.real_name or user.display_name or user.user_name)
    return f"{name} ({uid})" if name else uid


COMMAND = Command("forget", "remove a person from the store, for good", _run, _flags, ())
