"""Metrics of one worker, and what was recorded with them."""

from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import Metric, Metrics, SharedMetrics


def new_metrics(workers: int = 1) -> Metrics:
    """The metrics of the first of so many workers."""
    return SharedMetrics(METRICS, workers).of_worker(0)


def recorded(metrics: Metrics, metric: Metric, **labels: str) -> float:
    """The value of a counter or gauge: the sum over all series that have these labels."""
    cells = metrics.shared.total(metric)
    return sum(
        value
        for value, series in zip(cells, metric.series(), strict=True)
        if labels.items() <= series.items()
    )
