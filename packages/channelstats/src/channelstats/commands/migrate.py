"""`channelstats migrate`: another installation's tables, the original's above all, into the store.

Rule: what is read from is never written to.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command, Failure
from channelstats.commands.writing import remove_old, writing
from channelstats.ingest.events import Event, Problem
from channelstats.ingest.migration import Migration, MigrationResult
from channelstats.ingest.older_tables import NothingThere, OlderTables
from channelstats.settings import Group
from keytables.stores import SqliteUrl, open_engine, parse_store


def _flags(parser: argparse.ArgumentParser) -> None:
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
        help="begins the names of tables there; channelstats",
    )


async def _run(call: Call) -> int:
    settings, progress = call.settings, call.progress()

    def show(event: Event) -> None:
        if isinstance(event, Problem):
            progress.end()
            call.complain(str(event))
        else:
            progress.show(event.done, 0, event.step)

    async with (
        _source(call) as source,
        call.tables(make=True) as tables,
        writing(call, tables),
    ):
        run = Migration(
            source,
            tables,
            clock=call.clock,
            counting=settings.counting,
            excluded=settings.excluded_users,
            excluded_channels=settings.excluded_channels,
            on_event=show,
        )
        try:
            result = await run.run()
        finally:
            progress.end()
        call.say(_summary(result))
        if removed := await remove_old(call, tables, progress):
            call.say(removed)
    return WITH_PROBLEMS if result.problems else DONE


@asynccontextmanager
async def _source(call: Call) -> AsyncIterator[OlderTables]:
    """The tables to read from, in a store of their own."""
    settings, given = call.settings, call.given
    try:
        store = parse_store(given.source)
        own = parse_store(settings.store_url)
    except ValueError as error:
        raise Failure(f"--from: {error}") from None
    if store == own and given.from_prefix == settings.prefix:
        raise Failure("--from: these are the tables to write to")
    if isinstance(store, SqliteUrl) and not await asyncio.to_thread(Path(store.path).is_file):
        raise Failure(f"--from: {store.path}: there is no such file")
    engine = await open_engine(given.source, clock=call.clock)
    try:
        yield await OlderTables.open(engine, given.from_prefix)
    except NothingThere as error:
        raise Failure(f"--from: {error}") from None
    finally:
        await engine.close()


def _summary(result: MigrationResult) -> str:
    parts = [
        f"{number:,} {what}" + (f" ({result.changed:,} new or changed)" * (what == "messages"))
        for what, number in result.read.items()
    ]
    return f"read: {', '.join(parts) or 'nothing'}"


COMMAND = Command(
    "migrate",
    "take in the tables of the original, or of another store",
    _run,
    _flags,
    (Group.COUNTING, Group.PRIVACY),
)
