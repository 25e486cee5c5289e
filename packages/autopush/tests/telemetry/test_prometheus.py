"""The text format, as Prometheus's own library reads it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import Kind, Metric, SharedMetrics
from autopush.telemetry.prometheus import prometheus_name, prometheus_text

COUNTER = Metric("some.bytes.read", Kind.COUNTER, "how much", {"of": ("a", 'b"\\')}, unit="bytes")
GAUGE = Metric("a.gauge", Kind.GAUGE, "now\nand here")
HISTOGRAM = Metric("duration", Kind.HISTOGRAM, "how long", {}, (0.5, 2.0), "seconds")
OF_PROCESS = Metric("cpu", Kind.COUNTER, "used", unit="seconds", per_worker=True)
TABLE = [COUNTER, GAUGE, HISTOGRAM, OF_PROCESS]

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def read(shared: SharedMetrics) -> Samples:
    """Every sample by name and labels."""
    text = b"".join(prometheus_text(shared)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_was_recorded_is_read_back() -> None:
    shared = SharedMetrics(TABLE, 2)
    for worker in range(2):
        metrics = shared.of_worker(worker)
        metrics.counter(COUNTER, of='b"\\').add(2.5)
        metrics.gauge(GAUGE).set(-3)
        metrics.counter(OF_PROCESS).add(worker)
        for value in (0.5, 0.6, 7):
            metrics.histogram(HISTOGRAM).observe(value)
    assert read(shared) == {
        ("autopush_some_bytes_read_bytes_total", (("of", 'b"\\'),)): 5,
        ("autopush_a_gauge", ()): -6,
        ("autopush_duration_seconds_bucket", (("le", "0.5"),)): 2,
        ("autopush_duration_seconds_bucket", (("le", "2.0"),)): 4,
        ("autopush_duration_seconds_bucket", (("le", "+Inf"),)): 6,
        ("autopush_duration_seconds_count", ()): 6,
        ("autopush_duration_seconds_sum", ()): pytest.approx(16.2),
        ("autopush_cpu_seconds_total", (("worker", "0"),)): 0,
        ("autopush_cpu_seconds_total", (("worker", "1"),)): 1,
    }


@given(st.floats(0, 1e15))
def test_a_value_is_read_back_exactly(value: float) -> None:
    shared = SharedMetrics([GAUGE], 1)
    shared.of_worker(0).gauge(GAUGE).set(value)
    assert read(shared) == {("autopush_a_gauge", ()): value}


def test_of_a_metric_with_labels_only_series_that_are_not_zero_are_shown() -> None:
    shared = SharedMetrics(METRICS, 1)
    names = {name for name, _ in read(shared)}
    for metric in METRICS:
        name = prometheus_name(metric)
        name += "_count" if metric.kind is Kind.HISTOGRAM else ""
        assert (name in names) == (not metric.labels), name


def test_the_whole_table_can_be_read() -> None:
    shared = SharedMetrics(METRICS, 1)
    metrics = shared.of_worker(0)
    for metric in METRICS:
        for labels in metric.series():
            match metric.kind:
                case Kind.COUNTER:
                    metrics.counter(metric, **labels).add()
                case Kind.GAUGE:
                    metrics.gauge(metric, **labels).set(1)
                case Kind.HISTOGRAM:
                    metrics.histogram(metric, **labels).observe(1)
    samples = read(shared)
    for metric in METRICS:
        name = prometheus_name(metric)
        name += "_count" if metric.kind is Kind.HISTOGRAM else ""
        of_metric = [labels for found, labels in samples if found == name]
        assert len(of_metric) == len(list(metric.series())), name
