"""Commands that change what is stored: forget and rebuild-firstposts."""

import argparse
from collections.abc import AsyncGenerator
from typing import Final

from channelstats import lookup
from channelstats.commands.context import (
    DONE,
    Command,
    CommandContext,
    Failure,
    is_confirmed,
    many,
)
from channelstats.identifiers import is_user_id
from channelstats.ingest.first_posts import rebuild
from channelstats.ingest.removal import Forgetting, Forgotten
from channelstats.lookup import NotFound
from channelstats.settings import OptionGroup
from channelstats.tables import Tables

# ── forget ───────────────────────────────────────────────────────────────────────────────────────


def _add_forget_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="the person: a name or an ID")
    parser.add_argument(
        "--dry-run", action="store_true", help="say how much would be removed; change nothing"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


async def _forget(context: CommandContext) -> int:
    arguments = context.arguments
    async with context.tables() as tables:
        uid = await _user_id(tables, arguments.user)
        user = (await tables.users.all()).get(uid)
        name = user and (user.real_name or user.display_name or user.user_name)
        who = f"{name} ({uid})" if name else uid
        forgetting = Forgetting(tables, uid)
        if arguments.dry_run:
            done = await _follow(context, forgetting.count(), "{:,} would be removed, {:,} changed")
            print(f"{who}: {_summary(done, 'would be ')}")
            return DONE
        if not arguments.yes and not is_confirmed(f"Remove everything about {who}?"):
            raise Failure("nothing was removed")
        async with context.writing(tables):
            done = await _follow(context, forgetting.run(), "{:,} removed, {:,} changed")
    context.say(
        f"forgotten: {_summary(done)}; stored reports removed. "
        "Files written earlier are not touched."
    )
    return DONE


async def _user_id(tables: Tables, name: str) -> str:
    """The ID of a person. Somebody who is not in the tables can be forgotten too, by ID."""
    try:
        return await lookup.user_id(tables, name)
    except NotFound:
        if is_user_id(name):
            return name
        raise


async def _follow(
    context: CommandContext, run: AsyncGenerator[Forgotten, None], what: str
) -> Forgotten:
    progress, done = context.progress(), Forgotten()
    async for done in run:
        progress.show(done.read, 0, what.format(done.deleted, done.changed))
    progress.end()
    return done


def _summary(done: Forgotten, would: str = "") -> str:
    """6 messages removed, 7 of others changed."""
    messages = many(done.deleted, "message")
    return f"{messages} {would}removed, {done.changed:,} of others {would}changed"


# ── rebuild-firstposts ───────────────────────────────────────────────────────────────────────────


async def _rebuild(context: CommandContext) -> int:
    async with context.tables() as tables, context.writing(tables):
        users = await tables.users.all()
        bots = [user.slack_uid for user in users.values() if user.is_bot]
        await rebuild(tables, context.settings.counting, bots)
        found = len(await tables.first_posts.all())
    context.say(f"first posts of {found:,} people")
    return DONE


FORGET: Final = Command(
    "forget", "remove a person from the store for good", _forget, _add_forget_arguments, ()
)
REBUILD_FIRSTPOSTS: Final = Command(
    "rebuild-firstposts",
    "find everybody's first post again in all stored messages",
    _rebuild,
    groups=(OptionGroup.COUNTING,),
)
