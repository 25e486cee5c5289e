"""The tables for a command: opened, and closed at its end.

Rule: a command makes no store. Where there is none, a name was misspelt.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autopush.clock import Clock
from autopush.service.opening import open_tables, table_plan
from autopush.settings import Settings, StartupError
from autopush.store.maintenance import UserRemover
from keytables import Engine, KeytablesError
from keytables.stores import SqliteUrl, parse_store


@asynccontextmanager
async def engine_of(settings: Settings, clock: Clock) -> AsyncIterator[Engine]:
    """The engine of the store that the settings name.

    :raises StartupError: there is none, or it cannot be opened
    """
    place = parse_store(settings.store_url)
    if isinstance(place, SqliteUrl) and not os.path.exists(place.path):  # noqa: ASYNC240
        raise StartupError(f"there is no store at {place.path}")
    if settings.no_aws:
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    engine = await open_tables(settings, clock)
    try:
        yield engine
    finally:
        await engine.close()


async def removal_of(settings: Settings, engine: Engine) -> UserRemover:
    """What takes user agents out of its tables.

    :raises StartupError: there is no router table, or the tables cannot be opened
    """
    try:
        removal = await UserRemover.open(engine, table_plan(settings), key_hash=settings.key_hash)
    except KeytablesError as error:
        raise StartupError(f"cannot open the store {settings.store_place}: {error}") from error
    if removal is None:
        table = settings.router_tablename
        raise StartupError(f"there is no table {table} in the store {settings.store_place}")
    return removal
