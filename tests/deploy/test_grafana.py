"""The dashboard for Grafana asks for metrics and labels that there are."""

import json
import re

from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import Kind
from autopush.telemetry.prometheus import prometheus_name
from support.cases import cases
from support.paths import ROOT

DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "autopush.json").read_text("utf-8"))
QUERIES = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
]
OF_PROMETHEUS = {"instance", "le"}

LABELS = {
    f"{prometheus_name(metric)}{suffix}": {
        *metric.labels,
        *(["worker"] if metric.per_worker else []),
    }
    for metric in METRICS
    for suffix in (("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",))
}


@cases(("title", "query", "legend"), QUERIES)
def test_a_query_names_metrics_and_labels_of_the_table(title: str, query: str, legend: str) -> None:
    names = re.findall(r"\bautopush_\w+", query)
    assert names
    for name in names:
        assert name in LABELS, title
        labels = LABELS[name] | OF_PROMETHEUS
        grouped = {
            word.strip()
            for group in re.findall(r"by \(([^)]*)\)", query)
            for word in group.split(",")
        }
        compared = set(re.findall(r"(\w+)[=!]~?\"", query))
        assert grouped | compared | set(re.findall(r"{{(\w+)}}", legend)) <= labels, title
