"""The table of metrics is complete and consistent."""

import ast
from collections import Counter

from autopush.delivery.bridged import REASONS
from autopush.settings import OPTIONS
from autopush.telemetry import metric_table
from autopush.telemetry.metric_table import BRIDGE_REASONS, BRIDGES, ERRNOS, METRICS, REFUSED_CODES
from autopush.telemetry.metrics import Kind, Metric
from autopush.telemetry.prometheus import prometheus_name
from autopush.webpush.errors import ERRORS
from support.paths import PACKAGES

SOURCE = PACKAGES / "autopush" / "src" / "autopush"
CONSTANTS = {name: value for name, value in vars(metric_table).items() if isinstance(value, Metric)}


def used_names() -> set[str]:
    """What the modules other than the table name, other than to import it."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        if path.name != "metric_table.py":
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Name):
                    names.add(node.id)
                elif isinstance(node, ast.Attribute):
                    names.add(node.attr)
    return names


def test_every_metric_is_a_constant_which_some_module_records_or_a_sum() -> None:
    assert sorted(metric.name for metric in METRICS) == sorted(
        metric.name for metric in CONSTANTS.values()
    )
    sums = {name for name, metric in CONSTANTS.items() if metric.sums}
    assert CONSTANTS.keys() - used_names() == sums
    for name in sums:
        metric = CONSTANTS[name]
        assert metric.kind is Kind.COUNTER
        assert metric.sums.keys() == set(next(iter(metric.labels.values()), ("",)))
        for part in (part for parts in metric.sums.values() for part in parts):
            assert part.metric in METRICS[: METRICS.index(metric)]
            assert part.metric.kind is Kind.COUNTER
            assert not part.metric.sums
            assert list(part.places()), "labels that it has"


def test_no_name_occurs_twice() -> None:
    for names in (
        [metric.name for metric in METRICS],
        [prometheus_name(metric) for metric in METRICS],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_metric_says_what_it_is() -> None:
    for metric in METRICS:
        assert metric.help, metric
        assert not metric.help.endswith("."), metric
        assert metric.unit in ("", "seconds", "bytes"), metric
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM), metric
        assert all(len(set(values)) == len(values) > 1 for values in metric.labels.values()), metric
        is_single = not metric.labels and metric.kind is not Kind.HISTOGRAM
        assert is_single or not metric.per_worker, metric


def test_no_label_is_of_a_host_or_a_client() -> None:
    """Their values would not be a closed set. (`uaid` says whether one is new.)"""
    labels = {label for metric in METRICS for label in metric.labels}
    assert not labels & {"host", "hostname", "user_agent", "channel", "application"}


def test_every_bridge_has_a_label() -> None:
    assert {row.bridge for row in OPTIONS if row.bridge} <= set(BRIDGES)


def test_every_reason_of_a_bridge_is_of_an_error_and_in_the_table() -> None:
    assert REASONS.keys() <= ERRORS.keys()
    assert set(REASONS.values()) < set(BRIDGE_REASONS)


def test_every_status_that_a_push_may_be_refused_with_has_a_label() -> None:
    assert {str(kind.status) for kind in ERRORS.values()} <= set(REFUSED_CODES)


def test_every_errno_has_a_label() -> None:
    assert sorted(ERRNOS) == sorted(f"{errno:d}" for errno in ERRORS)
