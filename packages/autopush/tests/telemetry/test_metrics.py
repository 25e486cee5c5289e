"""The cells of metrics: whose they are, what they add up to, and what another process sees."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.telemetry.metrics import OTHER, Kind, Metric, Part, SharedMetrics
from support.cases import cases

COLOURS = {"colour": ("red", "blue"), "size": ("small", "large", OTHER)}
PLAIN = Metric("plain", Kind.COUNTER, "")
LABELLED = Metric("labelled", Kind.COUNTER, "", COLOURS)
GAUGE = Metric("gauge", Kind.GAUGE, "", {"colour": COLOURS["colour"]})
HISTOGRAM = Metric("histogram", Kind.HISTOGRAM, "", {}, (1.0, 5.0), "seconds")
TABLE = [PLAIN, LABELLED, GAUGE, HISTOGRAM]

NAMES = st.text("abc", min_size=1, max_size=3)
LABELS = st.dictionaries(
    NAMES, st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple), max_size=3
)
BUCKETS = st.lists(st.floats(-10, 10), min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
METRIC = st.one_of(
    st.builds(Metric, NAMES, st.sampled_from([Kind.COUNTER, Kind.GAUGE]), st.just(""), LABELS),
    st.builds(Metric, NAMES, st.just(Kind.HISTOGRAM), st.just(""), LABELS, BUCKETS),
)
TABLES = st.lists(METRIC, max_size=5, unique_by=lambda metric: metric.name)


@given(TABLES, st.integers(1, 3))
def test_every_series_of_every_worker_has_cells_of_its_own(
    table: list[Metric], workers: int
) -> None:
    shared = SharedMetrics(table, workers)
    number = 0.0
    expected: dict[tuple[str, int], list[float]] = {}
    for worker in range(workers):
        metrics = shared.of_worker(worker)
        for metric in table:
            for labels in metric.series():
                number += 1
                if metric.kind is Kind.COUNTER:
                    metrics.counter(metric, **labels).add(number)
                elif metric.kind is Kind.GAUGE:
                    metrics.gauge(metric, **labels).set(number)
                else:
                    histogram = metrics.histogram(metric, **labels)
                    for bound in (*metric.buckets, 11.0):
                        histogram.observe(bound)
                values = (
                    [*[1.0] * (metric.width - 1), sum(metric.buckets) + 11.0]
                    if metric.kind is Kind.HISTOGRAM
                    else [number]
                )
                expected.setdefault((metric.name, worker), []).extend(values)
    for metric in table:
        of_workers = [expected[metric.name, worker] for worker in range(workers)]
        totals = [sum(cells) for cells in zip(*of_workers, strict=True)]
        assert shared.total(metric) == pytest.approx(totals)
        if metric.kind is not Kind.HISTOGRAM and not metric.labels:
            assert shared.per_worker(metric) == [cell for [cell] in of_workers]


def test_a_worker_that_ended_has_no_gauges_and_keeps_its_counts() -> None:
    shared = SharedMetrics(TABLE, 2)
    for worker in range(2):
        metrics = shared.of_worker(worker)
        metrics.counter(PLAIN).add()
        metrics.gauge(GAUGE, colour="red").set(5)
        metrics.gauge(GAUGE, colour="blue").set(7)
        metrics.histogram(HISTOGRAM).observe(3)
    shared.clear_gauges(1)
    assert shared.total(GAUGE) == [5, 7]
    assert shared.total(PLAIN) == [2]
    assert shared.total(HISTOGRAM) == [0, 2, 0, 6]


def test_what_a_forked_process_has_published_is_seen_by_the_others() -> None:
    shared = SharedMetrics(TABLE, 2)
    pid = os.fork()
    if pid == 0:  # no assertion here: this process must end without running any more of pytest
        metrics = shared.of_worker(1)
        metrics.counter(PLAIN).add(5)
        metrics.histogram(HISTOGRAM).observe(4)
        metrics.publish()
        metrics.counter(PLAIN).add(100)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    shared.of_worker(0).counter(PLAIN).add()
    assert shared.per_worker(PLAIN) == [1, 5]
    assert shared.total(HISTOGRAM) == [0, 1, 0, 4]


def test_a_worker_that_takes_the_place_of_another_counts_on() -> None:
    shared = SharedMetrics(TABLE, 1)
    for _ in range(3):
        metrics = shared.of_worker(0)
        metrics.counter(PLAIN).add()
        metrics.gauge(GAUGE, colour="red").add(2)
        metrics.histogram(HISTOGRAM).observe(3)
        metrics.publish()
        shared.clear_gauges(0)
    assert shared.total(PLAIN) == [3]
    assert shared.total(GAUGE) == [0, 0]
    assert shared.total(HISTOGRAM) == [0, 3, 0, 9]


def test_a_series_that_is_looked_up_twice_is_one() -> None:
    shared = SharedMetrics(TABLE, 1)
    metrics = shared.of_worker(0)
    for _ in range(2):
        metrics.counter(PLAIN).add()
        metrics.gauge(GAUGE, colour="red").add()
        metrics.histogram(HISTOGRAM).observe(2)
    assert shared.total(PLAIN) == [2]
    assert shared.total(GAUGE) == [2, 0]
    assert shared.total(HISTOGRAM) == [0, 2, 0, 4]


@cases(
    ("value", "bucket"),
    [(-1, 0), (0, 0), (1, 0), (1.0001, 1), (5, 1), (5.0001, 2), (float("inf"), 2)],
)
def test_a_value_belongs_to_the_first_bucket_whose_bound_it_does_not_exceed(
    value: float, bucket: int
) -> None:
    shared = SharedMetrics(TABLE, 1)
    shared.of_worker(0).histogram(HISTOGRAM).observe(value)
    cells = shared.total(HISTOGRAM)
    assert [index for index, cell in enumerate(cells[:-1]) if cell] == [bucket]
    assert cells[-1] == value


def test_an_unknown_value_of_a_label_counts_as_other_where_there_is_one() -> None:
    shared = SharedMetrics(TABLE, 1)
    metrics = shared.of_worker(0)
    metrics.counter(LABELLED, colour="red", size="huge").add()
    assert shared.total(LABELLED)[2] == 1
    with pytest.raises(KeyError, match="green"):
        metrics.counter(LABELLED, colour="green", size="small")


@pytest.mark.parametrize("labels", [{}, {"colour": "red"}, {"colour": "red", "weight": "small"}])
def test_a_series_is_named_by_exactly_its_labels(labels: dict[str, str]) -> None:
    with pytest.raises(KeyError, match="colour"):
        SharedMetrics(TABLE, 1).of_worker(0).counter(LABELLED, **labels)


def test_a_metric_is_recorded_as_what_it_is() -> None:
    metrics = SharedMetrics(TABLE, 1).of_worker(0)
    with pytest.raises(TypeError, match="plain is a counter"):
        metrics.gauge(PLAIN)


def test_series_are_found_by_their_values_and_unknown_ones_are_other() -> None:
    shared = SharedMetrics(TABLE, 1)
    counters = shared.of_worker(0).counters(LABELLED)
    series = [tuple(labels.values()) for labels in LABELLED.series()]
    for number, values in enumerate(series):
        counters[values].add(number)
    for number in range(100):
        counters["blue", f"unknown {number}"].add()
    assert shared.total(LABELLED) == [0, 1, 2, 3, 4, 105]
    assert [*counters] == series, "what is unknown is not kept"


def test_a_sum_has_what_its_parts_have_in_all_workers_and_goes_on_with_them() -> None:
    summed = Metric(
        "summed",
        Kind.COUNTER,
        "",
        {"of": ("red", "all")},
        sums={"red": (Part(LABELLED, {"colour": "red"}),), "all": (Part(PLAIN), Part(LABELLED))},
    )
    shared = SharedMetrics([*TABLE, summed], 2)
    for worker in range(2):
        metrics = shared.of_worker(worker)
        metrics.counter(PLAIN).value += 1
        metrics.counter(LABELLED, colour="red", size="small").value += 10
        metrics.counter(LABELLED, colour="red", size=OTHER).value += 100
        metrics.counter(LABELLED, colour="blue", size="small").value += 1000
    assert shared.total(summed) == [220, 2222]
    shared.of_worker(1).counter(PLAIN).value += 1
    assert shared.total(summed) == [220, 2223]
    assert shared.of_worker(0).published()[shared.place(summed) :] == [110, 1111]
