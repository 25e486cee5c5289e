"""Rates, token buckets, and what is counted and logged of refusals."""

from pathlib import Path

import pytest

from autopush.limits import REPORT_INTERVAL, LimitRefusals, TokenBuckets
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import LIMIT_REFUSED
from support.clocks import ManualClock
from support.log_lines import LogFile
from support.recorded import new_metrics, recorded

# ── rates ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_as_many_as_the_rate_says_are_admitted_at_once(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(10, "min"), monotonic=clock)
    assert [buckets.wait_for_token("a") for _ in range(10)] == [0.0] * 10
    assert buckets.wait_for_token("a") == pytest.approx(6.0)


def test_what_was_refused_took_no_token(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(1, "min"), monotonic=clock)
    buckets.wait_for_token("a")
    for _ in range(5):
        assert buckets.wait_for_token("a") == pytest.approx(60.0)
    clock.now += 60
    assert buckets.wait_for_token("a") == 0.0


def test_a_bucket_fills_evenly_and_no_higher_than_its_size(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(10, "min"), monotonic=clock)
    for _ in range(10):
        buckets.wait_for_token("a")
    clock.now += 12
    assert [buckets.wait_for_token("a") > 0 for _ in range(3)] == [False, False, True]
    clock.now += 6000
    assert sum(buckets.wait_for_token("a") == 0 for _ in range(50)) == 10


def test_each_key_has_a_bucket_of_its_own(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(1, "min"), monotonic=clock)
    assert (buckets.wait_for_token("a"), buckets.wait_for_token("b")) == (0.0, 0.0)
    assert buckets.wait_for_token("a") > 0


@pytest.mark.parametrize(("rate", "left"), [(Rate(100, "min"), 50), (Rate(100, "h"), 50)])
def test_a_bucket_that_is_half_full_stays_half_full_at_another_rate(
    clock: ManualClock, rate: Rate, left: int
) -> None:
    buckets = TokenBuckets(Rate(10, "min"), monotonic=clock)
    for _ in range(5):
        buckets.wait_for_token("a")
    buckets.set_rate(rate)
    assert sum(buckets.wait_for_token("a") == 0 for _ in range(200)) == left
    buckets.set_rate(None)
    assert buckets.wait_for_token("a") == 0


def test_buckets_are_bounded_and_those_in_use_are_kept(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(2, "h"), max_keys=10, monotonic=clock)
    assert (buckets.wait_for_token("empty"), buckets.wait_for_token("empty")) == (0.0, 0.0)
    for number in range(100):
        assert buckets.wait_for_token(number) == 0.0
        assert len(buckets._full_at) <= 10
        assert buckets.wait_for_token("empty") > 0


def test_a_bucket_not_used_for_as_many_others_as_are_known_is_forgotten(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(1, "h"), max_keys=10, monotonic=clock)
    buckets.wait_for_token("a")
    for number in range(10):
        buckets.wait_for_token(number)
    assert buckets.wait_for_token("a") == 0.0


def test_a_caller_that_has_read_the_clock_may_say_what_it_said(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(1, "min"), monotonic=clock)
    assert buckets.wait_for_token("a", clock.now + 100) == 0.0
    assert buckets.wait_for_token("a", clock.now + 101) == pytest.approx(59.0)
    assert buckets.wait_for_token("a", clock.now + 160) == 0.0


def test_without_a_rate_nothing_is_refused() -> None:
    buckets = TokenBuckets(None)
    assert {buckets.wait_for_token("a") for _ in range(10)} == {0.0}


def test_what_has_no_key_is_not_limited(clock: ManualClock) -> None:
    buckets = TokenBuckets(Rate(1, "h"), monotonic=clock)
    assert {buckets.wait_for_token("") for _ in range(10)} == {0.0}


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────


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
