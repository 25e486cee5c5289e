"""Refusals by limits: all are counted, and one of each limit is logged in a minute."""

from pathlib import Path

from autopush.limits import REPORT_INTERVAL, LimitRefusals
from autopush.telemetry.metric_table import LIMIT_REFUSED
from support.log_lines import LogFile
from support.recorded import new_metrics, recorded


def test_every_refusal_is_counted_and_one_a_minute_is_logged(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    now = 1000.0
    metrics = new_metrics()
    refusals = LimitRefusals(metrics, monotonic=lambda: now)
    for _ in range(1000):
        refusals.add("address_connections", "203.0.113.7")
    refusals.add("buffered_bytes")
    now += REPORT_INTERVAL
    refusals.add("address_connections", "203.0.113.8")
    assert recorded(metrics, LIMIT_REFUSED, limit="address_connections") == 1001
    assert recorded(metrics, LIMIT_REFUSED, limit="buffered_bytes") == 1
    assert [
        (line["limit"], line.get("remote_ip"), line.get("suppressed")) for line in log.all_fields
    ] == [
        ("address_connections", "203.0.113.7", None),
        ("buffered_bytes", None, None),
        ("address_connections", "203.0.113.8", 999),
    ]
