"""What `channelstats doctor` checks on this side of the network: versions, time zones, the clock,
settings, the store.

Rule: nothing is changed and nothing is created.
"""

import asyncio
import os
import platform
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

from channelstats.commands.context import (
    CommandContext,
    data_folder_problem,
    many,
    minute,
    store_is_missing,
)
from channelstats.days import zone_of
from channelstats.settings import OPTIONS, PREFIX, show_value
from channelstats.settings.sources import OTHER_VARIABLES, nearest
from channelstats.tables import Tables
from channelstats.tables.items import HASH_KEYS
from keytables import Engine, KeytablesError
from keytables.stores import DynamoUrl, open_engine, parse_store

_LIBRARIES: Final = (
    "channelstats",
    "polars",
    "slack-sdk",
    "aiohttp",
    "jinja2",
    "msgspec",
    "apsw",
    "pywebpush",
    "tzdata",
)
_ZONES: Final = ("Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe")
_EARLIEST_YEAR: Final = 2024
"""A clock that shows an earlier one is wrong."""

_OUTDATED: Final = timedelta(8)
"""Without a message for so long the last week is not complete."""

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(msgspec.Struct, frozen=True):
    """A line: what is so, and where something is wrong, what to do about it."""

    level: Level
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.level:<8} {self.about}: {self.text}"


def ok(about: str, text: str) -> Finding:
    return Finding(Level.OK, about, text)


def warning(about: str, text: str) -> Finding:
    return Finding(Level.WARNING, about, text)


def problem(about: str, text: str) -> Finding:
    return Finding(Level.PROBLEM, about, text)


# ── the machine ──────────────────────────────────────────────────────────────────────────────────


async def check_machine(context: CommandContext) -> AsyncIterator[Finding]:
    found = [f"Python {platform.python_version()}"]
    missing = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    yield ok("versions", ", ".join(found))
    if missing:
        yield problem("versions", f"missing: {', '.join(missing)}")
    unknown = [name for name in _ZONES if zone_of(name) is None]
    if unknown:
        yield problem("time zones", f"{', '.join(unknown)}: not known here; install tzdata")
    else:
        yield ok("time zones", "known")
    now = datetime.fromtimestamp(context.clock(), context.zone)
    text = f"{now:%Y-%m-%d %H:%M} in {context.settings.report_timezone}"
    if now.year < _EARLIEST_YEAR:
        yield warning("clock", f"{text}: that cannot be right")
    else:
        yield ok("clock", text)


# ── settings ─────────────────────────────────────────────────────────────────────────────────────


async def check_settings(context: CommandContext) -> AsyncIterator[Finding]:
    settings = context.settings
    for option in OPTIONS:
        if option.name in settings.sources:
            value = show_value(getattr(settings, option.name))
            yield ok("settings", f"{option.name} = {value} ({settings.sources[option.name].place})")
    if not settings.sources:
        yield ok("settings", "all have their defaults")
    else:
        others = len(OPTIONS) - len(settings.sources)
        yield ok("settings", f"the {others} others have their defaults")
    known = {option.variable for option in OPTIONS} | set(OTHER_VARIABLES)
    for name in sorted(context.environment):
        if name.startswith(PREFIX) and name not in known:
            near = nearest(name.removeprefix(PREFIX).lower())
            meant = f"; did you mean {PREFIX}{near.upper()}?" if near else ""
            yield warning("settings", f"{name} is not a setting{meant}")


# ── the store ────────────────────────────────────────────────────────────────────────────────────


async def check_store(context: CommandContext) -> AsyncIterator[Finding]:
    settings = context.settings
    if wrong := data_folder_problem(settings):
        yield problem("store", wrong)
        return
    if store_is_missing(settings):
        place = _place(context) if settings.store else settings.folder
        yield warning("store", f"{place}: nothing has been imported yet")
        return
    if not settings.store and not os.access(settings.folder, os.W_OK):
        yield problem("store", f"{settings.folder}: this user cannot write to it")
        return
    if not settings.store and settings.folder.stat().st_mode & 0o005:
        yield warning(
            "store", f"every user of this machine can read {settings.folder}; chmod 700 ends that"
        )
    try:
        engine = await open_engine(settings.store_url, clock=context.clock)
    except (KeytablesError, OSError, ValueError) as error:
        yield _broken(context, error)
        return
    try:
        async for finding in _opened(context, engine):
            yield finding
    except KeytablesError as error:
        yield _broken(context, error)
    finally:
        await engine.close()


async def _opened(context: CommandContext, engine: Engine) -> AsyncIterator[Finding]:
    prefix = context.settings.prefix
    expected = {f"{prefix}.{name}" for name in HASH_KEYS}
    missing = expected - set(await engine.table_names())
    if missing == expected:
        yield warning("store", f"{_place(context)}: no tables that begin with {prefix!r} yet")
        return
    size = ""
    if not context.settings.store:
        size = f", {_bytes(await asyncio.to_thread(_size, context.settings.folder))}"
    yield ok("store", f"{_place(context)}: {many(len(expected - missing), 'table')}{size}")
    if missing:
        yield ok("store", f"the next run makes {', '.join(sorted(missing))}")
        return
    tables = await Tables.open(engine, prefix, context.zone)
    async for finding in _contents(context, tables):
        yield finding


async def _contents(context: CommandContext, tables: Tables) -> AsyncIterator[Finding]:
    users, channels = await tables.configuration.counts(), await tables.channels.all()
    archived = sum(channel.is_archived for channel in channels.values())
    yield ok(
        "directory",
        f"{many(users.all_users, 'user')}, {users.active_users:,} of them active; "
        f"{many(len(channels), 'channel')}, {archived:,} of them archived",
    )
    days = await tables.messages.days()
    if not days:
        yield warning("messages", "none yet; see channelstats import-export and channelstats sync")
        return
    read = await tables.configuration.last_run()
    until = f"; read up to {minute(read, context.zone)}" if read else ""
    newest = date.fromisoformat(max(days))
    if newest < context.today - _OUTDATED:
        old = f"the newest are of {newest}{until}: the last week is not there"
        yield warning("messages", old)
    else:
        yield ok("messages", f"of {many(len(days), 'day')}, the newest of {newest}{until}")
    if left := sum(days.values()):
        yield warning(
            "messages",
            f"{many(left, 'day')} being written to: by a run of now, or by one that was broken "
            "off; the next one completes it",
        )


def _broken(context: CommandContext, error: Exception) -> Finding:
    """What is wrong and where, which some errors say themselves."""
    place, text = _place(context), str(error)
    return problem("store", text if place in text else f"{place}: {text}")


def _place(context: CommandContext) -> str:
    """Where the store is; credentials are not part of it."""
    given = context.settings.store
    if not given:
        return str(context.settings.file)
    found = parse_store(given)
    if not isinstance(found, DynamoUrl):
        return found.path
    return f"DynamoDB{f' of {found.region}' if found.region else ''}" + (
        f" at {found.endpoint}" if found.endpoint else ""
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _bytes(number: float) -> str:
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:,.0f} {_UNITS[unit]}"
