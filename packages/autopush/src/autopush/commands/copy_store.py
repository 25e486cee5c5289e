"""`autopush store copy`: everything in a store, into a store of any kind of engine."""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from autopush.commands import CommandLine
from autopush.commands.running import INCOMPLETE, opened_engine, progress_bar, run_until_signal
from autopush.service.data_folder import prepare_data_folder
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.copying import CopiedTable, CopyRefused, StoreCopy, check_source
from autopush.telemetry import logs
from keytables import KeytablesError
from keytables.stores import parse_store

MAX_PASSES: Final = 5
SMALL: Final = 0.001
"""Share of the items that may differ when copying beside the service ends."""


def copy(settings: Settings, arguments: argparse.Namespace) -> int:
    """Returns 1 if the copy is not finished: run it again."""
    source = _named(settings, "FROM", arguments.source)
    target = _named(settings, "TO", arguments.target)
    if source.store == target.store:
        raise StartupError("FROM and TO are the same store")
    if not arguments.online:
        _refuse_if_in_use(source, "stop the service, or copy beside it with --online")
    _refuse_if_in_use(target, "a copy is made into a store that no service uses")
    return run_until_signal(_copy(source, target, arguments))


def _named(settings: Settings, name: str, url: str) -> Settings:
    """The settings with that store."""
    try:
        parse_store(url)
    except ValueError as error:
        raise StartupError(f"{name}: {error}") from None
    return replace(settings, store=url)


def _refuse_if_in_use(settings: Settings, advice: str) -> None:
    if (path := settings.store_file) is None:
        return
    from keytables.sqlite.layout import lock_holders  # noqa: PLC0415 - not on DynamoDB

    if holders := lock_holders(path):
        raise StartupError(f"{settings.store_place} is in use by {holders[0]}: {advice}")


async def _copy(source: Settings, target: Settings, arguments: argparse.Namespace) -> int:
    began, plan = time.monotonic(), table_plan(target)
    try:
        async with opened_engine(source, time.time) as source_engine:
            await check_source(source_engine, plan, source.store_place)
            _prepare_folder(target)
            async with opened_engine(target, time.time, may_create=True) as target_engine:
                copying = await StoreCopy.begin(
                    source_engine,
                    target_engine,
                    plan,
                    origin=source.store_place,
                    into_existing=arguments.into_existing,
                    clock=time.time,
                )
                tables, seconds = await _run_passes(copying, arguments)
                is_equal = all(table.source == table.target for table in tables)
                if is_equal and not arguments.online:
                    await copying.finish()
    except CopyRefused as error:
        raise StartupError(str(error)) from None
    except KeytablesError as error:
        logs.print_error(f"the copy is not finished: {error}; run it again for the rest")
        return INCOMPLETE
    if arguments.online:
        different = sum(table.written + table.removed for table in tables)
        print(
            f"the last pass took {seconds:.1f} s and brought {different:,} items over. Stop the "
            "service, then run the same without --online: it takes about as long, and finishes "
            "the copy",
            flush=True,
        )
        return 0
    if not is_equal:
        logs.print_error(
            f"{source.store_place} changed during each of {MAX_PASSES} passes: stop what writes to "
            "it, then run it again; or copy with --online first"
        )
        return INCOMPLETE
    if not arguments.quiet:
        for table in tables:
            print(f"{table.name}: {table.target.items:,} items, sha256 {table.target.sha256}")
        seconds = time.monotonic() - began
        print(
            f"copied {source.store_place} to {target.store_place}, and read both again: equal; "
            f"{seconds:.1f} s. Start the service with this store and the same crypto_key",
            flush=True,
        )
    return 0


def _prepare_folder(settings: Settings) -> None:
    if (path := settings.store_file) is not None:
        prepare_data_folder(Path(path).parent)


async def _run_passes(
    copying: StoreCopy, arguments: argparse.Namespace
) -> tuple[list[CopiedTable], float]:
    """Repeat until both stores are equal, or with `--online` nearly so; returns the last pass and
    how many seconds it took.
    """
    total: int | None = None
    for _ in range(MAX_PASSES):
        began = time.monotonic()
        with progress_bar(total, " items", quiet=arguments.quiet) as bar:
            tables = await copying.run_pass(bar.update)
        seconds = time.monotonic() - began
        items = sum(table.source.items for table in tables)
        different = sum(table.written + table.removed for table in tables)
        if arguments.online:
            if different <= items * SMALL:
                break
        elif all(table.source == table.target for table in tables):
            break
        total = 2 * items  # each item is read in both stores
    return tables, seconds


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "copy: all that is in one store into another one, of any kind"
    parser.add_argument("action", choices=("copy",), metavar="copy", help=about)
    about = "URL of a store, as the option store has it"
    parser.add_argument("source", metavar="FROM", help=about)
    parser.add_argument("target", metavar="TO", help="URL of one that is empty, or missing")
    group = parser.add_argument_group("What to do")
    about = "copy beside the running service, until little differs; a run without it finishes"
    group.add_argument("--online", action="store_true", help=about)
    about = "replace what is in TO: it then holds what FROM holds, and nothing else"
    group.add_argument("--into-existing", action="store_true", help=about)
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


COMMANDS: Final = {"store": CommandLine(copy, _add_arguments, "copy FROM TO")}
