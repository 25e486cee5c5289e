"""Opening the store that the settings name.

Rule: whatever is wrong with it is one line that names the store and holds no secret.
"""

from autopush.clock import Clock
from autopush.settings import Settings, StartupError
from autopush.store import PushStore, TablePlan
from autopush.store.preflight import PreflightFailed, preflight
from keytables import Capacity, Engine, KeytablesError
from keytables.stores import open_engine


def table_plan(settings: Settings) -> TablePlan:
    """Which tables there are to be, and what they may use up."""
    return TablePlan(
        router=settings.router_tablename,
        storage=settings.storage_tablename,
        message=settings.message_tablename,
        rotating=settings.rotates,
        router_capacity=_capacity(settings, "router"),
        storage_capacity=_capacity(settings, "storage"),
        message_capacity=_capacity(settings, "message"),
    )


def _capacity(settings: Settings, table: str) -> Capacity | None:
    units = settings.units(table)
    return None if units is None else Capacity(*units)


async def open_tables(settings: Settings, clock: Clock) -> Engine:
    """Open the engine, for what works on tables without being the service.

    :raises StartupError: it cannot be opened
    """
    try:
        return await open_engine(settings.store_url, clock=clock)
    except ValueError as error:  # of a URL that is not to be shown, then
        raise StartupError(f"store: {error}") from error
    except KeytablesError as error:
        raise _refused(settings, error) from error


async def open_store(settings: Settings, clock: Clock) -> PushStore:
    """Open the store, and make the tables that are missing.

    :raises StartupError: it cannot be opened
    """
    engine = await open_tables(settings, clock)
    try:
        return await _open_on(engine, settings, clock)
    except BaseException:
        await engine.close()
        raise


async def check_store(settings: Settings, clock: Clock) -> None:
    """Open the store and try every operation that the service needs, once for all workers.

    :raises StartupError: it cannot be opened, or one of them does not work
    """
    engine = await open_tables(settings, clock)
    try:
        store = await _open_on(engine, settings, clock)
        await preflight(
            engine,
            store.plan,
            current=store.current.name,
            key_hash=settings.key_hash,
            clock=clock,
        )
    except PreflightFailed as error:
        raise StartupError(f"{settings.store_place}: {error}") from error
    finally:
        await engine.close()


async def _open_on(engine: Engine, settings: Settings, clock: Clock) -> PushStore:
    try:
        return await PushStore.open(
            engine, table_plan(settings), key_hash=settings.key_hash, clock=clock
        )
    except KeytablesError as error:
        raise _refused(settings, error) from error


def _refused(settings: Settings, error: KeytablesError) -> StartupError:
    return StartupError(f"cannot open the store {settings.store_place}: {error}")
