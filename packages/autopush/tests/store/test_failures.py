"""Failures of the store are counted by kind, and each is in the log."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from autopush.store.failures import REPORT_INTERVAL, FailureKind, StoreFailures, kind_of
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
from support.recorded import new_metrics, recorded

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
