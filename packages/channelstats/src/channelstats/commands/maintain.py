"""Commands that change or copy what is stored: forget, copy, rebuild-firstposts and note."""

import signal
import sys
from dataclasses import replace
from typing import Final

import msgspec

from channelstats import lookup
from channelstats.anonymize import copy_anonymized
from channelstats.commands.context import (
    CommandContext,
    Failure,
    argument,
    command,
    date_argument,
    flag,
    many,
)
from channelstats.identifiers import is_user_id
from channelstats.lookup import NotFound
from channelstats.progress import show
from channelstats.settings import OptionGroup
from channelstats.tables import Tables
from channelstats.tables.exclusion import Forgotten, forget_person
from channelstats.tables.first_posts import rebuild
from keytables.copying import copy_table
from keytables.stores import parse_store

_YES: Final = frozenset({"y", "yes"})


@command(
    argument("user", metavar="USER", help="the person: a name or an ID"),
    flag("--dry-run", "say how much would be removed; change nothing"),
    flag("--yes", "do not ask for confirmation"),
)
async def forget(context: CommandContext) -> int:
    arguments = context.arguments
    async with context.tables() as tables:
        uid = await _user_id(tables, arguments.user)
        user = (await tables.users.all()).get(uid)
        name = user and (user.real_name or user.display_name or user.user_name)
        who = f"{name} ({uid})" if name else uid
        if arguments.dry_run:
            would = "would be "
            print(f"{who}: {_summary(await _forget(context, tables, uid, would), would)}")
            return context.exit_code
        if not arguments.yes and not _is_confirmed(f"Remove everything about {who}?"):
            raise Failure("nothing was removed")
        async with tables.writing(context.clock):
            done = await _forget(context, tables, uid)
    await context.wipe()
    context.say(
        f"forgotten: {_summary(done)}; stored reports removed. "
        "Files written earlier are not touched."
    )
    context.complain_of_left(done.files)
    return context.exit_code


async def _user_id(tables: Tables, name: str) -> str:
    """The ID of a person. Somebody who is not in the tables can be forgotten too, by ID."""
    try:
        return await lookup.user_id(tables, name)
    except NotFound:
        if is_user_id(name):
            return name
        raise


async def _forget(context: CommandContext, tables: Tables, uid: str, would: str = "") -> Forgotten:
    done = Forgotten()
    with context.progress_bar("reading", " messages") as bar:
        async for done in forget_person(tables, uid, dry_run=bool(would)):
            show(bar, done.read, what=_summary(done, would))
    return done


def _summary(done: Forgotten, would: str = "") -> str:
    """6 messages removed, 7 of others changed."""
    messages = many(done.deleted, "message")
    return f"{messages} {would}removed, {done.changed:,} of others {would}changed"


def _is_confirmed(question: str) -> bool:
    """Ask on the terminal; without a terminal the answer is yes."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    # asyncio's own handler would act on Ctrl-C only when the line has been read.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline().strip().lower() in _YES
    finally:
        signal.signal(signal.SIGINT, before)


@command(
    argument("to", metavar="DEST", help="a new data folder, or the URL of an empty store"),
    flag("--anonymize", "other names and IDs of people and channels, and no links"),
    groups=(OptionGroup.PRIVACY,),
)
async def copy(context: CommandContext) -> int:
    settings, to = context.settings, context.arguments.to
    place = replace(settings, **({"store": to} if "://" in to else {"data": to, "store": ""}))
    try:
        is_same = parse_store(place.store_url) == parse_store(settings.store_url)
    except ValueError as error:
        context.wrong_usage(f"DEST: {error}")
    if is_same:
        context.wrong_usage("DEST: this is the store to copy")
    other, copied = msgspec.structs.replace(context, settings=place), 0
    async with context.tables() as source, other.tables(create=True) as target:
        if await target.users.all() or not await target.messages.is_empty():
            raise Failure(f"{to}: there is a workspace in it already; name another place")
        if not context.arguments.anonymize:
            context.say(
                f"copied with all names: {many(await _copy_all(context, source, target), 'row')}"
            )
            return context.exit_code
        with context.progress_bar("copying", " messages") as bar:
            async for copied in copy_anonymized(
                source,
                target,
                context.clock,
                excluded_people=settings.exclude_users,
                excluded_channels=settings.exclude_channels,
            ):
                show(bar, copied)
    context.say(f"copied without names: {many(copied, 'message')}")
    return context.exit_code


async def _copy_all(context: CommandContext, source: Tables, target: Tables) -> int:
    """Copy every table as it is; return how many rows there are."""
    if await source.configuration.writer_lease(context.clock).held_since() is not None:
        raise Failure("something is writing to the store: copy it when that has ended")
    rows = 0
    with context.progress_bar("copying", " rows") as bar:
        for name, handle in source.handles.items():

            def on_items(number: int) -> None:
                nonlocal rows
                rows += number
                show(bar, rows)

            await copy_table(handle, target.handles[name], on_items=on_items)
    return rows // 2  # each is read on both sides


@command(groups=(OptionGroup.COUNTING,))
async def rebuild_firstposts(context: CommandContext) -> int:
    async with context.tables() as tables, tables.writing(context.clock):
        await rebuild(tables, context.settings.counting)
        number = len(await tables.first_posts.all())
    context.say(f"first posts of {number:,} people")
    return context.exit_code


_LONGEST_NOTE: Final = 60
_MOST_NOTES: Final = 200


@command(
    date_argument("date", "the date, as in 2026-11-20", nargs="?"),
    argument("text", metavar="TEXT", nargs="?", help=f"at most {_LONGEST_NOTE} letters"),
    flag("--list", "list all notes"),
    date_argument("--remove", "remove the note on this date"),
)
async def note(context: CommandContext) -> int:
    arguments = context.arguments
    actions = (arguments.date is not None, arguments.list, arguments.remove is not None)
    if sum(actions) != 1:
        context.wrong_usage("expected DATE and TEXT, --list or --remove DATE")
    text = " ".join((arguments.text or "").split())
    if arguments.date and not (0 < len(text) <= _LONGEST_NOTE and text.isprintable()):
        context.wrong_usage(f"TEXT: expected 1 to {_LONGEST_NOTE} letters")
    async with context.tables() as tables:
        configuration = tables.configuration
        notes = await configuration.notes()
        if arguments.list:
            for day, noted in sorted(notes.items()):
                print(f"{day} {noted}")
        elif arguments.remove:
            if arguments.remove not in notes:
                raise Failure(f"{arguments.remove}: there is no note; see channelstats note --list")
            await configuration.remove_note(arguments.remove)
            context.say(f"{arguments.remove}: the note {notes[arguments.remove]!r} is removed")
        else:
            if arguments.date not in notes and len(notes) >= _MOST_NOTES:
                raise Failure(f"there are {len(notes)} notes already; remove one first")
            await configuration.put_note(arguments.date, text)
            instead = f", in place of {notes[arguments.date]!r}" if arguments.date in notes else ""
            context.say(f"{arguments.date}: {text}{instead}")
    return context.exit_code
