"""Counters, gauges and histograms of a service, in memory that its workers share.

A series is an attribute of an object in the worker that records it. The worker publishes them to
cells of its own a few times a second, and any worker reads the cells of all: what an exporter says
is true of the whole service. The cells are laid out once, from the table of metrics, before the
first worker starts; so every label has a closed set of values.

Rule: recording is an addition. It does not lock, wait or fail, so it may stand on the way of a
message and in code without I/O. (Adding to a cell directly would take twice as long.)
"""

import mmap
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from math import prod
from typing import Final, TypeVar

OTHER: Final = "other"
"""A label's value for what is in none of its other values, where the metric declares it."""

MAX_SAMPLES: Final = 10_000
"""Values of histograms that wait for an exporter; more are counted, but not kept."""

_CELL: Final = 8
"""Bytes of a cell, which is a C double."""

Labels = Mapping[str, str]


class Kind(StrEnum):
    """What a metric is, in the words of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table of metrics.

    `name`: as statsd and Datadog know it, without the namespace. `labels`: each with its values.
    `buckets`: upper bounds of a histogram, in the metric's unit. `unit`: `seconds`, `bytes` or
    none. `per_worker`: what it says is of one process, so exporters show each worker's; such a
    metric has no labels and is no histogram.
    """

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()
    unit: str = ""
    per_worker: bool = False

    @property
    def width(self) -> int:
        """Cells of one series: a histogram has one for each bucket, one for what is above, and the
        sum.
        """
        return len(self.buckets) + 2 if self.kind is Kind.HISTOGRAM else 1

    @property
    def size(self) -> int:
        """Cells of all series."""
        return self.width * prod(map(len, self.labels.values()))

    def place(self, labels: Labels) -> int:
        """The first cell of a series, from the metric's first one.

        :raises KeyError: these are not its labels, or a value is unknown and there is no `OTHER`
        """
        if labels.keys() != self.labels.keys():
            raise KeyError(f"{self.name} has the labels {list(self.labels)}, not {list(labels)}")
        place = 0
        for name, values in self.labels.items():
            value = labels[name] if labels[name] in values else OTHER
            if value not in values:
                raise KeyError(f"{self.name}: {labels[name]!r} is no value of {name}")
            place = place * len(values) + values.index(value)
        return place * self.width

    def series(self) -> Iterator[dict[str, str]]:
        """The labels of every series, in the order of their cells."""
        for values in product(*self.labels.values()):
            yield dict(zip(self.labels, values, strict=True))


class SharedMetrics:
    """The cells of all workers of a service. Made before they are forked."""

    def __init__(self, table: Sequence[Metric], workers: int) -> None:
        self.table = table
        self.workers = workers
        self._places: dict[str, int] = {}
        size = 0
        for metric in table:
            self._places[metric.name] = size
            size += metric.size
        self._size = size
        memory = mmap.mmap(-1, max(1, size * workers) * _CELL)
        self._cells = memoryview(memory).cast("B").cast("d")
        self._recorded_here: dict[int, Metrics] = {}

    def of_worker(self, index: int) -> "Metrics":
        """What the worker of that index records with, in its own process."""
        cells = self._cells[index * self._size : (index + 1) * self._size]
        metrics = self._recorded_here[index] = Metrics(self, cells, index)
        return metrics

    def place(self, metric: Metric) -> int:
        """The metric's first cell, from the first one of a worker."""
        return self._places[metric.name]

    def per_worker(self, metric: Metric) -> list[float]:
        """The value of a metric without labels in each worker, by index."""
        self._publish(metric)
        start = self.place(metric)
        return [self._cells[start + worker * self._size] for worker in range(self.workers)]

    def total(self, metric: Metric) -> list[float]:
        """All cells of a metric, in the order of `Metric.series`, summed over the workers."""
        self._publish(metric)
        start, size = self.place(metric), metric.size
        slices = [
            self._cells[start + worker * self._size :][:size] for worker in range(self.workers)
        ]
        return [sum(cells) for cells in zip(*slices, strict=True)]

    def clear_gauges(self, worker: int) -> None:
        """The worker has ended: what its gauges say is not true any more. Counters stay."""
        ended = self._recorded_here.pop(worker, None)
        if ended is not None:
            ended.publish()
        for metric in self.table:
            if metric.kind is Kind.GAUGE:
                start = self.place(metric) + worker * self._size
                for cell in range(start, start + metric.size):
                    self._cells[cell] = 0.0

    def _publish(self, metric: Metric) -> None:
        """What this process itself has recorded is true at once."""
        for metrics in self._recorded_here.values():
            metrics.publish_series(metric)


class Counter:
    """A number that only grows. Where each tenth of a microsecond counts, `value += 1` is an `add`
    at a third of its cost.
    """

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def add(self, number: float = 1.0) -> None:
        """Count so many more."""
        self.value += number


class Gauge(Counter):
    """A number that is what it is now; `add` takes negative ones too."""

    __slots__ = ()

    def set(self, number: float) -> None:
        self.value = number


_Number = TypeVar("_Number", Counter, Gauge)


class Histogram:
    """How often values fell into each bucket, and their sum."""

    __slots__ = ("_buckets", "counts", "sum")

    def __init__(self, buckets: Sequence[float], counts: list[float], total: float) -> None:
        self._buckets = buckets
        self.counts = counts
        """Of each bucket, and of what is above."""
        self.sum = total

    def observe(self, value: float) -> None:
        """Record one value, in the metric's unit."""
        self.counts[bisect_left(self._buckets, value)] += 1.0
        self.sum += value


class SampledHistogram(Histogram):
    """One that keeps the values themselves as well. `place`: its first cell."""

    __slots__ = ("_place", "_samples")

    def __init__(
        self,
        buckets: Sequence[float],
        counts: list[float],
        total: float,
        samples: list[tuple[int, float]],
        place: int,
    ) -> None:
        super().__init__(buckets, counts, total)
        self._samples = samples
        self._place = place

    def observe(self, value: float) -> None:
        super().observe(value)
        if len(self._samples) < MAX_SAMPLES:
            self._samples.append((self._place, value))


_Recorded = TypeVar("_Recorded", bound="Counter | Histogram")


class Series(dict[str | tuple[str, ...], _Recorded]):
    """The series of a metric by the value of its label, or those of its labels in the order of the
    table. One is looked up when it is first recorded; an unknown value counts as `OTHER`.
    """

    def __init__(self, metric: Metric, find: Callable[..., _Recorded]) -> None:
        super().__init__()
        self._metric = metric
        self._find = find

    def __missing__(self, key: str | tuple[str, ...]) -> _Recorded:
        labels = self._metric.labels
        values = (key,) if isinstance(key, str) else key
        found = self._find(self._metric, **dict(zip(labels, values, strict=True)))
        if all(value in known for value, known in zip(values, labels.values(), strict=True)):
            self[key] = found  # and no other: there may be any number of unknown values
        return found


def unshared_metrics(table: Sequence[Metric]) -> "Metrics":
    """Metrics that nobody reads, for a process that is no worker."""
    return SharedMetrics(table, 1).of_worker(0)


class Metrics:
    """What one worker records. A series is looked up once, and recorded to often."""

    def __init__(self, shared: SharedMetrics, cells: "memoryview[float]", worker: int) -> None:
        self.shared = shared
        self.worker = worker
        self.samples: list[tuple[int, float]] | None = None
        """The first cell of a histogram's series, and a value: kept for an exporter that needs the
        values themselves, None where there is none. To be set before histograms are looked up.
        """
        self._cells = cells
        self._series: dict[str, dict[int, Counter | Histogram]] = {}

    def counter(self, metric: Metric, **labels: str) -> "Counter":
        """A series of a counter."""
        return self._number(metric, Kind.COUNTER, Counter, labels)

    def counters(self, metric: Metric) -> "Series[Counter]":
        """The series of a counter, by the values of its labels."""
        return Series(metric, self.counter)

    def gauge(self, metric: Metric, **labels: str) -> "Gauge":
        """A series of a gauge."""
        return self._number(metric, Kind.GAUGE, Gauge, labels)

    def histogram(self, metric: Metric, **labels: str) -> "Histogram":
        """A series of a histogram."""
        series, place = self._find(metric, Kind.HISTOGRAM, labels)
        found = series.get(place)
        if found is None:
            *counts, total = self._cells[place : place + metric.width]
            if self.samples is None:
                found = Histogram(metric.buckets, counts, total)
            else:
                found = SampledHistogram(metric.buckets, counts, total, self.samples, place)
            series[place] = found
        assert isinstance(found, Histogram)
        return found

    def histograms(self, metric: Metric) -> "Series[Histogram]":
        """The series of a histogram, by the values of its labels."""
        return Series(metric, self.histogram)

    def published(self) -> list[float]:
        """All cells, in the order of the table, up to date."""
        self.publish()
        return [*self._cells]

    def publish(self) -> None:
        """Let other workers see what was recorded."""
        for series in self._series.values():
            self._publish(series)

    def publish_series(self, metric: Metric) -> None:
        """Let them see that of one metric."""
        self._publish(self._series.get(metric.name, {}))

    def _publish(self, series: Mapping[int, "Counter | Histogram"]) -> None:
        cells = self._cells
        for place, recorded in series.items():
            if isinstance(recorded, Counter):
                cells[place] = recorded.value
            else:
                numbers = array("d", (*recorded.counts, recorded.sum))
                cells[place : place + len(numbers)] = numbers

    def _number(self, metric: Metric, kind: Kind, number: type[_Number], labels: Labels) -> _Number:
        series, place = self._find(metric, kind, labels)
        found = series.get(place)
        if found is None:
            # Not from 0: a worker that takes the place of another counts on.
            value = self._cells[place]
            # Python adds whole numbers to each other in less time than to fractions.
            found = series[place] = number(int(value) if value.is_integer() else value)
        assert isinstance(found, number)
        return found

    def _find(
        self, metric: Metric, kind: Kind, labels: Labels
    ) -> tuple[dict[int, "Counter | Histogram"], int]:
        """The metric's series that were looked up so far, by their first cells, and the first cell
        of this one.
        """
        if metric.kind is not kind:
            raise TypeError(f"{metric.name} is a {metric.kind}")
        found = self._series.setdefault(metric.name, {})
        return found, self.shared.place(metric) + metric.place(labels)
