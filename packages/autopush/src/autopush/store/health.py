"""Whether the store works, for the page of health: its tables can be read, and it can be written.

Rule: however many ask, there is at most one read of each table and one write under way, and a write
every few seconds: asking costs a store that is stuck nothing more.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from autopush.protocol.effects import Row
from autopush.store.failures import FailureKind
from autopush.store.push_store import UNUSED_UAID, PushStore
from autopush.telemetry import logs
from autopush.telemetry.metric_table import STORE_FAILURES
from autopush.telemetry.metrics import SharedMetrics
from autopush.webpush.identifiers import CHANNELS_ROW
from keytables import KeytablesError, StorageFull, TableNotFound

PROBE_INTERVAL: Final = 5.0
"""Seconds between two writes."""
NEARLY_FULL: Final = "The disk is nearly full: new messages are refused"
DAMAGED: Final = "The store is damaged: run autopush check"

_log: Final = logs.get(__name__)

TableStates = dict[str, dict[str, str]]
"""By table: `{"status": "OK"}` or `{"status": "NOT OK", "error": …}`."""


class StoreHealth:
    """Looks at the store. `metrics`: what all workers have counted of its failures; `clock`: the
    monotonic one.
    """

    def __init__(
        self,
        store: PushStore,
        metrics: SharedMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._looking: asyncio.Future[TableStates] | None = None
        self._write: asyncio.Future[None] | None = None
        self._write_again_at = 0.0

    async def states(self, seconds: float) -> TableStates:
        """The states of the router table, and of those of messages and versions together. Each call
        of the store has so many seconds.
        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look(seconds))
        return await asyncio.shield(self._looking)

    async def _look(self, seconds: float) -> TableStates:
        router, storage, written = await asyncio.gather(
            _error(self._store.users.get(UNUSED_UAID), seconds),
            _error(self._read_storage(), seconds),
            _error(self._write_row(), seconds),
        )
        if written:
            written = f"{written} (writing)"
        storage = storage or written or self._lasting()
        return {self._store.users.name: _state(router), "storage": _state(storage)}

    async def _read_storage(self) -> None:
        await self._store.current.channels(UNUSED_UAID)
        await self._store.versions.find(UNUSED_UAID, Row(CHANNELS_ROW, None))

    async def _write_row(self) -> None:
        write = self._write
        if write is None or (write.done() and self._clock() >= self._write_again_at):
            self._write_again_at = self._clock() + PROBE_INTERVAL
            write = self._write = asyncio.ensure_future(self._store.probe())
        await asyncio.wait([write])
        write.result()

    def _lasting(self) -> str:
        """What stays wrong although single calls succeed."""
        if self._store.is_nearly_full:
            return NEARLY_FULL
        counts = self._metrics.total(STORE_FAILURES)
        series = [labels["kind"] for labels in STORE_FAILURES.series()]
        is_damaged = counts[series.index(FailureKind.DAMAGED.label)] > 0
        return DAMAGED if is_damaged else ""


def _state(error: str) -> dict[str, str]:
    return {"status": "NOT OK", "error": error} if error else {"status": "OK"}


async def _error(call: Awaitable[object], seconds: float) -> str:
    """What is wrong with a call of the store, empty if it succeeds."""
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
