"""Commands that take data in from files and from other tables: import-export, import-members,
import-analytics and migrate.

Rule: what cannot be used is named, a line each, and the rest is taken in.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

from channelstats.commands.context import (
    DONE,
    NOT_DONE,
    WITH_PROBLEMS,
    Command,
    CommandContext,
    Failure,
    many,
    parse_date,
)
from channelstats.ingest.events import Event, Problem
from channelstats.ingest.exclusions import Exclusions
from channelstats.ingest.export_import import ExportImport, ImportOptions, ImportResult
from channelstats.ingest.members_csv import MalformedMembers, add_members, read_members
from channelstats.ingest.migration import Migration
from channelstats.ingest.older_tables import NothingThere, OlderTables
from channelstats.ingest.slack_analytics import (
    MalformedAnalytics,
    StoredAnalytics,
    read_analytics,
    store_analytics,
)
from channelstats.render.words import printable
from channelstats.settings import OptionGroup
from channelstats.slack.export import Export
from channelstats.tables import Tables
from channelstats.tables.slack_analytics import DateSpan
from keytables.stores import SqliteUrl, open_engine, parse_store

# ── import-export ────────────────────────────────────────────────────────────────────────────────


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="the export: a zip or a folder")
    parser.add_argument("--include-private", action="store_true", help="private channels too")
    parser.add_argument("--include-dms", action="store_true", help="direct messages too")


async def _import_export(context: CommandContext) -> int:
    arguments, settings = context.arguments, context.settings
    options = ImportOptions(
        arguments.include_private,
        arguments.include_dms,
        settings.excluded_channels,
        settings.excluded_users,
    )
    result = await import_export(context, arguments.path, options)
    return WITH_PROBLEMS if result.problems else DONE


async def import_export(
    context: CommandContext, path: Path, options: ImportOptions
) -> ImportResult:
    """Import an export with a progress bar, then remove messages that are too old.

    :raises ArchiveRefused: it is not an export, or not a safe one
    """
    progress, is_started = context.progress(), False

    def show(event: Event) -> None:
        nonlocal is_started
        if isinstance(event, Problem):
            progress.end()
            context.complain(str(event))
            return
        if not is_started:
            progress.start(event.done)
            is_started = True
        done = f"{many(event.messages, 'message')}  #{printable(event.channel)}"
        progress.show_bytes(event.done, event.total, done)

    with closing(Export.open(path)) as export:
        progress.show(0, 0, "reading the lists")
        async with context.tables(create=True) as tables, context.writing(tables):
            run = ExportImport(
                export,
                tables,
                clock=context.clock,
                counting=context.settings.counting,
                options=options,
                on_event=show,
            )
            result = await run.run()
            progress.end()
            parts = [
                many(result.channels, "channel"),
                many(result.messages, "message"),
                f"{result.changed:,} new or changed",
            ]
            if result.problems:
                parts.append(many(result.problems, "problem"))
            context.say(f"imported: {', '.join(parts)}")
            await context.remove_expired(tables)
    return result


# ── import-members ───────────────────────────────────────────────────────────────────────────────


def _add_members_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="CSV", help="the list, as Slack exports it")


async def _import_members(context: CommandContext) -> int:
    path = context.arguments.path
    try:
        read = await asyncio.to_thread(read_members, path, context.zone, context.today)
    except MalformedMembers as error:
        raise Failure(str(error)) from None
    async with context.tables(create=True) as tables:
        excluded, users = context.settings.excluded_users, await tables.users.all()
        exclusions = await Exclusions.load(tables, excluded, users)
        new = await add_members(tables, read.created, exclusions)
    for problem in read.problems:
        context.complain(str(problem))
    context.say(f"read: {many(len(read.created), 'account')}, {new:,} new or earlier than known")
    return WITH_PROBLEMS if read.problems else DONE


# ── import-analytics ─────────────────────────────────────────────────────────────────────────────


def _add_analytics_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a CSV of the analytics dashboard, or a file of admin.analytics.getFile",
    )
    parser.add_argument(
        "--from",
        dest="first",
        type=parse_date,
        metavar="DATE",
        help="first day of a CSV whose name does not say it",
    )
    parser.add_argument("--to", dest="last", type=parse_date, metavar="DATE", help="its last day")


async def _import_analytics(context: CommandContext) -> int:
    first, last = context.arguments.first, context.arguments.last
    if (first is None) != (last is None) or (first and first > last):
        context.wrong_usage("give both --from and --to, and the first day first")
    span = DateSpan(first, last) if first else None
    found: list[StoredAnalytics] = []
    is_clean = True
    async with context.tables(create=True) as tables, context.writing(tables):
        excluded, users = context.settings.excluded_users, await tables.users.all()
        out = await Exclusions.load(tables, excluded, users)
        for path in context.arguments.paths:
            stored, is_whole = await _import_file(context, tables, path, span, out)
            found += [stored] if stored else []
            is_clean = is_clean and is_whole
        if not found:
            return NOT_DONE
        members, channels = sum(of.members for of in found), sum(of.channels for of in found)
        changed = many(sum(of.changed for of in found), "span")
        context.say(
            f"read: {many(len(found), 'file')}, {many(members, 'count')} of members, {channels:,} "
            f"of channels, {changed} of days new or changed"
        )
        await context.remove_expired(tables)
    return DONE if is_clean else WITH_PROBLEMS


async def _import_file(
    context: CommandContext, tables: Tables, path: Path, span: DateSpan | None, out: Exclusions
) -> tuple[StoredAnalytics | None, bool]:
    """What was stored of a file, and whether that is all of it."""
    try:
        read = await asyncio.to_thread(read_analytics, path, span)
    except MalformedAnalytics as error:
        context.complain(str(error))
        return None, False
    except OSError as error:
        context.complain(f"{path}: {error.strerror or error}")
        return None, False
    stored = await store_analytics(tables, read, out, context.settings.excluded_channels)
    problems = [str(problem) for problem in read.problems]
    if stored.unknown:
        unknown = many(stored.unknown, "channel")
        problems.append(f"{path.name}: {unknown} left out: the name is not known here")
    for problem in problems:
        context.complain(problem)
    return stored, not problems


# ── migrate ──────────────────────────────────────────────────────────────────────────────────────


def _add_migrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="STORE",
        help="store to read: sqlite:///PATH or dynamodb://REGION",
    )
    parser.add_argument(
        "--from-prefix",
        default="channelstats",
        metavar="TEXT",
        help="prefix of the names of its tables; channelstats",
    )


async def _migrate(context: CommandContext) -> int:
    settings, progress = context.settings, context.progress()

    def show(event: Event) -> None:
        if isinstance(event, Problem):
            progress.end()
            context.complain(str(event))
        else:
            progress.show(event.done, 0, event.step)

    async with (
        _source(context) as source,
        context.tables(create=True) as tables,
        context.writing(tables),
    ):
        run = Migration(
            source,
            tables,
            clock=context.clock,
            counting=settings.counting,
            excluded=settings.excluded_users,
            excluded_channels=settings.excluded_channels,
            on_event=show,
        )
        try:
            result = await run.run()
        finally:
            progress.end()
        parts = []
        for what, number in result.read.items():
            new = f" ({result.changed:,} new or changed)" if what == "messages" else ""
            parts.append(f"{number:,} {what}{new}")
        context.say(f"read: {', '.join(parts) or 'nothing'}")
        await context.remove_expired(tables)
    return WITH_PROBLEMS if result.problems else DONE


@asynccontextmanager
async def _source(context: CommandContext) -> AsyncIterator[OlderTables]:
    """The tables to read from, which are never written to."""
    settings = context.settings
    url, prefix = context.arguments.source, context.arguments.from_prefix
    try:
        store, own = parse_store(url), parse_store(settings.store_url)
    except ValueError as error:
        raise Failure(f"--from: {error}") from None
    if store == own and prefix == settings.prefix:
        raise Failure("--from: these are the tables to write to")
    if isinstance(store, SqliteUrl) and not await asyncio.to_thread(Path(store.path).is_file):
        raise Failure(f"--from: {store.path}: there is no such file")
    engine = await open_engine(url, clock=context.clock)
    try:
        yield await OlderTables.open(engine, prefix)
    except NothingThere as error:
        raise Failure(f"--from: {error}") from None
    finally:
        await engine.close()


_GROUPS: Final = (OptionGroup.COUNTING, OptionGroup.PRIVACY)

IMPORT_EXPORT: Final = Command(
    "import-export",
    "import a Slack export: a zip or a folder",
    _import_export,
    _add_export_arguments,
    _GROUPS,
)
IMPORT_MEMBERS: Final = Command(
    "import-members",
    "import when accounts were created, from Slack's list of members",
    _import_members,
    _add_members_arguments,
    (),
)
IMPORT_ANALYTICS: Final = Command(
    "import-analytics",
    "import what Slack's own analytics count: CSV or ND-JSON",
    _import_analytics,
    _add_analytics_arguments,
    (OptionGroup.PRIVACY,),
)
MIGRATE: Final = Command(
    "migrate",
    "import the tables of the original program, or of another store",
    _migrate,
    _add_migrate_arguments,
    _GROUPS,
)
