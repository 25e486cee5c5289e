"""Failures and health of the store, for the log, the metrics and the health page.

Rule: however many callers ask for the health, at most one read of each table and one write are in
progress, and a write starts every few seconds at most: a stuck store gets no more load.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Final

from autopush.store.push_store import UNUSED_UAID, PushStore
from autopush.telemetry import logs
from autopush.telemetry.metric_table import STORE_FAILURES
from autopush.telemetry.metrics import Metrics, SharedMetrics
from autopush.webpush.identifiers import CHANNELS_ROW
from autopush.webpush.stored import Row
from keytables import (
    AccessRefused,
    KeytablesError,
    OutOfReach,
    StorageFull,
    StoreDamaged,
    TableNotFound,
    Throttled,
)

REPORT_INTERVAL: Final = 60.0
"""Seconds between two log lines about failures of one kind."""

_log: Final = logs.get(__name__)


class FailureKind(Enum):
    """The kinds of failures: the label of the metric, and advice for the operator."""

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
    if isinstance(error, StorageFull):
        return FailureKind.FULL
    if isinstance(error, Throttled) and not isinstance(error, OutOfReach):
        return FailureKind.BUSY
    if isinstance(error, AccessRefused):
        return FailureKind.REFUSED
    if isinstance(error, StoreDamaged):
        return FailureKind.DAMAGED
    return FailureKind.IO if "IOError" in str(error) else FailureKind.UNAVAILABLE


class StoreFailures:
    """Counts failures; logs the first of a kind at once, then a count once a minute at most."""

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
        kind = kind_of(error)
        self._counters[kind].add()
        count, _ = self._unreported.get(kind, (0, ""))
        self._unreported[kind] = (count + 1, str(error))
        self._report(kind)

    def report(self) -> None:
        """Log the counts that are due; to be called every few seconds."""
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


# ── health ────────────────────────────────────────────────────────────────────────────────────────

PROBE_INTERVAL: Final = 5.0
"""Seconds between two probe writes."""
NEARLY_FULL: Final = "The disk is nearly full: new messages are refused"
DAMAGED: Final = "The store is damaged: run autopush check"

TableStates = dict[str, dict[str, str]]
"""By table: `{"status": "OK"}` or `{"status": "NOT OK", "error": …}`."""


@dataclass(eq=False)
class StoreHealth:
    """Tests the store. `metrics`: of all workers; `uaid`: of no user, in the part of the store to
    test; `clock`: monotonic.
    """

    store: PushStore
    metrics: SharedMetrics
    _: KW_ONLY
    uaid: str = UNUSED_UAID
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._looking: asyncio.Future[TableStates] | None = None
        self._write: asyncio.Future[None] | None = None
        self._write_again_at = 0.0

    async def states(self, seconds: float) -> TableStates:
        """By table; messages and versions are one. `seconds`: the timeout of each store call."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look(seconds))
        return await asyncio.shield(self._looking)

    async def _look(self, seconds: float) -> TableStates:
        router, storage, written = await asyncio.gather(
            _error(self.store.users.get(self.uaid), seconds),
            _error(self._read_storage(), seconds),
            _error(self._write_row(), seconds),
        )
        if written:
            written = f"{written} (writing)"
        storage = self._lasting() or storage or written
        return {self.store.users.name: _state(router), "storage": _state(storage)}

    async def _read_storage(self) -> None:
        await self.store.current.channels(self.uaid)
        await self.store.versions.find(self.uaid, Row(CHANNELS_ROW, None))

    async def _write_row(self) -> None:
        write = self._write
        if write is None or (write.done() and self.clock() >= self._write_again_at):
            self._write_again_at = self.clock() + PROBE_INTERVAL
            write = self._write = asyncio.ensure_future(self.store.probe(self.uaid))
        await asyncio.wait([write])
        write.result()

    def _lasting(self) -> str:
        """A problem that lasts, whatever becomes of single calls."""
        if self.store.engine.trouble:
            return self.store.engine.trouble
        if self.store.engine.is_nearly_full:
            return NEARLY_FULL
        counts = self.metrics.total(STORE_FAILURES)
        series = [labels["kind"] for labels in STORE_FAILURES.series()]
        is_damaged = counts[series.index(FailureKind.DAMAGED.label)] > 0
        return DAMAGED if is_damaged else ""


def _state(error: str) -> dict[str, str]:
    return {"status": "NOT OK", "error": error} if error else {"status": "OK"}


async def _error(call: Awaitable[object], seconds: float) -> str:
    """The error of a store call, empty if it succeeds."""
    try:
        async with asyncio.timeout(seconds):
            await call
    except TableNotFound:
        return "Nonexistent table"
    except StorageFull:
        return "Disk full"
    except KeytablesError:
        return "Server error"
    except TimeoutError:
        return "No answer"
    except Exception as error:  # noqa: BLE001 - the page is to say so, whatever it is
        _log.exception("Unexpected error", error=error, where="health")
        return "Internal error"
    return ""
