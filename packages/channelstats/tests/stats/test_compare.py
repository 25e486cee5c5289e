"""One number against the one before."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.stats.compare import change, slack_text
from channelstats.stats.quantities import Quantity, Ratio, parts


@pytest.mark.parametrize(
    ("cur", "prev", "label", "percentage", "text"),
    [
        (5, 0, "", False, "*5* :infinity:"),
        (0, 3, "", False, "*0* (-100%):red_arrow_down:"),
        (1, 1, "word", False, "*1* word"),
        (1000, 1004, "", False, "*1,000*"),
        (1000, Ratio(10051, 10), "", False, "*1,000* (-1%):red_arrow_down:"),
        (12345, 10000, "word", False, "*12,345* (+23%):green_arrow_up: words"),
        (Ratio(5, 2), 2, "", False, "*2.5* (+25%):green_arrow_up:"),
        (Ratio(333333, 10000), 30, "", True, "*33.3%* (+11%):green_arrow_up:"),
        (Ratio(200999, 1000), 200, "", False, "*201.0*"),
        (0, 0, "", False, "*0*"),
        (9, None, "", False, "*9*:new:"),
        (2, 0, "message", False, "*2* :infinity: messages"),
        (0, 0, "message", False, "*0* messages"),
        (Ratio(60, 1), Ratio(1600, 26), "", True, "*60.0%* (-2%):red_arrow_down:"),
    ],
)
def test_as_slack_shows_it(
    cur: Quantity, prev: Quantity | None, label: str, percentage: bool, text: str
) -> None:
    assert slack_text(change(cur, prev), label, percentage=percentage) == text


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
