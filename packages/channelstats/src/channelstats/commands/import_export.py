"""`channelstats import-export`: an export into the store.

Rule: what is wrong with the export is said line by line, and the rest is taken in.
"""

import argparse
from contextlib import aclosing, closing
from pathlib import Path

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command
from channelstats.commands.output import many
from channelstats.commands.writing import remove_old, writing
from channelstats.ingest.events import Finished, Problem, Reached
from channelstats.ingest.export_import import Choice, ExportImport
from channelstats.render.words import printable
from channelstats.settings import Group
from channelstats.slack.export import Export


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="the export: a zip or a folder")
    parser.add_argument("--include-private", action="store_true", help="private channels too")
    parser.add_argument("--include-dms", action="store_true", help="direct messages too")


async def _run(call: Call) -> int:
    given, settings = call.given, call.settings
    choice = Choice(
        given.include_private,
        given.include_dms,
        settings.excluded_channels,
        settings.excluded_users,
    )
    finished = await take_in(call, call.given.path, choice)
    return WITH_PROBLEMS if finished.problems else DONE


async def take_in(call: Call, path: Path, choice: Choice) -> Finished:
    """Import an export, showing how far it is; what is wrong with it is said. What is older than
    it may grow goes.

    :raises Refused: it is none, or hostile
    """
    progress, counting = call.progress(), call.settings.counting
    begun = False
    finished = Finished(0, 0, 0, 0, "")
    with closing(Export.open(path)) as export:
        progress.show(0, 0, "reading the lists")
        async with call.tables(make=True) as tables, writing(call, tables):
            run = ExportImport(export, tables, clock=call.clock, counting=counting, choice=choice)
            async with aclosing(run.run()) as events:
                async for event in events:
                    if isinstance(event, Reached):
                        if not begun:
                            progress.start(event.bytes_done)
                            begun = True
                        done = f"{many(event.messages, 'message')}  #{printable(event.name)}"
                        progress.show_bytes(event.bytes_done, event.bytes, done)
                    elif isinstance(event, Problem):
                        progress.end()
                        call.complain(str(event))
                    elif isinstance(event, Finished):
                        finished = event
            progress.end()
            call.say(_summary(finished))
            if removed := await remove_old(call, tables, progress):
                call.say(removed)
    return finished


def _summary(done: Finished) -> str:
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
