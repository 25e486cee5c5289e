"""Metrics in the text format of Prometheus.

Rule: a series of a metric with labels is shown once it is not zero; all other metrics always are.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.utils import floatToGoString

from autopush.telemetry.metrics import Kind, Metric, SharedMetrics

_Series = tuple[Sequence[str], Sequence[float]]
"""The values of the labels of a series that is shown, and its cells."""

NAMESPACE: Final = "autopush"
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


MAX_LINES: Final = 32
"""Of one piece, which takes a few tenths of a millisecond to render."""


def render(shared: SharedMetrics) -> Iterator[bytes]:
    """Pieces of text; together they are the response."""
    for metric in shared.table:
        series = list(_series(shared, metric))
        step = max(1, MAX_LINES // metric.width)
        yield _text(metric, series[:step])
        for start in range(step, len(series), step):
            # The library begins with two lines on the metric: those are there already.
            yield _text(metric, series[start : start + step]).split(b"\n", 2)[2]


def prometheus_name(metric: Metric) -> str:
    """The name of a metric, with its unit, and with `_total` if it is a counter."""
    name = _base_name(metric)
    return f"{name}_total" if metric.kind is Kind.COUNTER else name


class _OneFamily:
    """What the library takes for a collector."""

    def __init__(self, family: MetricFamily) -> None:
        self._family = family

    def collect(self) -> Iterable[MetricFamily]:
        return (self._family,)


def _base_name(metric: Metric) -> str:
    name = f"{NAMESPACE}_{metric.name.replace('.', '_')}"
    return f"{name}_{metric.unit}" if metric.unit else name


def _text(metric: Metric, series: Sequence[_Series]) -> bytes:
    return generate_latest(_OneFamily(_family(metric, series)))


def _family(metric: Metric, series: Sequence[_Series]) -> MetricFamily:
    name, about, labels = _base_name(metric), metric.help, list(metric.labels)
    if metric.per_worker:
        labels = ["worker"]
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if metric.kind is Kind.HISTOGRAM:
        family = HistogramMetricFamily(name, about, labels=labels)
        for values, cells in series:
            family.add_metric(values, _buckets(metric, cells), sum_value=cells[-1])
        return family
    of_kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = of_kind(name, about, labels=labels)
    for values, cells in series:
        family.add_metric(values, cells[0])
    return family


def _series(shared: SharedMetrics, metric: Metric) -> Iterator[_Series]:
    if metric.per_worker:
        for worker, value in enumerate(shared.per_worker(metric)):
            yield [str(worker)], [value]
        return
    cells, width = shared.total(metric), metric.width
    for number, labels in enumerate(metric.series()):
        of_series = cells[number * width : (number + 1) * width]
        if not labels or any(of_series):
            yield list(labels.values()), of_series


def _buckets(metric: Metric, cells: Sequence[float]) -> list[tuple[str, float]]:
    """Upper bounds, and how many values are up to each of them."""
    bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
    return list(zip(bounds, accumulate(cells[:-1]), strict=True))
