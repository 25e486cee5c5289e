"""`channelstats import-export`: an export into the store.

Rule: what is wrong with the export is said line by line, and the rest is taken in.
"""

import argparse
from contextlib import closing
from pathlib import Path

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command
from channelstats.commands.output import many
from channelstats.commands.writing import remove_old, writing
from channelstats.ingest.events import Event, Problem
from channelstats.ingest.export_import import ExportImport, ImportOptions, ImportResult
from channelstats.render.words import printable
from channelstats.settings import Group
from channelstats.slack.export import Export


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="the export: a zip or a folder")
    parser.add_argument("--include-private", action="store_true", help="private channels too")
    parser.add_argument("--include-dms", action="store_true", help="direct messages too")


async def _run(call: Call) -> int:
    given, settings = call.given, call.settings
    options = ImportOptions(
        given.include_private,
        given.include_dms,
        settings.excluded_channels,
        settings.excluded_users,
    )
    result = await take_in(call, call.given.path, options)
    return WITH_PROBLEMS if result.problems else DONE


async def take_in(call: Call, path: Path, options: ImportOptions) -> ImportResult:
    """Import an export, showing how far it is; what is wrong with it is said. What is older than
    it may grow goes.

    :raises Refused: it is none, or hostile
    """
    progress = call.progress()
    begun = False

    def show(event: Event) -> None:
        nonlocal begun
        if isinstance(event, Problem):
            progress.end()
            call.complain(str(event))
            return
        if not begun:
            progress.start(event.done)
            begun = True
        done = f"{many(event.messages, 'message')}  #{printable(event.channel)}"
        progress.show_bytes(event.done, event.total, done)

    with closing(Export.open(path)) as export:
        progress.show(0, 0, "reading the lists")
        async with call.tables(make=True) as tables, writing(call, tables):
            run = ExportImport(
                export,
                tables,
                clock=call.clock,
                counting=call.settings.counting,
                options=options,
                on_event=show,
            )
            result = await run.run()
            progress.end()
            call.say(_summary(result))
            if removed := await remove_old(call, tables, progress):
                call.say(removed)
    return result


def _summary(done: ImportResult) -> str:
    parts = [
        many(done.channels, "channel"),
        many(done.messages, "message"),
        f"{done.changed:,} new or changed",
    ]
    if done.problems:
        parts.append(many(done.problems, "problem"))
    return "imported: " + ", ".join(parts)


COMMAND = Command(
    "import-export",
    "take in a Slack export: a zip or a folder",
    _run,
    _flags,
    (Group.COUNTING, Group.PRIVACY),
)
