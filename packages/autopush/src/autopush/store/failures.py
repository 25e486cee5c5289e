"""Failures of the store: of which kind each is, how many there were, and a line in the log.

Rule: every failure is in the log, whoever else has seen it: the first of a kind at once, those
after it as a number, once a minute at most.
"""

import time
from collections.abc import Callable
from enum import Enum
from typing import Final

from autopush.telemetry import logs
from autopush.telemetry.metric_table import STORE_FAILURES
from autopush.telemetry.metrics import Metrics
from keytables import AccessRefused, KeytablesError, StorageFull, StoreDamaged, Throttled

REPORT_INTERVAL: Final = 60.0
"""Seconds between two lines about failures of one kind."""

_log: Final = logs.get(__name__)


class FailureKind(Enum):
    """The kinds of failures: the label of the metric, and what the operator is to do."""

    FULL = "full", "make space on the disk of the store"
    DAMAGED = "damaged", "run autopush check, which says what is damaged and what to do"
    IO = "io", "the disk of the store has an error: see the log of the kernel"
    BUSY = "busy", "the store is overloaded, or another process keeps it locked"
    REFUSED = "refused", "the service needs the right that is named"
    UNAVAILABLE = "unavailable", "see whether the database runs and can be reached"

    def __init__(self, label: str, advice: str) -> None:
        self.label = label
        self.advice = advice


def kind_of(error: KeytablesError) -> FailureKind:
    """The kind of a failure."""
    if isinstance(error, StorageFull):
        return FailureKind.FULL
    if isinstance(error, Throttled):
        return FailureKind.BUSY
    if isinstance(error, AccessRefused):
        return FailureKind.REFUSED
    if isinstance(error, StoreDamaged):
        return FailureKind.DAMAGED
    return FailureKind.IO if "IOError" in str(error) else FailureKind.UNAVAILABLE


class StoreFailures:
    """Those that one worker has seen. `note` is what its engine calls."""

    def __init__(
        self, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._counters = {
            kind: metrics.counter(STORE_FAILURES, kind=kind.label) for kind in FailureKind
        }
        self._unreported: dict[FailureKind, tuple[int, str]] = {}
        self._reported_at: dict[FailureKind, float] = {}

    def note(self, error: KeytablesError) -> None:
        """Count a failure; log it, unless one of its kind was logged within the last minute."""
        kind = kind_of(error)
        self._counters[kind].add()
        count, _ = self._unreported.get(kind, (0, ""))
        self._unreported[kind] = (count + 1, str(error))
        self._report(kind)

    def report(self) -> None:
        """Log what was counted and is due by now; to be called every few seconds."""
        for kind in tuple(self._unreported):
            self._report(kind)

    def _report(self, kind: FailureKind) -> None:
        now = self._monotonic()
        reported_at = self._reported_at.get(kind)
        if reported_at is not None and now - reported_at < REPORT_INTERVAL:
            return
        count, reason = self._unreported.pop(kind)
        self._reported_at[kind] = now
        _log.error(
            "The store failed", kind=kind.label, reason=reason, failures=count, advice=kind.advice
        )
