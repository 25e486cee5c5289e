"""Failures of the store: what is counted and logged, and what the page of health says."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from autopush.store import PushStore
from autopush.store.failures import (
    PROBE_INTERVAL,
    REPORT_INTERVAL,
    FailureKind,
    StoreFailures,
    StoreHealth,
    TableStates,
    kind_of,
)
from autopush.telemetry.metric_table import STORE_FAILURE_KINDS, STORE_FAILURES
from keytables import (
    AccessRefused,
    KeytablesError,
    StorageFull,
    StoreDamaged,
    Throttled,
    Unavailable,
)
from support.clocks import ManualClock
from support.connection_harness import Harness
from support.gated_engine import GatedEngine
from support.memory_engine import MemoryEngine
from support.recorded import new_metrics, recorded

# ── failures ──────────────────────────────────────────────────────────────────────────────────────

IO = Unavailable("the store failed: IOError: disk I/O error")


def fields(text: str) -> list[dict[str, Any]]:
    return [json.loads(line)["Fields"] for line in text.splitlines()]


def test_the_kinds_are_those_of_the_metric() -> None:
    assert tuple(kind.label for kind in FailureKind) == STORE_FAILURE_KINDS


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StorageFull("no space"), "full"),
        (StoreDamaged("the store failed: CorruptError: malformed"), "damaged"),
        (IO, "io"),
        (Throttled("locked"), "busy"),
        (AccessRefused("PutItem", "message"), "refused"),
        (Unavailable("no answer"), "unavailable"),
    ],
)
def test_every_failure_is_counted_and_logged_as_its_kind(
    end_logs: Callable[[], str], error: KeytablesError, kind: str
) -> None:
    assert kind_of(error).label == kind
    metrics = new_metrics()
    StoreFailures(metrics).note(error)
    assert recorded(metrics, STORE_FAILURES, kind=kind) == 1
    [line] = fields(end_logs())
    assert line["level"] == "error"
    assert (line["message"], line["kind"], line["failures"]) == ("The store failed", kind, 1)
    assert line["reason"] == str(error)
    assert line["advice"] == kind_of(error).advice


def test_the_first_failure_is_logged_at_once_and_the_others_once_a_minute_with_their_number(
    end_logs: Callable[[], str],
) -> None:
    clock, metrics = ManualClock(), new_metrics()
    failures = StoreFailures(metrics, monotonic=clock)
    for _ in range(3000):
        failures.note(IO)
    failures.report()
    clock.advance(REPORT_INTERVAL)
    failures.report()
    failures.report()
    clock.advance(REPORT_INTERVAL)
    failures.report()
    failures.note(IO)
    assert [line["failures"] for line in fields(end_logs())] == [1, 2999, 1]
    assert recorded(metrics, STORE_FAILURES, kind="io") == 3001


def test_kinds_do_not_hide_each_other(end_logs: Callable[[], str]) -> None:
    failures = StoreFailures(new_metrics())
    for error in (IO, Throttled("locked"), IO, Throttled("locked")):
        failures.note(error)
    assert [line["kind"] for line in fields(end_logs())] == ["io", "busy"]


# ── health ────────────────────────────────────────────────────────────────────────────────────────

OK = {"status": "OK"}
TIMEOUT = 30


def health_of(harness: Harness) -> StoreHealth:
    return StoreHealth(harness.store, harness.metrics.shared, clock=harness.loop.time)


def not_ok(error: str) -> TableStates:
    return {"router": OK, "storage": {"status": "NOT OK", "error": error}}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StorageFull("no space left"), "Disk full (writing)"),
        (Unavailable("disk I/O error"), "Server error (writing)"),
        (Throttled("locked"), "Server error (writing)"),
    ],
)
async def test_a_store_that_can_be_read_and_not_written_is_not_ok(
    harness: Harness, error: Exception, said: str
) -> None:
    health = health_of(harness)
    harness.engine.fail("put message", error)
    assert await health.states(TIMEOUT) == not_ok(said)
    await harness.pass_time(PROBE_INTERVAL)
    assert await health.states(TIMEOUT) == {"router": OK, "storage": OK}


async def test_it_is_written_once_in_a_while_however_many_ask(harness: Harness) -> None:
    health = health_of(harness)
    harness.engine.calls.clear()
    for _ in range(3):
        await asyncio.gather(*(health.states(TIMEOUT) for _ in range(20)))
    assert harness.engine.calls.count("put message") == 1
    assert harness.engine.calls.count("get router") == 3
    await harness.pass_time(PROBE_INTERVAL)
    await health.states(TIMEOUT)
    assert harness.engine.calls.count("put message") == 2


async def test_a_write_that_does_not_end_is_said_in_time_and_not_followed_by_others(
    harness: Harness,
) -> None:
    gated = GatedEngine(harness.engine)
    harness.store = await PushStore.open(
        gated, harness.store.plan, key_hash="", clock=harness.clock
    )

    async def before(_number: int, what: str) -> None:
        if what == "put message":
            await gated.hold()

    gated.before = before
    health = health_of(harness)
    gated.start_counting()
    # The engine answers in the order of the calls, so what comes after the write waits too.
    first = await health.states(0.05)
    assert first["storage"] == {"status": "NOT OK", "error": "No answer (writing)"}
    await harness.pass_time(3 * PROBE_INTERVAL)
    await health.states(0.05)
    assert gated.calls.count("put message") == 1
    gated.release()
    await harness.run_until_idle()
    assert await health.states(TIMEOUT) == {"router": OK, "storage": OK}


async def test_what_a_probe_writes_is_no_message_and_expires(harness: Harness) -> None:
    await health_of(harness).states(TIMEOUT)
    [(key, row)] = harness.engine.tables["message"].items.items()
    assert not (await harness.store.current.read(str(key[0]), None)).messages
    assert isinstance(row["expiry"], int)
    assert harness.clock() < row["expiry"] < harness.clock() + 86_400


async def test_a_nearly_full_disk_is_not_ok_in_words_until_there_is_space(harness: Harness) -> None:
    health = health_of(harness)
    harness.engine.nearly_full = True
    said = "The disk is nearly full: new messages are refused"
    assert await health.states(TIMEOUT) == not_ok(said)
    harness.engine.nearly_full = False
    assert await health.states(TIMEOUT) == {"router": OK, "storage": OK}


async def test_why_commits_are_not_confirmed_is_said_whatever_single_calls_get(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = health_of(harness)
    monkeypatch.setattr(MemoryEngine, "trouble", "no standby")
    harness.engine.fail("put message", Throttled("no answer"))
    assert await health.states(TIMEOUT) == not_ok("no standby")


async def test_a_disk_without_space_for_messages_is_not_ok_though_the_probe_is_written(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = health_of(harness)
    with monkeypatch.context() as full:

        async def check_space() -> None:
            raise StorageFull("no space left")

        full.setattr(harness.engine, "check_space", check_space)
        assert await health.states(TIMEOUT) == not_ok("Disk full (writing)")
    assert "message" in harness.engine.tables
    await harness.pass_time(PROBE_INTERVAL)
    assert await health.states(TIMEOUT) == {"router": OK, "storage": OK}


async def test_damage_that_any_worker_has_met_stays_not_ok_though_the_tables_answer(
    harness: Harness,
) -> None:
    health = health_of(harness)
    failures = StoreFailures(harness.metrics)
    failures.note(Unavailable("the store failed: IOError: disk I/O error"))
    assert await health.states(TIMEOUT) == {"router": OK, "storage": OK}
    failures.note(StoreDamaged("the store failed: CorruptError: disk image is malformed"))
    for _ in range(2):
        said = "The store is damaged: run autopush check"
        assert await health.states(TIMEOUT) == not_ok(said)
