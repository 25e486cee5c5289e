"""Metrics in the text format of Prometheus: the sums of all workers, whichever one is asked."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.utils import floatToGoString

from autopush.telemetry.metrics import NAMESPACE, Kind, Metric, SharedMetrics

PROMETHEUS_TYPE: Final = CONTENT_TYPE_LATEST
MAX_LINES: Final = 32
"""Lines of one chunk, which takes a few tenths of a millisecond to render."""

_Series = tuple[Sequence[str], Sequence[float]]
"""Label values and cells of a series."""


def prometheus_text(shared: SharedMetrics) -> Iterator[bytes]:
    """The metrics of all workers, in chunks; a series with labels is left out while it is zero."""
    for metric in shared.table:
        series = list(_series(shared, metric))
        step = max(1, MAX_LINES // metric.width)
        yield _text(metric, series[:step])
        for start in range(step, len(series), step):
            # Without the two header lines, which the first chunk has.
            yield _text(metric, series[start : start + step]).split(b"\n", 2)[2]


def prometheus_name(metric: Metric) -> str:
    """With the unit, and with `_total` for a counter."""
    name = _base_name(metric)
    return f"{name}_total" if metric.kind is Kind.COUNTER else name


class _OneFamily:
    """A collector, as the library expects it."""

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
    """Upper bounds with cumulative counts."""
    bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
    return list(zip(bounds, accumulate(cells[:-1]), strict=True))
