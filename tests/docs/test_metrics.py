"""The page on metrics has every metric, and its queries name metrics that exist."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from docs._ext import pages
from prometheus_client.parser import text_string_to_metric_families

from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import Kind, SharedMetrics
from autopush.telemetry.prometheus import prometheus_text
from support.cases import cases
from support.paths import ROOT

PAGE = pages.fill((ROOT / "docs" / "metrics.md").read_text("utf-8"))
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [found["text"] for found in BLOCK.finditer(PAGE) if found["kind"] == kind]


def expressions(document: Any) -> Iterator[str]:
    for group in document.get("groups", ()):
        for rule in group["rules"]:
            yield rule["expr"]


EXPRESSIONS = [
    *(query for block in blocks("promql") for query in block.split("\n\n")),
    *(each for block in blocks("yaml") for each in expressions(yaml.safe_load(block))),
]


def samples() -> set[str]:
    """The names of all samples that Prometheus can read."""
    shared = SharedMetrics(METRICS, 1)
    metrics = shared.of_worker(0)
    for metric in METRICS:
        if metric.kind is Kind.COUNTER:
            for labels in metric.series():
                metrics.counter(metric, **labels).add()
        elif metric.kind is Kind.HISTOGRAM:
            for labels in metric.series():
                metrics.histogram(metric, **labels).observe(1)
    text = b"".join(prometheus_text(shared)).decode()
    return {
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    }


@cases("expression", EXPRESSIONS)
def test_queries_name_samples_and_labels_that_exist(expression: str) -> None:
    named = re.findall(r"\b(autopush_\w+)(?:\{(.*?)\})?", expression)
    assert named
    assert {name for name, _ in named} <= samples()
    labels = {label: values for metric in METRICS for label, values in metric.labels.items()}
    for _, selector in named:
        for label, operator, value in re.findall(r'(\w+)(=~?)"(.*?)"', selector):
            pattern = value if operator == "=~" else re.escape(value)
            assert any(re.fullmatch(pattern, each) for each in labels[label]), selector
    assert expression.count("(") == expression.count(")")
