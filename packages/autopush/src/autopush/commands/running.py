"""Shared by the one-shot commands: signals, settings, the open store, output, progress.

Results go to standard output, errors and progress to standard error.
"""

import argparse
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
from autopush.commands import DAEMON_FILES
from autopush.service.storage import open_tables, table_plan
from autopush.settings import Settings, StartupError
from autopush.settings.sources import Loaded, load
from autopush.store.copying import service_tables
from autopush.telemetry import logs
from keytables import Engine, KeytablesError

INCOMPLETE: Final = 1
"""Exit code: something is left to do or failed."""
STANDARD_INPUT: Final = "-"
"""A file argument that means standard input."""


# ── Signals ───────────────────────────────────────────────────────────────────────────────────────


def run_until_signal(work: Coroutine[object, object, int]) -> int:
    """Run `work` until it ends, or SIGINT or SIGTERM cancels it at its next wait.

    Returns the exit code of `work`, or 128 plus the signal's number.
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
        logs.print_error("stopped; run it again for the rest")
        return 128 + stopped_by


# ── Settings ──────────────────────────────────────────────────────────────────────────────────────


def load_for_daemon(arguments: argparse.Namespace) -> Loaded:
    """The settings of the daemon that `--for` names; raises StartupError as `load` does."""
    command = arguments.daemon or "serve"
    return load(arguments, command=command, files=DAEMON_FILES[command])


# ── Store ─────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def opened_engine(
    settings: Settings, clock: Clock, *, may_create: bool = False, is_named: bool = False
) -> AsyncIterator[Engine]:
    """The engine of the configured store. `may_create`: only for what has a new store as its
    purpose; the daemons alone create one otherwise. `is_named`: print on standard error which store
    it is, where the results do not say it.

    :raises StartupError: an embedded store is missing, and is not to be created
    """
    if not may_create:
        check_store_exists(settings)
    if settings.no_aws:
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    engine = await open_tables(settings, clock)
    try:
        if is_named:
            name_store(settings)
        yield engine
    finally:
        await engine.close()


def name_store(settings: Settings) -> None:
    """Print which store a command uses, on standard error."""
    print(f"store: {settings.store_place}", file=sys.stderr, flush=True)


def check_store_exists(settings: Settings) -> None:
    """Raise StartupError if the file of an embedded store is missing."""
    path = settings.store_file
    if path is not None and not os.path.exists(path):
        raise no_store(path)


async def check_tables_exist(engine: Engine, settings: Settings) -> None:
    """Raise StartupError if no service has made its tables in the store."""
    try:
        tables = service_tables(await engine.table_names(), table_plan(settings))
    except KeytablesError as error:
        raise StartupError(f"cannot open the store {settings.store_place}: {error}") from error
    if not tables:
        raise no_store(settings.store_place, ", which has none of its tables")


def no_store(place: str, why: str = "") -> StartupError:
    return StartupError(
        f"there is no store at {place}{why}: name that of the service, with --data FOLDER or "
        "--store URL. The first start of the service creates it"
    )


# ── Output ────────────────────────────────────────────────────────────────────────────────────────


def progress_bar(total: int | None, unit: str, *, quiet: bool = False) -> "tqdm[NoReturn]":
    """A progress bar on standard error, if that is a terminal."""
    # One thread draws: no lock between processes and no monitor thread are needed.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    disable = True if quiet else None
    return tqdm(total=total, disable=disable, leave=False, unit=unit)
