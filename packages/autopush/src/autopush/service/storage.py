"""The store that the settings name: opened, checked, and its monthly tables rotated.

Rule: whatever is wrong with it at the start is one line that names the store and holds no secret.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from autopush.clock import Clock
from autopush.keys import ServiceKeys, key_file, key_fingerprints
from autopush.service.store_opening import with_notice
from autopush.settings import Settings, StartupError
from autopush.store import PushStore, TablePlan
from autopush.store.key_check import is_known, is_lost
from autopush.store.preflight import PreflightFailed, preflight
from autopush.telemetry import logs
from autopush.telemetry.metrics import Metrics
from keytables import Capacity, Engine, KeytablesError, OnFailure, StorageFull, StoreDamaged
from keytables.clock_guard import ClockReading
from keytables.stores import open_engine

ROTATION_INTERVAL: Final = 60.0
"""Seconds between two looks at the calendar."""

_log = logs.get(__name__)


def table_plan(settings: Settings) -> TablePlan:
    """The tables that the settings ask for, with their names and capacities."""
    return TablePlan(
        router=settings.router_tablename,
        storage=settings.storage_tablename,
        message=settings.message_tablename,
        rotating=settings.rotates,
        router_capacity=_capacity(settings, "router"),
        storage_capacity=_capacity(settings, "storage"),
        message_capacity=_capacity(settings, "message"),
    )


async def open_tables(
    settings: Settings,
    clock: Clock,
    on_failure: OnFailure | None = None,
    first_reading: ClockReading | None = None,
) -> Engine:
    """Open the engine only, for commands that work on tables.

    `on_failure`: of a worker; is called with each failure of the database. `first_reading`: of the
    clocks, at the start of the service that the worker belongs to.

    :raises StartupError: it cannot be opened
    """
    try:
        opening = open_engine(
            settings.store_url,
            clock=clock,
            min_free_space=settings.min_free_space,
            first_reading=first_reading,
            on_failure=on_failure,
        )
        return await with_notice(opening, settings)
    except ValueError as error:  # its text does not repeat the URL, which may hold a password
        raise StartupError(f"store: {error}") from error
    except KeytablesError as error:
        raise _startup_error(settings, error) from error


async def open_store(
    settings: Settings,
    clock: Clock,
    metrics: Metrics | None = None,
    on_failure: OnFailure | None = None,
    first_reading: ClockReading | None = None,
) -> PushStore:
    """Open the store, and make the tables that are missing. `metrics`: those of a worker;
    `on_failure` and `first_reading` as for `open_tables`.

    :raises StartupError: it cannot be opened
    """
    engine = await open_tables(settings, clock, on_failure, first_reading)
    try:
        return await _open_push_store(engine, settings, clock, metrics)
    except BaseException:
        await engine.close()
        raise


async def check_store(settings: Settings, clock: Clock) -> None:
    """Open the store and try every operation that the service needs, before any worker starts. On a
    disk without space that is left out.

    :raises StartupError: it cannot be opened, or one of them does not work
    """
    engine = await open_tables(settings, clock)
    try:
        store = await _open_push_store(engine, settings, clock)
        await preflight(
            engine,
            store.plan,
            current=store.current.name,
            key_hash=settings.key_hash,
            clock=clock,
        )
    except StorageFull as error:
        # It heals while the service runs: messages expire and are acked, and files are deleted.
        _log.error(
            "The disk is full: the store is served without having been tried",
            store=settings.store_place,
            reason=str(error),
        )
    except PreflightFailed as error:
        raise StartupError(f"{settings.store_place}: {error}{_hint(error.__cause__)}") from error
    finally:
        await engine.close()


async def check_keys(
    settings: Settings, keys: ServiceKeys, clock: Clock, *, note: bool = True
) -> None:
    """Make sure that the store was used with one of the crypto keys, or has no users yet; with
    `note` it knows all of them from then on.

    :raises StartupError: no key decrypts the endpoints of its users, or it cannot be opened
    """
    engine = await open_tables(settings, clock)
    try:
        subject = engine, table_plan(settings), key_fingerprints(keys.crypto)
        known = await is_known(*subject) if note else not await is_lost(*subject)
    except StorageFull:
        return  # there is no space to note a key: a start with space does it
    except KeytablesError as error:
        raise _startup_error(settings, error) from error
    finally:
        await engine.close()
    if not known:
        raise StartupError(_keys_lost(settings, keys))


async def rotate_monthly(
    rotate: Callable[[], Awaitable[None]], interval: float = ROTATION_INTERVAL
) -> None:
    """Let the store check the date each minute.

    Rule: it never stops; what fails is logged and tried again a minute later.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            await rotate()
        except KeytablesError as error:
            _log.warning("The message table of a month could not be made", reason=str(error))
        except Exception as error:  # noqa: BLE001 - without this it would never rotate again
            _log.exception("Unexpected error", error=error, where="rotate_monthly")


async def _open_push_store(
    engine: Engine, settings: Settings, clock: Clock, metrics: Metrics | None = None
) -> PushStore:
    try:
        return await PushStore.open(
            engine,
            table_plan(settings),
            key_hash=settings.key_hash,
            clock=clock,
            metrics=metrics,
        )
    except KeytablesError as error:
        raise _startup_error(settings, error) from error


def _keys_lost(settings: Settings, keys: ServiceKeys) -> str:
    path = key_file(settings.data, "crypto_key")
    if settings.crypto_key:
        place = f"crypto_key ({settings.sources['crypto_key'].of('crypto_key')})"
    elif path in keys.made:
        place = f"{path}, which is missing"
    else:
        place = str(path)
    return (
        f"the crypto_key of this store is lost: the subscriptions in {settings.store_place} were "
        f"made with another key than that of {place}. Put the old key there, from a backup or "
        f"another node; to give up all these subscriptions instead, run `autopush keys accept`"
    )


def _startup_error(settings: Settings, error: KeytablesError) -> StartupError:
    return StartupError(f"cannot open the store {settings.store_place}: {error}{_hint(error)}")


def _hint(error: BaseException | None) -> str:
    return "; see what autopush check says of it" if isinstance(error, StoreDamaged) else ""


def _capacity(settings: Settings, table: str) -> Capacity | None:
    units = settings.units(table)
    return None if units is None else Capacity(*units)
