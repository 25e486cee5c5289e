"""What every command is given, and the store opened for it.

Rule: the clock, the environment and the settings come from here; a command looks nowhere else.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Final, NoReturn
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import date_at
from channelstats.progress import Progress
from channelstats.settings import Group, Settings
from channelstats.slack.rate_limits import Sleep
from channelstats.tables import Tables
from channelstats.tables.day_files import folder_of
from keytables import Clock
from keytables.stores import SqliteUrl, open_engine, parse_store

DONE: Final = 0
WITH_PROBLEMS: Final = 1
NOT_DONE: Final = 3
"""Exit codes; 2 is wrong usage."""

NO_MESSAGES: Final = (
    "there are no messages in the store; see channelstats import-export and channelstats sync"
)


class Failure(Exception):  # noqa: N818 - named for what happened
    """The command cannot be done; the text is one line for the operator."""


class Call(msgspec.Struct, frozen=True):
    """One call of a command. ``given`` are its flags; ``wrong`` ends it as wrong usage. ``steady``
    counts seconds and never goes back; ``sleep`` waits so many of them.
    """

    settings: Settings
    given: argparse.Namespace
    environment: Mapping[str, str]
    clock: Clock
    wrong: Callable[[str], NoReturn]
    steady: Clock = time.monotonic
    sleep: Sleep = asyncio.sleep

    @property
    def quiet(self) -> bool:
        return bool(self.given.quiet)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.settings.report_timezone)

    @property
    def today(self) -> date:
        return date_at(int(self.clock()), self.zone)

    def progress(self) -> Progress:
        return Progress(sys.stderr, self.clock, quiet=self.quiet)

    def say(self, text: str) -> None:
        """A line for the operator, unless nothing but errors is wanted."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def say_meanwhile(self, text: str) -> None:
        """The same, where a line may be there that shows how far it is."""
        self.progress().end()
        self.say(text)

    def complain(self, text: str) -> None:
        """A line on something that went wrong."""
        print(f"channelstats: {text}", file=sys.stderr)

    @asynccontextmanager
    async def tables(self, *, make: bool = False) -> AsyncIterator[Tables]:
        """The tables of the store; ``make`` the data folder if it is missing."""
        settings = self.settings
        if wrong := no_folder(settings):
            raise Failure(wrong)
        if make:
            settings.folder.mkdir(0o700, parents=True, exist_ok=True)
        elif is_missing(settings):
            raise Failure(
                f"{settings.store or settings.folder}: nothing was taken in here; see channelstats "
                "import-export, channelstats sync and channelstats demo"
            )
        engine = await open_engine(settings.store_url, clock=self.clock, wipe=True)
        try:
            files = folder_of(settings.store_url, settings.prefix, settings.folder)
            yield await Tables.open(engine, settings.prefix, self.zone, files)
        finally:
            await engine.close()


def no_folder(settings: Settings) -> str:
    """What to say where the data folder is a file; "" where it is none."""
    folder = settings.folder
    if settings.store or folder.is_dir() or not folder.exists():
        return ""
    return f"{folder} is no folder; name another one with --data"


def is_missing(settings: Settings) -> bool:
    """Whether the store is a file that nobody has made yet."""
    store = parse_store(settings.store_url)
    return isinstance(store, SqliteUrl) and not Path(store.path).exists()


class Command(msgspec.Struct, frozen=True):
    """``flags`` adds a command's own; ``run`` does it and returns the exit code. ``groups`` are the
    settings that matter to it beside the general ones: its help shows them, though it takes all.
    """

    name: str
    help: str
    run: Callable[[Call], Coroutine[None, None, int]]
    flags: Callable[[argparse.ArgumentParser], None] = lambda _: None
    groups: tuple[Group, ...] = tuple(Group)
