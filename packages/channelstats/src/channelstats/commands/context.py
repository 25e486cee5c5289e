"""What a command is, what it is given (arguments, settings, clocks, the store, Slack), and how it
is run.

Rule: a command reads the clock and the environment here and nowhere else.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from datetime import date, timedelta
from functools import partial
from importlib import import_module
from operator import methodcaller
from pathlib import Path
from typing import Final, NoReturn, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from tqdm import tqdm

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS, ListedCommand, Parser
from channelstats.credentials import Purpose, slack_token
from channelstats.days import date_at, week_of
from channelstats.facts import Period
from channelstats.facts.periods import WEEK
from channelstats.ingest.home import OtherWorkspace
from channelstats.ingest.runs import Event, OnEvent
from channelstats.lookup import NotFound
from channelstats.progress import ProgressBar, progress_bar, show
from channelstats.render.words import plural, printable
from channelstats.settings import OptionGroup, SettingError, Settings, add_flags, load
from channelstats.slack.archive import ArchiveRefused
from channelstats.slack.export import Problem
from channelstats.slack.rate_limits import Sleep
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables, Taken
from channelstats.tables.exclusion import remove_before
from keytables import Clock, KeytablesError
from keytables.stores import SqliteUrl, parse_store

EPILOG: Final = (
    "A setting is a flag (--slack-name), an environment variable (CHANNELSTATS_SLACK_NAME) or a "
    'line of channelstats.toml in the data folder (slack_name = "…"); the first of them counts. '
    "Every command takes all settings; `channelstats doctor` shows their values and where they "
    "come from."
)

NOTHING_IMPORTED: Final = "nothing has been imported yet"
"""What is wrong with a store that is missing."""

_EARLIEST, _LATEST = date(2000, 1, 1), date(2099, 12, 31)
"""Dates that a command accepts."""


class Failure(Exception):  # noqa: N818 - an outcome, not a fault of the program
    """The command cannot be done; the text is one line for the operator."""


class CommandContext(msgspec.Struct):
    """One run of a command. ``wrong_usage`` ends it with that exit code. ``monotonic`` counts
    seconds and never goes back; ``sleep`` waits so many of them.
    """

    settings: Settings
    arguments: argparse.Namespace
    environment: Mapping[str, str]
    clock: Clock
    wrong_usage: Callable[[str], NoReturn]
    monotonic: Clock
    sleep: Sleep
    problems: int = 0

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.settings.report_timezone)

    @property
    def today(self) -> date:
        return date_at(int(self.clock()), self.zone)

    def week_of(self, day: date) -> Period:
        return Period(week_of(day, self.settings.first_weekday), WEEK, self.zone)

    @property
    def week(self) -> Period | None:
        """The week of `--week`; None where it is not given."""
        return self.arguments.week and self.week_of(self.arguments.week)

    @property
    def last_week(self) -> Period:
        """The last week that is over."""
        return self.week_of(self.today - timedelta(WEEK))

    # ── messages for the operator ────────────────────────────────────────────────────────────────

    def progress_bar(self, what: str, unit: str = "", total: int = 0, done: int = 0) -> ProgressBar:
        return progress_bar(what, unit, total, done, quiet=self.arguments.quiet)

    def say(self, text: str) -> None:
        """Print a line on standard error, unless it is to be quiet."""
        if not self.arguments.quiet:
            tqdm.write(text, file=sys.stderr)

    def complain(self, text: object) -> None:
        """Print a line about something that went wrong; see `exit_code`."""
        self.problems += 1
        tqdm.write(f"channelstats: {printable(str(text))}", file=sys.stderr)

    @property
    def exit_code(self) -> int:
        """That of a command that came to its end."""
        return WITH_PROBLEMS if self.problems else DONE

    @contextmanager
    def following(self, begin: str, unit: str) -> Iterator[OnEvent]:
        """A callback for the events of a long run: it prints a line for each problem and shows a
        progress bar for each step, counted in ``unit``. ``begin`` is its text until then.
        """
        step, bar = "", self.progress_bar(begin)

        def on_event(event: Event) -> None:
            nonlocal step, bar
            if isinstance(event, Problem):
                self.complain(event)
                return
            if event.step != step:
                bar.close()
                step = event.step
                bar = self.progress_bar(step, unit, event.total, event.done)
            if event.messages:
                bar.set_description_str(many(event.messages, "message"), refresh=False)
            channel = f"#{printable(event.channel)}" if event.channel else ""
            show(bar, event.done, event.total, channel)

        try:
            yield on_event
        finally:
            bar.close()

    # ── the store ────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def tables(
        self, *, create: bool = False, need_messages: bool = False
    ) -> AsyncIterator[Tables]:
        """The tables of the store; with ``create`` the data folder is made if it is missing.

        :raises Failure: there is no store, or no message where there has to be one
        """
        settings = self.settings
        if problem := data_folder_problem(settings):
            raise Failure(problem)
        if create:
            settings.folder.mkdir(0o700, parents=True, exist_ok=True)
        elif store_is_missing(settings):
            commands = "channelstats import-export, channelstats sync and channelstats demo"
            place = settings.store or settings.folder
            raise Failure(f"{place}: {NOTHING_IMPORTED}; see {commands}")
        opening = Tables.opened(
            settings.store_url, settings.prefix, self.zone, settings.folder, self.clock
        )
        async with opening as tables:
            if need_messages and await tables.messages.is_empty():
                commands = "channelstats import-export and channelstats sync"
                raise Failure(f"there are no messages in the store; see {commands}")
            yield tables

    @asynccontextmanager
    async def open_for_import(self) -> AsyncIterator[Tables]:
        """The tables for an import, created if they are missing; no other import runs meanwhile.
        At the end messages older than `retention_days` are removed.

        :raises Taken: another command writes messages
        """
        removed = 0
        async with self.tables(create=True) as tables, tables.writing(self.clock):
            yield tables
            if self.settings.retention is not None:
                removed = await self._remove_old(tables, self.settings.retention)
        if removed:
            await self.wipe()

    async def _remove_old(self, tables: Tables, retention: timedelta) -> int:
        """Remove what is older; return how many messages."""
        removed = 0
        with self.progress_bar("removing", " messages") as bar:
            async for day, number in remove_before(tables, self.today - retention):
                removed += number
                show(bar, removed, what=str(day))
        if removed:
            self.complain_of_left(await tables.messages.close_days())
            days = many(retention.days, "day")
            self.say(f"removed: {many(removed, 'message')} older than {days}")
        return removed

    async def wipe(self) -> None:
        """Have nothing of what was removed in the store's files; a database server sees to its own
        files.
        """
        store = parse_store(self.settings.store_url)
        if isinstance(store, SqliteUrl):
            # Here, since the store of another kind of engine needs no SQLite.
            from keytables.sqlite.wiping import wipe_store  # noqa: PLC0415

            try:
                await asyncio.to_thread(wipe_store, store.path)
            except KeytablesError as error:
                self.complain(f"{error}; its file may still hold what was removed")

    def complain_of_left(self, files: Iterable[Path]) -> None:
        for path in files:
            self.complain(
                f"{path}: cannot be overwritten or removed; it still holds what was removed"
            )

    # ── Slack ────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def web_api(
        self, purpose: Purpose = Purpose.READ, token: str | None = None
    ) -> AsyncIterator[WebApi]:
        """The Web API with the token for a purpose, or with this one.

        :raises SettingError: there is no token, or it cannot be used
        """
        # Here, since slack_sdk and aiohttp take a third of the start of a command.
        from channelstats.slack.client import SlackClient  # noqa: PLC0415

        async with SlackClient(
            token=token or slack_token(purpose, self.settings, self.environment),
            kind=self.settings.app_kind,
            base_url=self.settings.slack_api,
            clock=self.monotonic,
            sleep=self.sleep,
            say=self.say,
        ) as client:
            yield WebApi(client)


# ── commands ─────────────────────────────────────────────────────────────────────────────────────

Run: TypeAlias = Callable[[CommandContext], Coroutine[None, None, int]]

argument: Final = partial(methodcaller, "add_argument")
"""An argument of a command, as `argparse` takes it."""


def flag(name: str, about: str) -> methodcaller:
    """An argument that is there or not."""
    return argument(name, action="store_true", help=about)


def date_argument(name: str, about: str, **details: str) -> methodcaller:
    return argument(name, type=_parse_date, metavar="DATE", help=about, **details)


def number_argument(name: str, about: str, most: int, **details: int | str) -> methodcaller:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= most):
            raise argparse.ArgumentTypeError(f"expected a number from 1 to {most:,}")
        return int(text)

    return argument(name, type=parse, metavar="N", help=about, **details)


def _parse_date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    if not _EARLIEST <= day <= _LATEST:
        raise argparse.ArgumentTypeError(
            f"expected a date from {_EARLIEST} to {_LATEST}, as in 2024-03-10"
        )
    return day


class Command(msgspec.Struct, frozen=True):
    """What a command of the list takes and does. ``run`` returns the exit code. ``groups`` are the
    settings that matter to it beside the general ones: its help shows them, though it takes all.
    """

    arguments: tuple[Callable[[argparse.ArgumentParser], object], ...]
    groups: tuple[OptionGroup, ...]
    run: Run


def command(
    *arguments: methodcaller, groups: tuple[OptionGroup, ...] = ()
) -> Callable[[Run], Command]:
    """Make a function a command."""
    return lambda run: Command(arguments, groups, run)


def load_command(listed: ListedCommand) -> Command:
    module = import_module(f"channelstats.commands.{listed.module}")
    command: Command = getattr(module, listed.name.replace("-", "_"))
    return command


def make_parser(listed: ListedCommand) -> Parser:
    """The parser of what comes after a command's name."""
    command = load_command(listed)
    parser = Parser(
        prog=f"channelstats {listed.name}",
        description=f"{listed.summary[:1].upper()}{listed.summary[1:]}.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    for add in command.arguments:
        add(parser)
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [settings]"
    add_flags(parser, {OptionGroup.GENERAL, *command.groups})
    return parser


_FAILURES: Final = (Failure, NotFound, Taken, ArchiveRefused, OtherWorkspace, SettingError)
"""What ends a command with one line."""


def run(
    listed: ListedCommand, words: Sequence[str], *, clock: Clock, monotonic: Clock, sleep: Sleep
) -> int:
    """Run a command; return its exit code."""
    parser = make_parser(listed)
    parser.refuse_switch_values(words)
    # Intermixed, so that settings may stand between the words of `report user NAME`; but before
    # the first word that forgets a `--`, after which nothing is a flag.
    is_mixed = "--" not in words or not words[0].startswith("-")
    arguments = (parser.parse_intermixed_args if is_mixed else parser.parse_args)(words)
    try:
        settings = load(vars(arguments), os.environ)
    except SettingError as error:
        parser.error(str(error))
    context = CommandContext(settings, arguments, os.environ, clock, parser.error, monotonic, sleep)
    is_terminated = False

    async def until_terminated() -> int:
        """Run the command; SIGTERM ends it in order, as Ctrl-C does."""
        task = asyncio.current_task()

        def terminate() -> None:
            nonlocal is_terminated
            is_terminated = True
            if task is not None:
                task.cancel()

        if threading.current_thread() is threading.main_thread():  # no other one gets signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await load_command(listed).run(context)

    try:
        return asyncio.run(until_terminated())
    except asyncio.CancelledError:
        if not is_terminated:
            raise
        print("channelstats: terminated; run it again to go on", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)  # so that the parent process sees the signal
    except (*_FAILURES, KeytablesError) as error:
        print(f"channelstats: {error}", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output, such as `head`, has ended
        return DONE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"channelstats: {where}{error.strerror or error}", file=sys.stderr)
    return NOT_DONE


# ── for several commands ─────────────────────────────────────────────────────────────────────────


def data_folder_problem(settings: Settings) -> str:
    """What to say where the data folder is a file; "" otherwise."""
    folder = settings.folder
    if settings.store or folder.is_dir() or not folder.exists():
        return ""
    return f"{folder} is not a folder; name another one with --data"


def store_is_missing(settings: Settings) -> bool:
    """Whether the store is a file that does not exist yet."""
    store = parse_store(settings.store_url)
    return isinstance(store, SqliteUrl) and not Path(store.path).exists()


def many(number: int, word: str) -> str:
    """1 message, 2,000 messages."""
    return f"{number:,} {plural(number, word)}"
