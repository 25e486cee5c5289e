"""The check at start: it reports what does not work, and leaves nothing behind."""

import pytest

from autopush.store.preflight import LIFETIME, UAID_PREFIX, PreflightFailed, preflight
from autopush.store.tables import TablePlan, message_table, router_table, storage_table
from keytables import AccessRefused, Engine, Throttled
from support import engines
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine

PLAN = TablePlan(message="message", rotating=True)
MONTH = "message_2027_01"
CALLS = {
    "put": "PutItem",
    "get": "GetItem",
    "update": "UpdateItem",
    "delete": "DeleteItem",
    "query": "Query",
    "query_index": "Query",
    "batch_get": "BatchGetItem",
    "batch_write": "BatchWriteItem",
}
USED = [
    *((call, "storage") for call in ("put", "query", "get", "delete", "batch_write")),
    *((call, MONTH) for call in ("put", "update", "get", "query", "delete", "batch_write")),
    *((call, "router") for call in ("update", "get", "batch_get", "query_index", "delete")),
]


engine = engines.engine_fixture(engines.NAMES)


@pytest.fixture
async def guarded(clock: ManualClock) -> MemoryEngine:
    engine = MemoryEngine(clock)
    for table in (router_table("router"), message_table(MONTH), storage_table("storage")):
        await engine.ensure_table(table)
    return engine


def refuse(engine: MemoryEngine, table: str, *calls: str) -> None:
    """Refuse these calls, as a database does for want of a right."""

    def on_call(what: str) -> None:
        for call in calls:
            if what == f"{call} {table}":
                raise AccessRefused(CALLS[call], table)

    engine.on_call = on_call


async def check(engine: Engine, clock: ManualClock, key_hash: str = "") -> None:
    await preflight(engine, PLAN, current=MONTH, key_hash=key_hash, clock=clock)


async def rows(engine: Engine) -> list[object]:
    found: list[object] = []
    for table in (router_table("router"), message_table(MONTH), storage_table("storage")):
        found += (await (await engine.ensure_table(table)).scan()).items
    return found


@pytest.mark.parametrize("key_hash", ["", "a key"])
async def test_with_all_permissions_it_passes_and_leaves_nothing(
    engine: Engine, clock: ManualClock, key_hash: str
) -> None:
    await check(engine, clock, key_hash)
    assert await rows(engine) == []


async def test_two_checks_at_once_do_not_interfere(engine: Engine, clock: ManualClock) -> None:
    import asyncio

    await asyncio.gather(*(check(engine, clock) for _ in range(3)))
    assert await rows(engine) == []


async def test_its_uaid_is_recognisable_and_has_the_usual_length(
    guarded: MemoryEngine, clock: ManualClock
) -> None:
    refuse(guarded, "router", "delete", "batch_write")
    with pytest.raises(PreflightFailed):
        await check(guarded, clock)
    [(uaid,)] = guarded.tables["router"].items
    assert str(uaid).startswith(UAID_PREFIX)
    assert len(str(uaid)) == 32


@pytest.mark.parametrize(("call", "table"), USED)
async def test_a_missing_permission_is_named_and_nothing_is_left(
    guarded: MemoryEngine, clock: ManualClock, call: str, table: str
) -> None:
    refuse(guarded, table, call)
    with pytest.raises(PreflightFailed) as failed:
        await check(guarded, clock)
    text = str(failed.value)
    assert f"{CALLS[call]} is refused" in text
    assert f"the right dynamodb:{CALLS[call]} on table {table}" in text
    assert ("/index/AccessIndex" in text) is (call == "query_index")
    assert "\n" not in text
    assert await rows(guarded) == []


@pytest.mark.parametrize("table", ["router", MONTH])
async def test_rows_that_may_not_be_deleted_expire(
    guarded: MemoryEngine, clock: ManualClock, table: str
) -> None:
    refuse(guarded, table, "delete", "batch_write")
    with pytest.raises(PreflightFailed):
        await check(guarded, clock)
    assert await rows(guarded)
    clock.advance(LIFETIME + 1)
    assert await rows(guarded) == []


async def test_any_other_failure_names_the_call_and_the_table(
    guarded: MemoryEngine, clock: ManualClock
) -> None:
    guarded.failures = [Throttled("too busy")]
    with pytest.raises(PreflightFailed, match="PutItem on table storage failed: too busy"):
        await check(guarded, clock)


async def test_a_read_that_differs_from_what_was_written_is_a_failure(
    guarded: MemoryEngine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> None:
        return None

    monkeypatch.setattr(guarded.tables["router"], "get", nothing)
    with pytest.raises(PreflightFailed, match="GetItem on table router does not return"):
        await check(guarded, clock)
    assert await rows(guarded) == []
