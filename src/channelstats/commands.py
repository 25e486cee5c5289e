"""The commands: what they read, do and write.

Rule: a command opens the store, does one thing and closes it; whatever it cannot do is a `Failure`
of one line.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats import lookup
from channelstats.days import date_at
from channelstats.ingest.events import ChannelDone, Finished, Problem, Started
from channelstats.ingest.export_import import Choice, ExportImport
from channelstats.ingest.first_posts import rebuild
from channelstats.progress import Progress
from channelstats.reports.anonymous import SHORTEST_SECRET, Pseudonyms
from channelstats.reports.cache import document_of
from channelstats.reports.directory import load
from channelstats.reports.render import Files, Form, Kind, Wanted, render
from channelstats.reports.words import printable
from channelstats.settings import Settings
from channelstats.slack.export import Export
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week, week_of
from channelstats.tables import Tables
from tablestore import Clock
from tablestore.stores import open_engine

DONE: Final = 0
WITH_PROBLEMS: Final = 1
_SECRET: Final = 32
"""Bytes."""


class Failure(Exception):  # noqa: N818 - named for what happened
    """The command cannot be done; the text is one line for the operator."""


class Days(msgspec.Struct, frozen=True):
    """The days of a report: the week of a date, or dates, or by default the last whole week."""

    week: date | None = None
    first: date | None = None
    last: date | None = None
    days: int | None = None

    def period(self, today: date, zone: ZoneInfo) -> Period:
        if self.first is not None and self.last is not None:
            if self.last < self.first:
                raise Failure(f"--to {self.last} is before --from {self.first}")
            return Period(self.first, (self.last - self.first).days + 1, zone)
        if self.first is not None:
            return Period(self.first, self.days or WEEK, zone)
        if self.last is not None:
            days = self.days or WEEK
            return Period(self.last - timedelta(days - 1), days, zone)
        if self.week is not None:
            return Period(week_of(self.week), WEEK, zone)
        if self.days is not None:  # those that end with yesterday
            return Period(today - timedelta(self.days), self.days, zone)
        return Period(last_complete_week(today), WEEK, zone)


class Asked(msgspec.Struct, frozen=True):
    """A report as it was asked for. Without ``out`` it is written to standard output."""

    kind: Kind
    name: str
    forms: tuple[Form, ...]
    days: Days
    out: Path | None = None
    anonymize: bool = False
    anew: bool = False


@asynccontextmanager
async def _tables(settings: Settings, clock: Clock, *, make: bool) -> AsyncIterator[Tables]:
    """The tables of the store; ``make`` the data folder if it is missing."""
    if make:
        settings.folder.mkdir(parents=True, exist_ok=True)
    elif not settings.store and not settings.file.exists():
        raise Failure(
            f"{settings.folder}: nothing was imported here; see channelstats import-export"
        )
    engine = await open_engine(settings.store or f"sqlite:///{settings.file}", clock=clock)
    try:
        yield await Tables.open(engine, settings.prefix, ZoneInfo(settings.report_timezone))
    finally:
        await engine.close()


async def import_export(
    settings: Settings, path: Path, choice: Choice, *, clock: Clock, quiet: bool
) -> int:
    """Take an export into the store."""
    progress = Progress(sys.stderr, clock, quiet=quiet)
    export = Export.open(path)
    problems = 0
    try:
        async with _tables(settings, clock, make=True) as tables:
            run = ExportImport(
                export, tables, clock=clock, counting=settings.counting, choice=choice
            )
            async for event in run.run():
                if isinstance(event, Started):
                    progress.show(event.done, event.channels, "reading")
                elif isinstance(event, ChannelDone):
                    progress.show(event.number, event.channels, f"#{printable(event.name)}")
                elif isinstance(event, Problem):
                    problems += 1
                    progress.end()
                    print(f"channelstats: {event}", file=sys.stderr)
                elif isinstance(event, Finished):
                    progress.end()
                    if not quiet:
                        print(_summary(event), file=sys.stderr)
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


async def report(settings: Settings, asked: Asked, *, clock: Clock, quiet: bool) -> int:
    """Make a report in each form and write it."""
    zone = ZoneInfo(settings.report_timezone)
    period = asked.days.period(date_at(int(clock()), zone), zone)
    async with _tables(settings, clock, make=False) as tables:
        if await tables.messages.is_empty():
            raise Failure("there are no messages in the store; see channelstats import-export")
        finders = {Kind.CHANNEL: lookup.channel_id, Kind.USER: lookup.user_id}
        find = finders.get(asked.kind)
        subject = await find(tables, asked.name) if find else ""
        document = await document_of(tables, period, settings.options, clock=clock, anew=asked.anew)
        counted = [subject] if asked.kind is Kind.CHANNEL else []
        directory = await load(tables, period, settings.slack_name, counted)
    names = Pseudonyms(_secret(settings), directory.names) if asked.anonymize else None
    wanted = Wanted(asked.kind, subject, settings.optin_channel)
    for form in asked.forms:
        name, files = render(
            wanted, document, directory, form, names=names, smallest_group=settings.min_group
        )
        _write(asked.out, f"{name}.{form}", files, tell=not quiet)
    return DONE


async def rebuild_firstposts(settings: Settings, *, clock: Clock, quiet: bool) -> int:
    """Make the table FirstPost anew from every stored message."""
    async with _tables(settings, clock, make=False) as tables:
        users = await tables.users.all()
        bots = [user.slack_uid for user in users.values() if user.is_bot]
        await rebuild(tables, settings.counting, bots)
        await tables.configuration.put_first_posts_counting(settings.counting.name)
        found = len(await tables.first_posts.all())
    if not quiet:
        print(f"first posts of {found:,} people", file=sys.stderr)
    return DONE


def _secret(settings: Settings) -> bytes:
    """The secret of pseudonyms, made in the data folder when there is none; only its owner can
    read it.
    """
    if settings.anonymize_secret_file:
        secret = Path(settings.anonymize_secret_file).expanduser().read_bytes().strip()
        if len(secret) < SHORTEST_SECRET:
            raise Failure(f"the secret of pseudonyms: expected {SHORTEST_SECRET} bytes or more")
        return secret
    settings.folder.mkdir(parents=True, exist_ok=True)
    path = settings.folder / "anonymize.secret"
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    secret = os.urandom(_SECRET)
    with os.fdopen(made, "wb") as file:
        file.write(secret)
    return secret


def _write(out: Path | None, name: str, files: Files, *, tell: bool) -> None:
    if out is None:
        sys.stdout.buffer.write(files[""])
        sys.stdout.flush()
        return
    for part, data in files.items():
        path = out / name / part if part else out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.name}.new")  # so that a reader never meets half a file
        whole.write_bytes(data)
        whole.replace(path)
    if tell:
        print(out / name, file=sys.stderr)
