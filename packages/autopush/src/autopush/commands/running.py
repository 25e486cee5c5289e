"""What the commands that work on the store share: signals, the open store, output, progress.

Results are printed to standard output; errors and progress go to standard error.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Final, NoReturn

import uvloop
from tqdm import tqdm

from autopush.clock import Clock
from autopush.service.storage import open_tables
from autopush.settings import Settings, StartupError
from keytables import Engine
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
    """The engine of the configured store; an embedded one that is missing is not created."""
    check_store_exists(settings)
    if settings.no_aws:
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    engine = await open_tables(settings, clock)
    try:
        yield engine
    finally:
        await engine.close()


def check_store_exists(settings: Settings) -> None:
    """Make sure that an embedded store is there."""
    place = parse_store(settings.store_url)
    if isinstance(place, SqliteUrl) and not os.path.exists(place.path):
        raise StartupError(f"there is no store at {place.path}")


# ── Output ────────────────────────────────────────────────────────────────────────────────────────


def print_error(text: str) -> None:
    """One line on standard error."""
    print(f"autopush: {text}", file=sys.stderr, flush=True)


def progress_bar(total: int | None, unit: str, *, quiet: bool = False) -> "tqdm[NoReturn]":
    """A bar on standard error, where that is a terminal."""
    # One thread draws: neither a lock between processes nor a monitor thread is of use.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    disable = True if quiet else None
    return tqdm(total=total, disable=disable, leave=False, unit=unit)
