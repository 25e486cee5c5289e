"""Commands that take data in from files: import-export and import-members.

Rule: what cannot be used is named, a line each, and the rest is taken in.
"""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Final

from channelstats.commands.context import (
    CommandContext,
    Failure,
    argument,
    command,
    date_argument,
    flag,
    many,
)
from channelstats.days import minute_text
from channelstats.ingest.accounts import MalformedList, read_accounts, store_accounts
from channelstats.ingest.export_import import (
    UNLISTED_FLAG,
    ExportImport,
    ImportOptions,
)
from channelstats.settings import OptionGroup
from channelstats.slack.export import Export
from channelstats.slack.export_layout import ChannelKind
from channelstats.tables.exclusion import Exclusions

_OPTIONAL: Final = {
    ("private channel", "--include-private"): (ChannelKind.PRIVATE,),
    ("direct conversation", "--include-dms"): (ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT),
}
"""What is imported only where it is asked for, and what asks for it."""

_UNORDERED: Final = (
    "it may be older or newer than an export that was imported before; of each message the version "
    "with the later edit, more replies or more reactions was kept, and none was taken for deleted"
)


@command(
    argument("path", type=Path, metavar="PATH", help="the export: a zip or a folder"),
    flag("--include-private", "private channels too"),
    flag("--include-dms", "direct messages too"),
    flag(UNLISTED_FLAG, "folders with messages that no list of channels knows"),
    argument(
        "--workspace",
        default="",
        metavar="NAME",
        help="of an Enterprise Grid this workspace alone [default: all]",
    ),
    date_argument("--until", "last day that it covers [default: found out from it]"),
    groups=(OptionGroup.COUNTING, OptionGroup.PRIVACY),
)
async def import_export(context: CommandContext) -> int:
    arguments, settings = context.arguments, context.settings
    options = ImportOptions(
        include_private=arguments.include_private,
        include_dms=arguments.include_dms,
        include_unlisted=arguments.unlisted,
        workspace=arguments.workspace,
        exclude_channels=settings.exclude_channels,
        exclude_people=settings.exclude_users,
        until=arguments.until,
    )
    await import_archive(context, arguments.path, options)
    return context.exit_code


async def import_archive(context: CommandContext, path: Path, options: ImportOptions) -> None:
    """Import an export with a progress bar, then remove messages that are too old.

    :raises ArchiveRefused: it is not an export, or not a safe one
    :raises OtherWorkspace: what is stored is of another one
    """
    with closing(Export.open(path)) as export:
        if options.workspace and options.workspace not in export.workspaces:
            names = ", ".join(export.workspaces)
            single = "this is the export of one workspace, of no Enterprise Grid"
            raise Failure(f"--workspace: {f'expected one of {names}' if names else single}")
        async with context.open_for_import() as tables:
            with context.following("reading the lists", "B") as on_event:
                result = await ExportImport(
                    export,
                    tables,
                    clock=context.clock,
                    counting=context.settings.counting,
                    options=options,
                    on_event=on_event,
                ).run()
            channels, messages = many(result.channels, "channel"), many(result.messages, "message")
            problems = f", {many(result.problems, 'problem')}" if result.problems else ""
            new = f"{result.changed:,} new or changed{problems}"
            context.say(f"imported: {channels}, {messages}, {new}")
            if result.read is not None:
                at = minute_text(result.read.at, context.zone)
                context.say(f"it has every message up to {at}: {result.read.evidence}")
            if not result.is_ordered:
                context.say(_UNORDERED)
            for (what, flag_name), kinds in _OPTIONAL.items():
                if number := sum(result.left_out.get(kind, 0) for kind in kinds):
                    context.say(f"left out: {many(number, what)}; {flag_name} imports them too")
            if export.comments:
                files = many(export.comments, "canvas or list")
                context.say(f"left out: the comments on {files}")
            if export.workspaces:
                every = f"all of its workspaces ({', '.join(export.workspaces)})"
                elsewhere = many(result.elsewhere, "channel")
                alone = (
                    f"{options.workspace} alone; {elsewhere} of other workspaces or shared left out"
                )
                read = alone if options.workspace else f"{every}; --workspace NAME imports one"
                context.say(f"Enterprise Grid: {read}")


@command(argument("path", type=Path, metavar="CSV", help="the list, as Slack exports it"))
async def import_members(context: CommandContext) -> int:
    path = context.arguments.path
    try:
        read = await asyncio.to_thread(read_accounts, path, context.zone, context.today)
    except MalformedList as error:
        raise Failure(str(error)) from None
    async with context.tables(create=True) as tables:
        out = await Exclusions.load(tables, context.settings.exclude_users)
        new = await store_accounts(tables, read.created, out)
    for problem in read.problems:
        context.complain(problem)
    context.say(f"read: {many(len(read.created), 'account')}, {new:,} new or earlier than known")
    return context.exit_code
