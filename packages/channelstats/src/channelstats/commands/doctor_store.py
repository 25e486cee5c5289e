"""What `channelstats doctor` says about the store: whether it is there, and how recent it is.

Rule: it is looked at, and nothing is made in it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from channelstats.commands.call import Call, is_missing, no_folder
from channelstats.commands.finding import Finding, ok, problem, warning
from channelstats.commands.output import many
from channelstats.tables import Tables
from channelstats.tables.items import HASH_KEYS
from keytables import Engine, KeytablesError
from keytables.stores import DynamoUrl, open_engine, parse_store

_ABOUT: Final = "store"
_MESSAGES: Final = "messages"
_OLD: Final = timedelta(8)
"""Without a message for so long the last week is not whole."""

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


async def store(call: Call) -> AsyncIterator[Finding]:
    settings = call.settings
    if wrong := no_folder(settings):
        yield problem(_ABOUT, wrong)
        return
    if is_missing(settings):
        place = _place(call) if settings.store else settings.folder
        yield warning(_ABOUT, f"{place}: nothing was taken in here yet")
        return
    if not settings.store and not os.access(settings.folder, os.W_OK):
        yield problem(_ABOUT, f"{settings.folder}: this user cannot write to it")
        return
    if not settings.store and settings.folder.stat().st_mode & 0o005:
        yield warning(_ABOUT, f"everybody here can read {settings.folder}; chmod 700 ends it")
    try:
        engine = await open_engine(settings.store_url, clock=call.clock)
    except (KeytablesError, OSError, ValueError) as error:
        yield _broken(call, error)
        return
    try:
        async for finding in _opened(call, engine):
            yield finding
    except KeytablesError as error:
        yield _broken(call, error)
    finally:
        await engine.close()


async def _opened(call: Call, engine: Engine) -> AsyncIterator[Finding]:
    prefix = call.settings.prefix
    expected = {f"{prefix}.{name}" for name in HASH_KEYS}
    missing = expected - set(await engine.table_names())
    if missing == expected:
        yield warning(_ABOUT, f"{_place(call)}: no tables that begin with {prefix!r} yet")
        return
    size = ""
    if not call.settings.store:
        size = f", {_bytes(await asyncio.to_thread(_size, call.settings.folder))}"
    yield ok(_ABOUT, f"{_place(call)}: {many(len(expected - missing), 'table')}{size}")
    if missing:
        yield ok(_ABOUT, f"the next run makes {', '.join(sorted(missing))}")
        return
    tables = await Tables.open(engine, prefix, call.zone)
    async for finding in _contents(call, tables):
        yield finding


async def _contents(call: Call, tables: Tables) -> AsyncIterator[Finding]:
    users, channels = await tables.configuration.counts(), await tables.channels.all()
    archived = sum(channel.is_archived for channel in channels.values())
    yield ok(
        "directory",
        f"{many(users.all_users, 'user')}, {users.active_users:,} of them active; "
        f"{many(len(channels), 'channel')}, {archived:,} of them archived",
    )
    days = await tables.messages.days()
    if not days:
        yield warning(_MESSAGES, "none yet; see channelstats import-export and channelstats sync")
        return
    read = await tables.configuration.last_run()
    until = f"; read up to {datetime.fromtimestamp(read, call.zone):%Y-%m-%d %H:%M}" if read else ""
    newest = date.fromisoformat(max(days))
    if newest < call.today - _OLD:
        old = f"the newest are of {newest}{until}: the last week is not there"
        yield warning(_MESSAGES, old)
    else:
        yield ok(_MESSAGES, f"of {many(len(days), 'day')}, the newest of {newest}{until}")
    if left := sum(days.values()):
        yield warning(
            _MESSAGES,
            f"{many(left, 'day')} being written to: by a run of now, or by one that was broken "
            "off; the next one completes it",
        )


def _broken(call: Call, error: Exception) -> Finding:
    """What is wrong and where, which some errors say themselves."""
    place, text = _place(call), str(error)
    return problem(_ABOUT, text if place in text else f"{place}: {text}")


def _place(call: Call) -> str:
    """Where the store is; credentials are not part of it."""
    given = call.settings.store
    if not given:
        return str(call.settings.file)
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
