"""`channelstats import-export`: an export into the store.

Rule: what is wrong with the export is said line by line, and the rest is taken in.
"""

import argparse
from pathlib import Path

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command
from channelstats.ingest.events import ChannelDone, Finished, Problem, Started
from channelstats.ingest.export_import import Choice, ExportImport
from channelstats.reports.words import printable
from channelstats.slack.export import Export


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH")
    parser.add_argument("--include-private", action="store_true", help="private channels too")
    parser.add_argument("--include-dms", action="store_true", help="direct messages too")


async def _run(call: Call) -> int:
    choice = Choice(call.given.include_private, call.given.include_dms)
    counting = call.settings.counting
    progress = call.progress()
    export = Export.open(call.given.path)
    problems = 0
    try:
        async with call.tables(make=True) as tables:
            run = ExportImport(export, tables, clock=call.clock, counting=counting, choice=choice)
            async for event in run.run():
                if isinstance(event, Started):
                    progress.show(event.done, event.channels, "reading")
                elif isinstance(event, ChannelDone):
                    progress.show(event.number, event.channels, f"#{printable(event.name)}")
                elif isinstance(event, Problem):
                    problems += 1
                    progress.end()
                    call.complain(str(event))
                elif isinstance(event, Finished):
                    progress.end()
                    call.say(_summary(event))
    finally:
        export.close()
    return WITH_PROBLEMS if problems else DONE


def _summary(done: Finished) -> str:
    parts = [
        f"{done.channels:,} channels",
        f"{done.messages:,} messages",
        f"{done.changed:,} new or changed",
    ]
    if done.problems:
        parts.append(f"{done.problems:,} problems")
    return "imported: " + ", ".join(parts)


COMMAND = Command("import-export", "take in a Slack export: a zip or a folder", _run, _flags)
