"""The clock of a service, corrected to that of its database."""

import pytest

from autopush.clock import ServiceClock


@pytest.mark.parametrize(
    ("differences", "ahead"),
    [
        ([1.5], 0.0),
        ([-600.0], -600.0),
        pytest.param([600.0, 601.0], 600.0, id="noise-moves-no-clock"),
        ([600.0, 3600.0], 3600.0),
        pytest.param([600.0, 0.3], 0.0, id="it-was-set-right"),
    ],
)
def test_only_a_difference_that_matters_is_corrected(
    differences: list[float], ahead: float
) -> None:
    clock = ServiceClock(lambda: 1000.0)
    for difference in differences:
        clock.correct(difference)
    assert clock() == 1000.0 + ahead
