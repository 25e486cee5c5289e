"""One number against the one before."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.stats.compare import change
from channelstats.stats.quantities import Quantity, Ratio, parts


def test_for_machines() -> None:
    assert change(3, 2) == {"cur": 3, "prev": 2, "diff_pct": 50.0, "state": "up"}
    assert change(3, None) == {"cur": 3, "prev": None, "diff_pct": None, "state": "new"}
    assert change(3, 0) == {"cur": 3, "prev": 0, "diff_pct": None, "state": "from_zero"}
    assert change(0, 0) == {"cur": 0, "prev": 0, "diff_pct": None, "state": "same"}
    assert change(1000, 1004)["state"] == "same"
    assert change(1000, 1004)["diff_pct"] == pytest.approx(-0.398406, abs=1e-6)


@pytest.mark.parametrize(
    ("cur", "prev", "state"),
    [(201, 200, "up"), (199, 200, "down"), (401, 400, "same"), (399, 400, "same")],
)
def test_half_a_percent_is_a_change_and_less_is_none(cur: int, prev: int, state: str) -> None:
    assert change(cur, prev)["state"] == state


QUANTITIES = st.integers(0, 10**12) | st.builds(Ratio, st.integers(0, 10**9), st.integers(1, 10**9))


@given(QUANTITIES, QUANTITIES)
def test_it_is_decided_exactly(cur: Quantity, prev: Quantity) -> None:
    now, then = Fraction(*parts(cur)), Fraction(*parts(prev))
    found = change(cur, prev)
    if then == 0:
        assert found["state"] == ("from_zero" if now else "same")
        assert found["diff_pct"] is None
        return
    diff = now * 100 / then - 100
    assert found["diff_pct"] == float(diff)
    expected = "same" if abs(diff) < Fraction(1, 2) else "up" if diff > 0 else "down"
    assert found["state"] == expected
