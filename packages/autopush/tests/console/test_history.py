"""The last hour of the console: of a fixed size, rates from counters, times from histograms."""

import pytest

from autopush.console.history import History, quantile

BOUNDS = (1.0, 2.0, 4.0)


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0, 0], 0.95, 0.0),
        ([10, 0, 0, 0], 0.5, 0.5),
        ([5, 5, 0, 0], 0.5, 1.0),
        ([5, 0, 5, 0], 0.75, 3.0),
        ([0, 0, 0, 7], 0.95, 4.0),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(
    counts: list[float], share: float, expected: float
) -> None:
    assert quantile(BOUNDS, counts, share) == expected


def test_samples_are_rates_levels_and_times_since_the_one_before() -> None:
    history = History(["pushes"], ["connected"], {"time": BOUNDS})
    history.add(1000.0, 0.0, {"pushes": 500, "connected": 3}, {"time": [100, 0, 0, 0]})
    assert not history.samples  # what it has counted may have come at any time
    history.add(1010.0, 10.0, {"pushes": 520, "connected": 4}, {"time": [100, 0, 20, 0]})
    assert history.document()["rows"] == [[1010, 2.0, 4, 3.9]]
    assert history.document()["columns"] == ["at", "pushes", "connected", "time"]


def test_there_are_never_more_than_so_many_samples() -> None:
    history = History(["pushes"], [], {}, samples=3)
    for number in range(10):
        history.add(number, float(number), {"pushes": number}, {})
    assert [sample[0] for sample in history.samples] == [7, 8, 9]
