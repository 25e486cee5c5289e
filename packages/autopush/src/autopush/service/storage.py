"""The configured store: opened, and tested at the start.

A failure to open it is one line that names the store and holds no secret. A damaged store is served
as far as it can be read.
"""

import asyncio
import os
from collections.abc import Awaitable, Collection
from contextlib import suppress
from time import monotonic
from typing import Final, TypeVar

from autopush.clock import Clock, ServiceClock
from autopush.keys import ServiceKeys, key_file, key_fingerprints
from autopush.settings import Settings, StartupError
from autopush.store import PushStore, TablePlan
from autopush.store.copying import unfinished_copy
from autopush.store.preflight import PreflightFailed, are_keys_known, are_keys_lost, preflight
from autopush.telemetry import logs
from autopush.telemetry.metrics import Metrics
from keytables import (
    Capacity,
    Engine,
    KeytablesError,
    OnFailure,
    StorageFull,
    StoreDamaged,
    Unavailable,
)
from keytables.stores import PostgresUrl, open_engine, parse_store

NOTICE_AFTER: Final = 1.0
"""Seconds of waiting for a locked store until it is logged."""
DAMAGE_ADVICE: Final = (
    "run autopush check, then restore a backup; it is served as far as it is read"
)
LOG_ADVICE: Final = (
    "nothing is to be done: this start drops what cannot be read, the messages that were accepted "
    "last, and acks"
)
EMPTY_ADVICE: Final = "if there were user agents in it, stop the service and restore a backup"
DIVISION_ADVICE: Final = (
    "workers wait for each other's writes; the next start tries again, when no other process has "
    "the store open and there is space for a second copy of it"
)
CONNECTIONS_ADVICE: Final = (
    "Lower workers or connections=N in the option store, or raise max_connections"
)
INCOMPLETE_ADVICE: Final = "run autopush check, which reads all of it"

_MAX_PARTS: Final = 1024
"""As many as there may be workers."""

_log: Final = logs.get(__name__)

T = TypeVar("T")


def table_plan(settings: Settings) -> TablePlan:
    return TablePlan(
        router=settings.router_tablename,
        storage=settings.storage_tablename,
        message=settings.message_tablename,
        # The console follows its test pushes by their receipts.
        receipt=settings.receipt_tablename if settings.receipts or settings.console else "",
        rotating=settings.rotates,
        router_capacity=_capacity(settings, "router"),
        storage_capacity=_capacity(settings, "storage"),
        message_capacity=_capacity(settings, "message"),
    )


async def open_tables(
    settings: Settings,
    clock: Clock,
    on_failure: OnFailure | None = None,
    own_parts: Collection[int] | None = None,
) -> Engine:
    """Open the engine only, for commands that work on tables.

    `on_failure`: called with each database failure; `own_parts`: of an embedded store, those that
    this worker writes, None for all.

    :raises StartupError: it cannot be opened
    """
    try:
        opening = open_engine(
            settings.store_url,
            clock=clock,
            min_free_space=settings.min_free_space,
            first_reading=clock.first_reading if isinstance(clock, ServiceClock) else None,
            on_failure=on_failure,
            own_parts=own_parts,
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
    own_parts: Collection[int] | None = None,
) -> PushStore:
    """Open the store, creating missing tables. Arguments as for `open_tables`; `metrics`: of a
    worker.

    :raises StartupError: it cannot be opened
    """
    engine = await open_tables(settings, clock, on_failure, own_parts)
    try:
        return await _open_push_store(engine, settings, clock, metrics)
    except BaseException:
        await engine.close()
        raise


async def try_store(settings: Settings, clock: ServiceClock) -> None:
    """Try every store operation that the service needs, before any worker starts; skipped on a full
    disk. Corrects the clock.

    :raises StartupError: it cannot be opened, or an operation does not work
    """
    engine = await open_tables(settings, clock)
    try:
        store = await _open_push_store(engine, settings, clock)
        with suppress(KeytablesError):  # the store watch of each worker compares them again
            clock.correct(await engine.clock_difference(clock.own))
        await preflight(
            engine, store.plan, current=store.current.name, key_hash=settings.key_hash, clock=clock
        )
        await _check_connections(settings, clock)
    except StorageFull as error:
        # It recovers at run time: messages expire and are acked, and files are deleted.
        _log.error(
            "The disk is full: the store is served without having been tried",
            store=settings.store_place,
            reason=str(error),
        )
    except PreflightFailed as error:
        raise StartupError(f"{settings.store_place}: {error}{_hint(error.__cause__)}") from error
    finally:
        await engine.close()


async def _check_connections(settings: Settings, clock: Clock) -> None:
    """Log that the server of a store on PostgreSQL has fewer connections than the workers may open:
    they do with those that they get.
    """
    store = parse_store(settings.store_url)
    if not isinstance(store, PostgresUrl):
        return
    from keytables.postgresql.inspection import inspect_server  # noqa: PLC0415 - asyncpg

    with suppress(KeytablesError):  # no connection is left for it: the workers report the same
        limit = (await inspect_server(store, clock)).max_connections
        if problem := few_connections(settings.workers * store.connections, limit):
            _log.warning(problem, advice=CONNECTIONS_ADVICE)


def few_connections(needed: int, limit: int) -> str:
    """What is wrong with a server that has so many connections; empty if nothing is."""
    if needed <= limit:
        return ""
    return f"this node may need {needed} connections, and the server has {limit}"


async def check_keys(
    settings: Settings, keys: ServiceKeys, clock: Clock, *, note: bool = True
) -> None:
    """Check that the store was used with one of the crypto keys, or has no users yet; with `note`
    all of them are recorded.

    :raises StartupError: no key decrypts the endpoints of its users, it is an unfinished copy, or
        it cannot be opened
    """
    engine = await open_tables(settings, clock)
    try:
        if (origin := await unfinished_copy(engine, table_plan(settings))) is not None:
            raise StartupError(
                f"{settings.store_place} is an unfinished copy of {origin}: run `autopush store "
                "copy` again, without --online, until it says that both are equal"
            )
        subject = engine, table_plan(settings), key_fingerprints(keys.crypto)
        known = await are_keys_known(*subject) if note else not await are_keys_lost(*subject)
    except StorageFull:
        return  # no space to record a key: a later start does it
    except KeytablesError as error:
        raise _startup_error(settings, error) from error
    finally:
        await engine.close()
    if not known:
        raise StartupError(_keys_lost(settings, keys))


def report_empty_file(settings: Settings) -> None:
    """Warn if the file of an embedded store is empty: it becomes a new store."""
    path = settings.store_file
    if path is None:
        return
    from keytables.sqlite.layout import lock_holders  # noqa: PLC0415 - not on DynamoDB

    with suppress(OSError):
        is_empty = os.path.getsize(path) == 0
        # A process that creates a store at this moment holds its locks.
        if is_empty and not os.path.exists(f"{path}-wal") and not lock_holders(path):
            _log.warning(
                "The file of the store is empty: it becomes a new store",
                store=settings.store_place,
                advice=EMPTY_ADVICE,
            )


def report_damage(settings: Settings) -> None:
    """Check an unclosed embedded store, for about `store_check_timeout` seconds; log its damage."""
    path = settings.store_file
    if path is None or not settings.store_check_timeout:
        return
    from keytables.sqlite import check_store  # noqa: PLC0415 - not on DynamoDB

    store, began = settings.store_place, monotonic()
    # Whatever else is wrong is reported when it is opened, which also waits for a lock.
    with suppress(Unavailable):
        if not check_store(path, timeout=0).is_unclean:
            return
        result = check_store(path, timeout=settings.store_check_timeout)
        for damage in result.damage:
            advice = LOG_ADVICE if damage in result.log_damage else DAMAGE_ADVICE
            _log.error("The store is damaged", store=store, damage=damage, advice=advice)
        seconds = round(monotonic() - began, 1)
        if not result.is_complete:
            event = "The store was not closed, and too large to be checked in the time"
            _log.warning(event, store=store, seconds=seconds, advice=INCOMPLETE_ADVICE)
        elif not result.damage:
            _log.info("The store was not closed, and is not damaged", store=store, seconds=seconds)


def parts_of_worker(index: int, workers: int) -> range:
    """The parts of a store that the worker of that index writes, however many there are."""
    return range(index, _MAX_PARTS, workers)


def divide(settings: Settings) -> None:
    """Give an embedded store as many parts as there are workers, unless that is impossible now."""
    path = settings.store_file
    if path is None or not settings.has_sockets:
        return
    from keytables.sqlite import divide_store  # noqa: PLC0415 - not on DynamoDB

    workers, began = settings.workers, monotonic()
    fields: dict[str, object] = {"store": settings.store_place, "workers": workers}

    def on_begin(parts: int) -> None:
        _log.info("Dividing the store among the workers", **fields, parts=parts)

    try:
        done = divide_store(path, workers, on_begin=on_begin)
    except Unavailable as error:
        event = "The store was not divided among the workers: it is served as it is"
        _log.warning(event, **fields, reason=str(error), advice=DIVISION_ADVICE)
    else:
        if done is not None:
            seconds = round(monotonic() - began, 1)
            _log.info("Divided the store", **fields, rows=done.rows, seconds=seconds)


async def with_notice(opening: Awaitable[T], settings: Settings) -> T:
    """Await the opening of the store; if that takes a while, log the holders of its locks."""
    task = asyncio.ensure_future(opening)
    try:
        await asyncio.wait([task], timeout=NOTICE_AFTER)
        path = settings.store_file
        if not task.done() and path is not None:
            from keytables.sqlite.layout import lock_holders  # noqa: PLC0415 - not on DynamoDB

            _log.warning(
                "Waiting for another process that has the store locked",
                store=settings.store_place,
                locked_by=lock_holders(path),
            )
        return await task
    finally:
        task.cancel()


async def _open_push_store(
    engine: Engine, settings: Settings, clock: Clock, metrics: Metrics | None = None
) -> PushStore:
    try:
        return await PushStore.open(
            engine, table_plan(settings), key_hash=settings.key_hash, clock=clock, metrics=metrics
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
    if not settings.is_embedded:  # others may use it
        return (
            f"this node has another crypto_key than {settings.store_place} was used with: that of "
            f"{place}. Copy the key of another node: its option crypto_key, or its file "
            f"{path.parent.name}/{path.name}, to {path}. If no node and no backup has it any more, "
            "all subscriptions are lost: `autopush keys accept` gives them up"
        )
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
