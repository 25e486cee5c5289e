"""Counters, gauges and histograms, in memory that the workers of a service share.

A worker records to plain attributes and copies them to cells of its own every second;
adding to a cell directly would take twice as long. Any worker reads the cells of all, so an
exporter reports the whole service. The cells are laid out from the table of metrics before the
first worker starts; so every label has a closed set of values.

Rule: recording is an addition that never locks, waits or fails, so it may stand in hot paths and in
code without I/O.
"""

import mmap
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import product
from math import prod
from typing import Final, TypeVar

NAMESPACE: Final = "autopush"
"""First part of the name of every metric, for all exporters."""
OTHER: Final = "other"
"""A label's value for unlisted values, if the metric declares it."""

MAX_SAMPLES: Final = 10_000
"""Histogram values kept for an exporter; more are only counted."""

_CELL: Final = 8
"""Bytes of a cell, a C double."""

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """The series of a counter with these labels, whichever others they have."""

    metric: "Metric"
    labels: Labels = field(default_factory=dict)

    def places(self) -> Iterator[int]:
        """Offsets of their cells from the metric's first one."""
        for number, labels in enumerate(self.metric.series()):
            if self.labels.items() <= labels.items():
                yield number * self.metric.width


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """`name`: in statsd and Datadog, without the namespace. `labels`: each with its values.
    `buckets`: upper bounds of a histogram, in `unit`. `unit`: `seconds`, `bytes` or none.
    `per_worker`: of one process, shown for each worker; such a metric has no labels and is no
    histogram. `sums`: of a counter that nobody records, what each of its series is the sum of, by
    the value of its only label; "" without one.
    """

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()
    unit: str = ""
    per_worker: bool = False
    sums: Mapping[str, Sequence[Part]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Cells of a series: a histogram has one per bucket, one for larger values, and the sum."""
        return len(self.buckets) + 2 if self.kind is Kind.HISTOGRAM else 1

    @property
    def size(self) -> int:
        return self.width * prod(map(len, self.labels.values()))

    def place(self, labels: Labels) -> int:
        """Offset of a series' first cell from the metric's first one.

        :raises KeyError: wrong labels, or an unknown value without `OTHER`
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


Layout = tuple[int, Mapping[str, int], Mapping[int, Sequence[int]]]


@cache
def _layout(table: tuple[Metric, ...]) -> Layout:
    """The number of cells of a worker; the place of each metric, by its name; and the places that
    are sums of others when they are read, with those.
    """
    places: dict[str, int] = {}
    size = 0
    for metric in table:
        places[metric.name] = size
        size += metric.size
    sums = {
        places[metric.name] + number: [
            places[part.metric.name] + place
            for part in metric.sums[next(iter(labels.values()), "")]
            for place in part.places()
        ]
        for metric in table
        if metric.sums
        for number, labels in enumerate(metric.series())
    }
    return size, places, sums


class SharedMetrics:
    """The cells of all workers; to be created before they are forked."""

    def __init__(self, table: Sequence[Metric], workers: int) -> None:
        self.table = table
        self.workers = workers
        self._size, self._places, self.sums = _layout(tuple(table))
        memory = mmap.mmap(-1, max(1, self._size * workers) * _CELL)
        self._cells = memoryview(memory).cast("B").cast("d")
        self._recorded_here: dict[int, Metrics] = {}

    def of_worker(self, index: int) -> "Metrics":
        """What that worker records with, in its own process."""
        cells = self._cells[index * self._size : (index + 1) * self._size]
        metrics = self._recorded_here[index] = Metrics(self, cells, index)
        return metrics

    def place(self, metric: Metric) -> int:
        """Offset of the metric's first cell from the first one of a worker."""
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
        firsts = range(0, self.workers * self._size, self._size)
        if metric.sums:
            parts = [self.sums[place] for place in range(start, start + size)]
            return [
                sum(self._cells[first + each] for first in firsts for each in part)
                for part in parts
            ]
        slices = [self._cells[first + start :][:size] for first in firsts]
        return [sum(cells) for cells in zip(*slices, strict=True)]

    def clear_gauges(self, worker: int) -> None:
        """Zero the gauges of a worker that has ended; counters stay."""
        ended = self._recorded_here.pop(worker, None)
        if ended is not None:
            ended.publish()
        for metric in self.table:
            if metric.kind is Kind.GAUGE:
                start = self.place(metric) + worker * self._size
                for cell in range(start, start + metric.size):
                    self._cells[cell] = 0.0

    def _publish(self, metric: Metric) -> None:
        """Bring the cells of this process itself up to date."""
        for metrics in self._recorded_here.values():
            metrics.publish_series(metric)


class Counter:
    """Only grows. In hot paths use `value += 1`, at a third of the cost of `add`."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def add(self, number: float = 1.0) -> None:
        self.value += number


class Gauge(Counter):
    """A current value; `add` takes negative numbers too."""

    __slots__ = ()

    def set(self, number: float) -> None:
        self.value = number


_Number = TypeVar("_Number", Counter, Gauge)


class Histogram:
    """Counts per bucket, and the sum of the values."""

    __slots__ = ("_buckets", "counts", "sum")

    def __init__(self, buckets: Sequence[float], counts: list[float], total: float) -> None:
        self._buckets = buckets
        self.counts = counts
        """One per bucket, and one for larger values."""
        self.sum = total

    def observe(self, value: float) -> None:
        """`value` is in the metric's unit."""
        self.counts[bisect_left(self._buckets, value)] += 1.0
        self.sum += value


class SampledHistogram(Histogram):
    """Also keeps the values themselves. `place`: its first cell."""

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
    """The series of a metric by label value, or by the tuple of values in the order of the table;
    looked up at first use. An unknown value counts as `OTHER`.
    """

    def __init__(self, metric: Metric, find: Callable[..., _Recorded]) -> None:
        super().__init__()
        self._metric = metric
        self._find = find

    def __missing__(self, key: str | tuple[str, ...]) -> _Recorded:
        labels = self._metric.labels
        values = (key,) if isinstance(key, str) else key
        recorded = self._find(self._metric, **dict(zip(labels, values, strict=True)))
        if all(value in known for value, known in zip(values, labels.values(), strict=True)):
            self[key] = recorded  # not unknown values: there may be any number
        return recorded


def unshared_metrics(table: Sequence[Metric]) -> "Metrics":
    """Metrics for a process that is not a worker; nobody reads them."""
    return SharedMetrics(table, 1).of_worker(0)


class Metrics:
    """What one worker records. Look a series up once and keep it."""

    def __init__(self, shared: SharedMetrics, cells: "memoryview[float]", worker: int) -> None:
        self.shared = shared
        self.worker = worker
        self.samples: list[tuple[int, float]] | None = None
        """First cells of histogram series, each with a value, for an exporter that needs the
        values; else None. To be set before histograms are looked up.
        """
        self._cells = cells
        self._series: dict[str, dict[int, Counter | Histogram]] = {}

    def counter(self, metric: Metric, **labels: str) -> "Counter":
        return self._number(metric, Kind.COUNTER, Counter, labels)

    def counters(self, metric: Metric) -> "Series[Counter]":
        return Series(metric, self.counter)

    def gauge(self, metric: Metric, **labels: str) -> "Gauge":
        return self._number(metric, Kind.GAUGE, Gauge, labels)

    def histogram(self, metric: Metric, **labels: str) -> "Histogram":
        series, place = self._find(metric, Kind.HISTOGRAM, labels)
        histogram = series.get(place)
        if histogram is None:
            *counts, total = self._cells[place : place + metric.width]
            if self.samples is None:
                histogram = Histogram(metric.buckets, counts, total)
            else:
                histogram = SampledHistogram(metric.buckets, counts, total, self.samples, place)
            series[place] = histogram
        assert isinstance(histogram, Histogram)
        return histogram

    def histograms(self, metric: Metric) -> "Series[Histogram]":
        return Series(metric, self.histogram)

    def published(self) -> list[float]:
        """All cells, up to date, in the order of the table."""
        self.publish()
        cells = [*self._cells]
        for place, parts in self.shared.sums.items():
            cells[place] = sum(cells[part] for part in parts)
        return cells

    def publish(self) -> None:
        """Copy what was recorded to the shared cells."""
        for series in self._series.values():
            self._publish(series)

    def publish_series(self, metric: Metric) -> None:
        if metric.sums:
            self.publish()
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
        recorded = series.get(place)
        if recorded is None:
            # Not from 0: a replacement worker continues the counts.
            value = self._cells[place]
            # Python adds ints faster than floats.
            recorded = series[place] = number(int(value) if value.is_integer() else value)
        assert isinstance(recorded, number)
        return recorded

    def _find(
        self, metric: Metric, kind: Kind, labels: Labels
    ) -> tuple[dict[int, "Counter | Histogram"], int]:
        """The metric's known series by first cell, and the first cell of this one."""
        if metric.kind is not kind:
            raise TypeError(f"{metric.name} is a {metric.kind}")
        series = self._series.setdefault(metric.name, {})
        return series, self.shared.place(metric) + metric.place(labels)
