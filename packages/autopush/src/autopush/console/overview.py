"""What the page Now shows: sums of the memory that all workers share, and what workers say when
they are asked.

Rule: but for its sender's key, nothing is counted for the console while a push is handled. While
nobody looks, it costs a sample of the history every ten seconds.
"""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from autopush.api.senders import SendersPage
from autopush.clock import Clock, until_next
from autopush.console.history import INTERVAL, History, quantile
from autopush.delivery.bridged import CircuitState
from autopush.jobs import repeat
from autopush.net.siblings import PREDECESSOR, Port, Siblings
from autopush.settings import Settings
from autopush.store.inspection import StoredMessages
from autopush.telemetry.metric_table import (
    BRIDGE_ERROR,
    BRIDGE_SENT,
    CONNECTIONS,
    LATENCIES,
    LIMIT_REFUSED,
    LOOP_LAG,
    MESSAGE_DELETED,
    MESSAGE_EXPIRED,
    MESSAGE_RETRIEVED,
    MESSAGE_STORED,
    NOTIFICATION_ERROR,
    NOTIFICATION_RECEIVED,
    NOTIFICATION_SUCCESS,
    NOTIFICATION_TIME,
    PROCESS_CPU,
    PROCESS_MEMORY,
    REQUEST_REFUSED,
    SAVE_TIME,
    STORE_FAILURES,
    UA_NOTIFICATION_ACKED,
    UA_NOTIFICATION_SENT,
    UA_NOTIFICATION_UNUSABLE,
    WORKER_HEARTBEAT,
)
from autopush.telemetry.metrics import Metric, SharedMetrics
from autopush.telemetry.process import MISSING_AFTER, ready_workers
from autopush.version import VERSION
from keytables import KeytablesError

ASK_INTERVAL: Final = 5.0
"""Seconds between two questions to the other workers, while somebody looks."""
COUNT_INTERVAL: Final = 60.0
"""Seconds between two counts of the stored messages, while somebody looks."""
MAX_SENDERS: Final = 10
MAX_SENDERS_ASKED: Final = 100
"""Of a worker, so that the sum has those that send to many of them."""
MAX_CIRCUITS_SHOWN: Final = 20


class WorkerShare(msgspec.Struct, frozen=True):
    """What only one worker knows. `senders`: accepted messages by key, the most first."""

    circuits: list[CircuitState] = []
    senders: dict[str, int] = {}


SHARES: Final = Port[None, WorkerShare]("console", None, WorkerShare)


_COUNTERS: Final = {
    "received": NOTIFICATION_RECEIVED,
    "sent": UA_NOTIFICATION_SENT,
    "acked": UA_NOTIFICATION_ACKED,
    "unusable": UA_NOTIFICATION_UNUSABLE,
    "refused": NOTIFICATION_ERROR,
    "limited": LIMIT_REFUSED,
    "stored": MESSAGE_STORED,
    "retrieved": MESSAGE_RETRIEVED,
    "deleted": MESSAGE_DELETED,
    "expired": MESSAGE_EXPIRED,
}
_TIMES: Final = {"push_time": NOTIFICATION_TIME, "store_time": SAVE_TIME}
_RATES: Final = ("received", "sent", "acked", "refused")
_GROUPS: Final = {
    "outcomes": (NOTIFICATION_SUCCESS, "destination"),
    "refused_by_status": (NOTIFICATION_ERROR, "code"),
    "refused_by_errno": (REQUEST_REFUSED, "errno"),
    "refused_by_limit": (LIMIT_REFUSED, "limit"),
    "store_failures": (STORE_FAILURES, "kind"),
    "bridge_sent": (BRIDGE_SENT, "platform"),
    "bridge_errors": (BRIDGE_ERROR, "platform"),
}
"""Counters shown by the value of a label, and only those that have counted something."""


def _places(metric: Metric, label: str) -> Mapping[str, Sequence[int]]:
    """Offsets of the cells of each value of a label."""
    places: dict[str, list[int]] = {}
    for number, labels in enumerate(metric.series()):
        places.setdefault(labels[label], []).append(number)
    return places


@dataclass(eq=False)
class Overview:
    """`siblings`: those with an index of 0 or more are workers of this service. `clock`: epoch
    seconds. `share`: of this worker. `certificate`: as `/health` says it. `count`: the
    stored messages, at that time; None where it costs too much.
    """

    metrics: SharedMetrics
    settings: Settings
    siblings: Siblings
    senders: SendersPage | None
    share: Callable[[], WorkerShare]
    certificate: Callable[[], Mapping[str, object] | None]
    count: Callable[[float], Awaitable[StoredMessages]] | None
    clock: Clock
    _: KW_ONLY
    monotonic: Callable[[], float] = time.monotonic
    history: History = field(init=False)

    def __post_init__(self) -> None:
        levels = ("connected", "lag")
        self.history = History(_RATES, levels, dict.fromkeys(_TIMES, LATENCIES))
        self._groups = {
            name: (metric, _places(metric, label)) for name, (metric, label) in _GROUPS.items()
        }
        self._asked: dict[str, object] = {
            "senders": [],
            "busy_senders": {},
            "bridges": [],
            "unanswered": 0,
        }
        self._asked_at = float("-inf")
        self._started = self.clock()
        self._is_looked_at = asyncio.Event()
        self._counted: StoredMessages | None = None

    # ── the history ──────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Take samples, and count the stored messages for who looks, until cancelled."""

        async def sample() -> None:
            self.sample()

        await asyncio.gather(
            repeat(sample, lambda: until_next(INTERVAL, self.monotonic()), "console history"),
            repeat(self._count, lambda: COUNT_INTERVAL, "console count"),
        )

    def sample(self) -> None:
        numbers = self._numbers()
        histograms = {name: self._counts(metric) for name, metric in _TIMES.items()}
        self.history.add(self.clock(), self.monotonic(), numbers, histograms)

    def _numbers(self) -> dict[str, float]:
        numbers = {name: sum(self.metrics.total(metric)) for name, metric in _COUNTERS.items()}
        numbers["connected"] = self.metrics.total(CONNECTIONS)[0]
        numbers["lag"] = max(self.metrics.per_worker(LOOP_LAG))
        return numbers

    def _counts(self, metric: Metric) -> list[float]:
        return self.metrics.total(metric)[:-1]  # without the sum of the values

    # ── now ──────────────────────────────────────────────────────────────────────────────────────

    async def document(self) -> dict[str, object]:
        """For JSON: counts are since the start, times in seconds, sizes in bytes."""
        if self.monotonic() - self._asked_at >= ASK_INTERVAL:
            self._asked_at = self.monotonic()
            self._asked = await self._ask()
        self._is_looked_at.set()
        numbers = self._numbers()
        ready = ready_workers(self.metrics, self.monotonic())
        predecessor = self.siblings.heard(PREDECESSOR)
        return {
            "at": round(self.clock(), 3),
            "version": VERSION,
            "started": round(self._started),
            "workers_ready": ready,
            "workers_expected": self.metrics.workers,
            "workers": self._workers(),
            "upgrade": predecessor is not None,
            "connected": int(numbers.pop("connected")),
            "lag": numbers.pop("lag"),
            "counts": {name: int(number) for name, number in numbers.items()},
            **{name: self._by_label(*group) for name, group in self._groups.items()},
            "times": {name: self._quantiles(metric) for name, metric in _TIMES.items()},
            "disk": self._disk(),
            "messages": msgspec.to_builtins(self._counted),
            "messages_are_counted": self.count is not None,
            "certificate": self.certificate(),
            **self._asked,
        }

    async def _count(self) -> None:
        await self._is_looked_at.wait()
        self._is_looked_at.clear()
        if self.count is not None:
            counted = None  # while the store fails, as the page says beside it
            with suppress(KeytablesError):
                counted = await self.count(self.clock())
            self._counted = counted

    def _by_label(self, metric: Metric, places: Mapping[str, Sequence[int]]) -> dict[str, int]:
        cells = self.metrics.total(metric)
        sums = {
            value: int(sum(cells[each] for each in indexes)) for value, indexes in places.items()
        }
        return dict(sorted(((k, v) for k, v in sums.items() if v), key=lambda each: -each[1]))

    def _quantiles(self, metric: Metric) -> dict[str, float]:
        counts = self._counts(metric)
        return {
            name: round(quantile(metric.buckets, counts, share), 5)
            for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))
        }

    def _workers(self) -> list[dict[str, object]]:
        now = self.monotonic()
        columns = (CONNECTIONS, LOOP_LAG, PROCESS_CPU, PROCESS_MEMORY, WORKER_HEARTBEAT)
        values = zip(*(self.metrics.per_worker(each) for each in columns), strict=True)
        return [
            {
                "connected": int(connected),
                "lag": round(lag, 4),
                "cpu": round(cpu, 1),
                "memory": int(memory),
                "ready": now - heartbeat < MISSING_AFTER,
            }
            for connected, lag, cpu, memory, heartbeat in values
        ]

    def _disk(self) -> dict[str, object] | None:
        """None for a store on another machine."""
        if (path := self.settings.store_file) is None:
            return None
        sizes = [each.stat().st_size for each in _files(Path(path))]
        try:
            usage = shutil.disk_usage(Path(path).parent)
        except OSError:
            return None
        return {
            "free": usage.free,
            "total": usage.total,
            "store": sum(sizes),
            "refuses_below": self.settings.min_free_space,
        }

    async def _ask(self) -> dict[str, object]:
        """What only each worker knows."""
        answers = await self.siblings.ask_workers(SHARES)
        shares = [self.share(), *(answer for answer in answers if answer is not None)]
        sent = Counter[str]()
        for share in shares:
            sent.update(share.senders)
        circuits = [circuit for share in shares for circuit in share.circuits]
        circuits.sort(key=lambda each: (not each.is_open, -each.failures, each.bridge))
        report = await self.senders.report() if self.senders is not None else None
        return {
            "senders": msgspec.to_builtins(report.senders[:MAX_SENDERS]) if report else [],
            "busy_senders": dict(sent.most_common(MAX_SENDERS)),
            "bridges": msgspec.to_builtins(circuits[:MAX_CIRCUITS_SHOWN]),
            "unanswered": sum(answer is None for answer in answers),
        }


def _files(path: Path) -> list[Path]:
    return [each for each in (path, path.with_name(f"{path.name}-wal")) if each.exists()]
