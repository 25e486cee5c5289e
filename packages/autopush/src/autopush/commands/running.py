"""What the commands that work on the store share: signals, the open store, output, progress.

Results are printed to standard output; errors and progress go to standard error.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Final, NoReturn

import uvloop
from tqdm import tqdm

from autopush.clock import Clock
from autopush.service.storage import open_tables, table_plan
from autopush.settings import Settings, StartupError
from autopush.store.maintenance import RemovalStep, UserRemover
from keytables import Engine, KeytablesError
from keytables.stores import SqliteUrl, parse_store

INCOMPLETE: Final = 1
"""Exit code when something is left to do, or could not be done."""
STARTUP_FAILED: Final = 3
"""Exit code when a command, or the service, cannot start with its settings."""
STANDARD_INPUT: Final = "-"
"""What names standard input where a file is expected."""


# ── Signals ───────────────────────────────────────────────────────────────────────────────────────


def run_until_signal(work: Coroutine[object, object, int]) -> int:
    """Run `work` to its end, or to its next wait after SIGINT or SIGTERM; a second signal kills.

    Returns the exit code of `work`, or 128 and the number of the signal that ended it.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_signal(work))


async def _until_signal(work: Coroutine[object, object, int]) -> int:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    stopped_by = 0

    def stop(number: int) -> None:
        nonlocal stopped_by
        stopped_by = number
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        print_error("stopped; run it again for the rest")
        return 128 + stopped_by


# ── Store ─────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def opened_engine(settings: Settings, clock: Clock) -> AsyncIterator[Engine]:
    """The engine of the configured store; an embedded one that is missing is not created.

    Raises:
        StartupError: there is no such store, or it cannot be opened.
    """
    check_store_exists(settings)
    if settings.no_aws:
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    engine = await open_tables(settings, clock)
    try:
        yield engine
    finally:
        await engine.close()


def check_store_exists(settings: Settings) -> None:
    """Make sure that an embedded store is there.

    Raises:
        StartupError: there is none.
    """
    place = parse_store(settings.store_url)
    if isinstance(place, SqliteUrl) and not os.path.exists(place.path):
        raise StartupError(f"there is no store at {place.path}")


async def open_removal(settings: Settings, engine: Engine) -> UserRemover:
    """What removes user agents from the tables of this engine.

    Raises:
        StartupError: there is no router table, or the tables cannot be opened.
    """
    try:
        removal = await UserRemover.open(engine, table_plan(settings), key_hash=settings.key_hash)
    except KeytablesError as error:
        raise StartupError(f"cannot open the store {settings.store_place}: {error}") from error
    if removal is None:
        table = settings.router_tablename
        raise StartupError(f"there is no table {table} in the store {settings.store_place}")
    return removal


# ── Output ────────────────────────────────────────────────────────────────────────────────────────


def print_error(text: str) -> None:
    """One line on standard error."""
    print(f"autopush: {text}", file=sys.stderr, flush=True)


class Output:
    """Prints results and progress, unless the command is to be quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def print(self, text: str) -> None:
        """One line of the result."""
        if not self._quiet:
            print(text, flush=True)

    async def drop(
        self, batches: AsyncGenerator[RemovalStep, None], total: int
    ) -> tuple[RemovalStep, bool]:
        """Run all batches, with a progress bar where standard error is a terminal.

        Returns their sum, and whether none failed; a failure is printed.
        """
        looked_at = dropped = 0
        try:
            with progress_bar(total, " user agents", quiet=self._quiet) as bar:
                async with aclosing(batches):
                    async for batch in batches:
                        looked_at += batch.checked
                        dropped += batch.dropped
                        bar.update(batch.checked)
        except KeytablesError as error:
            print_error(f"{dropped:,} dropped, then: {error}; run it again for the rest")
            return RemovalStep(looked_at, dropped), False
        except asyncio.CancelledError:
            print_error(f"{dropped:,} dropped so far")
            raise
        return RemovalStep(looked_at, dropped), True


def progress_bar(total: int | None, unit: str, *, quiet: bool = False) -> "tqdm[NoReturn]":
    """A bar on standard error, where that is a terminal."""
    # One thread draws: neither a lock between processes nor a monitor thread is of use.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    disable = True if quiet else None
    return tqdm(total=total, disable=disable, leave=False, unit=unit)
