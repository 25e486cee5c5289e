"""The table of metrics: exporters, dashboards and the reference of the documentation follow it.

Names and labels are those of the original and of its successor where they have the metric. A metric
that nothing records, or that the documentation does not have, fails the tests.
"""

from typing import Final

from .metrics import Kind, Metric

METRICS: Final[list[Metric]] = []
"""All of them, in the order of the documentation."""


def _counter(name: str, about: str, unit: str = "", **labels: tuple[str, ...]) -> Metric:
    return _add(Metric(name, Kind.COUNTER, about, labels, unit=unit))


def _gauge(name: str, about: str, unit: str = "", **labels: tuple[str, ...]) -> Metric:
    return _add(Metric(name, Kind.GAUGE, about, labels, unit=unit))


def _histogram(
    name: str, about: str, unit: str, buckets: tuple[float, ...], **labels: tuple[str, ...]
) -> Metric:
    return _add(Metric(name, Kind.HISTOGRAM, about, labels, buckets, unit))


def _add(metric: Metric) -> Metric:
    METRICS.append(metric)
    return metric


# ── The service ───────────────────────────────────────────────────────────────────────────────────

WORKER_READY: Final = _gauge("worker.ready", "workers that serve")

# ── User agents: recorded by the connection node ──────────────────────────────────────────────────

CONNECTIONS: Final = _gauge("ua.connections", "WebSockets that are open, identified or not")

# ── Application servers: recorded by the endpoint ─────────────────────────────────────────────────

# ── Bridges ───────────────────────────────────────────────────────────────────────────────────────

# ── Between nodes, and the store ──────────────────────────────────────────────────────────────────
