"""Sends metrics to a statsd server, or by another `Sender` (:mod:`~autopush.service.datadog`).

Each worker sends what it has recorded; the first one also sends the gauges summed over all workers.
Names begin with `autopush.`, labels become tags, and metrics of a process have the tag `worker`.

Rule: counts are sent until the server has taken them, as far as that can be known. An outage of
Datadog loses only the values of histograms.
"""

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from autopush.telemetry import logs
from autopush.telemetry.metrics import NAMESPACE, Kind, Metric, Metrics

STATSD_INTERVAL: Final = 1.0
"""Seconds; a statsd server sums over ten."""
MAX_DATAGRAM: Final = 1432
"""Bytes that fit into an Ethernet frame, with the headers of IP and UDP."""
STOP_TIMEOUT: Final = 2.0
"""Seconds to wait for the last request at shutdown."""

_TYPES: Final = {Kind.COUNTER: "c", Kind.GAUGE: "g", Kind.HISTOGRAM: "ms"}
"""Of statsd, where histograms are timers."""

_log = logs.get(__name__)


class Change(NamedTuple):
    """`values`: a counter's increase, a gauge's value or a histogram's new values; `rate`: the
    share of the observed values that these are.
    """

    metric: Metric
    labels: Mapping[str, str]
    values: Sequence[float]
    rate: float = 1.0

    @property
    def name(self) -> str:
        return f"{NAMESPACE}.{self.metric.name}"

    @property
    def is_distribution(self) -> bool:
        return self.metric.kind is Kind.HISTOGRAM

    @property
    def tags(self) -> list[str]:
        return [f"{name}:{value}" for name, value in self.labels.items()]

    @property
    def scaled_values(self) -> Sequence[float]:
        """`values`, with times in milliseconds."""
        if self.is_distribution and self.metric.unit == "seconds":
            return [value * 1000 for value in self.values]
        return self.values


class Changes:
    """What one worker has recorded since the last `confirm`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._series = list(_cells(metrics))
        self._sent = metrics.published()
        self._now = self._sent

    def collect(self) -> list[Change]:
        self._now = self._metrics.published()
        values = self._values()
        changes: list[Change] = []
        for place, metric, labels in self._series:
            if metric.per_worker:
                labels = {"worker": str(self._metrics.worker)}
            if metric.kind is Kind.COUNTER:
                if grown := self._now[place] - self._sent[place]:
                    changes.append(Change(metric, labels, [grown]))
            elif metric.kind is Kind.HISTOGRAM and (kept := values.get(place)):
                buckets = slice(place, place + metric.width - 1)
                observed = sum(self._now[buckets]) - sum(self._sent[buckets])
                changes.append(Change(metric, labels, kept, min(1.0, len(kept) / observed)))
        return changes + self._gauges()

    def confirm(self) -> None:
        """The changes that `collect` returned last were delivered."""
        self._sent = self._now

    def _values(self) -> dict[int, list[float]]:
        values: dict[int, list[float]] = {}
        samples = self._metrics.samples or []
        for place, value in samples:
            values.setdefault(place, []).append(value)
        samples.clear()
        return values

    def _gauges(self) -> list[Change]:
        shared, worker = self._metrics.shared, self._metrics.worker
        gauges: list[Change] = []
        for metric in shared.table:
            if metric.kind is Kind.GAUGE and metric.per_worker:
                value = shared.per_worker(metric)[worker]
                gauges.append(Change(metric, {"worker": str(worker)}, [value]))
            elif metric.kind is Kind.GAUGE and worker == 0:
                values = zip(metric.series(), shared.total(metric), strict=True)
                gauges += [Change(metric, labels, [value]) for labels, value in values]
        return gauges


def _cells(metrics: Metrics) -> Iterator[tuple[int, Metric, Mapping[str, str]]]:
    for metric in metrics.shared.table:
        for labels in metric.series():
            yield metrics.shared.place(metric) + metric.place(labels), metric, labels


class SendError(Exception):
    """The server has not taken the metrics; the text says why."""


class Sender(Protocol):
    interval: float
    """Seconds between two calls."""

    async def send(self, changes: Sequence[Change]) -> None:
        """:raises OSError, SendError: the server has not taken them"""

    async def close(self) -> None: ...


class Exporter:
    """Sends what a worker records, from `start` to `stop`. To be created before histograms are."""

    def __init__(self, metrics: Metrics, sender: Sender) -> None:
        metrics.samples = []
        self._changes = Changes(metrics)
        self._sender = sender
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = logs.FailureLog(
            _log, "Metrics cannot be sent", "Metrics can be sent again"
        )

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Send what is left, for at most `STOP_TIMEOUT` seconds."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=STOP_TIMEOUT)
            self._task.cancel()
        await self._sender.close()

    async def _run(self) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._sender.interval)
            is_last = self._stopping.is_set()
            await self._send(self._changes.collect())

    async def _send(self, changes: Sequence[Change]) -> None:
        try:
            await self._sender.send([each for each in changes if not each.is_distribution])
            # Here: counts that were delivered must not be resent if the values are refused.
            self._changes.confirm()
            await self._sender.send([each for each in changes if each.is_distribution])
        except (OSError, SendError) as error:
            self._failures.failed(reason=str(error) or type(error).__name__)
        else:
            self._failures.succeeded()


class Statsd:
    """Sends DogStatsD datagrams, which statsd servers accept too."""

    interval = STATSD_INTERVAL

    def __init__(self, host: str, port: int) -> None:
        self._address = host.strip("[]"), port
        self._transport: asyncio.DatagramTransport | None = None

    async def send(self, changes: Sequence[Change]) -> None:
        """:raises OSError: the host has no address"""
        if self._transport is None or self._transport.is_closing():
            self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                asyncio.DatagramProtocol, remote_addr=await self._resolve()
            )
        for datagram in datagrams(changes):
            self._transport.sendto(datagram)

    async def _resolve(self) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)
        # IPv4 first: `localhost` may be ::1 too, where statsd servers do not listen by default, and
        # lost datagrams go unnoticed.
        addresses.sort(key=lambda entry: entry[0] != socket.AF_INET)
        host, port, *_ = addresses[0][4]
        return str(host), int(port)

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def datagrams(changes: Sequence[Change]) -> Iterator[bytes]:
    """As many lines in a datagram as fit."""
    datagram = b""
    for change in changes:
        rate = "" if change.rate == 1.0 else f"|@{change.rate:.6g}"
        tags = f"|#{','.join(change.tags)}" if change.labels else ""
        for value in change.scaled_values:
            line = f"{change.name}:{value:.10g}|{_TYPES[change.metric.kind]}{rate}{tags}".encode()
            if datagram and len(datagram) + 1 + len(line) > MAX_DATAGRAM:
                yield datagram
                datagram = b""
            datagram = datagram + b"\n" + line if datagram else line
    if datagram:
        yield datagram
