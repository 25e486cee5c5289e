"""What every command is given, and the store opened for it.

Rule: the clock, the environment and the settings come from here; a command looks nowhere else.
"""

import argparse
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import date
from typing import Final, NoReturn
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import date_at
from channelstats.progress import Progress
from channelstats.settings import Settings
from channelstats.tables import Tables
from tablestore import Clock
from tablestore.stores import open_engine

DONE: Final = 0
WITH_PROBLEMS: Final = 1


class Failure(Exception):  # noqa: N818 - named for what happened
    """The command cannot be done; the text is one line for the operator."""


class Call(msgspec.Struct, frozen=True):
    """One call of a command. ``given`` are its flags; ``wrong`` ends it as wrong usage."""

    settings: Settings
    given: argparse.Namespace
    environment: Mapping[str, str]
    clock: Clock
    wrong: Callable[[str], NoReturn]

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

    def complain(self, text: str) -> None:
        """A line on something that went wrong."""
        print(f"channelstats: {text}", file=sys.stderr)

    @asynccontextmanager
    async def tables(self, *, make: bool = False) -> AsyncIterator[Tables]:
        """The tables of the store; ``make`` the data folder if it is missing."""
        settings = self.settings
        if make:
            settings.folder.mkdir(parents=True, exist_ok=True)
        elif not settings.store and not settings.file.exists():
            raise Failure(
                f"{settings.folder}: nothing was imported here; see channelstats import-export"
            )
        engine = await open_engine(settings.store or f"sqlite:///{settings.file}", clock=self.clock)
        try:
            yield await Tables.open(engine, settings.prefix, self.zone)
        finally:
            await engine.close()


class Command(msgspec.Struct, frozen=True):
    """``flags`` adds a command's own; ``run`` does it and returns the exit code."""

    name: str
    help: str
    run: Callable[[Call], Coroutine[None, None, int]]
    flags: Callable[[argparse.ArgumentParser], None] = lambda _: None
