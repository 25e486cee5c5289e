"""Axes, and what their numbers are called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.metrics.table import Kind
from channelstats.render.charts.drawing import marks_of, spread
from channelstats.render.words import date_text, figure_text, mark_texts


@pytest.mark.parametrize(
    ("most", "kind", "marks"),
    [
        (0, Kind.COUNT, ["0", "1"]),
        (1, Kind.COUNT, ["0", "1"]),
        (3, Kind.COUNT, ["0", "1", "2", "3"]),
        (7, Kind.COUNT, ["0", "2", "4", "6", "8"]),
        (477, Kind.COUNT, ["0", "200", "400", "600"]),
        (1_900, Kind.COUNT, ["0", "500", "1,000", "1,500", "2,000"]),
        (35_912, Kind.COUNT, ["0", "10k", "20k", "30k", "40k"]),
        (12_000_000, Kind.COUNT, ["0", "5M", "10M", "15M"]),
        (0.3, Kind.NUMBER, ["0", "0.1", "0.2", "0.3"]),
        (93.3, Kind.PERCENT, ["0", "25%", "50%", "75%", "100%"]),
        (17_500, Kind.SECONDS, ["0", "2 h", "4 h", "6 h"]),
        (50, Kind.SECONDS, ["0", "15 s", "30 s", "45 s", "1 min"]),
    ],
)
def test_marks_are_round(most: float, kind: Kind, marks: list[str]) -> None:
    assert mark_texts(marks_of([most], kind), kind) == marks


@given(
    st.lists(st.floats(0, 1e12), max_size=5),
    st.sampled_from([Kind.COUNT, Kind.NUMBER, Kind.PERCENT, Kind.SECONDS]),
)
def test_every_value_is_on_the_scale_and_marks_are_few(values: list[float], kind: Kind) -> None:
    marks = marks_of(values, kind)
    assert marks[0] == 0
    assert marks[-1] > 0
    assert max(values, default=0) <= marks[-1] * (1 + 1e-9)
    if kind is not Kind.SECONDS or max(values, default=0) < 1e8:
        assert len(marks) <= 6


@given(st.integers(1, 400), st.integers(1, 60))
def test_no_more_labels_are_shown_than_have_room(count: int, most: int) -> None:
    shown = spread(count, most)
    assert 1 <= len(shown) <= most
    assert shown[0] == 0


def test_figures_are_written_in_one_way() -> None:
    assert figure_text(1234, Kind.COUNT) == "1,234"
    assert figure_text(2447.44, Kind.NUMBER) == "2,447.4"
    assert figure_text(12.345, Kind.PERCENT) == "12.3%"
    assert figure_text(1714.4, Kind.SECONDS) == "29 min"
    assert figure_text(None, Kind.COUNT) == "\N{EN DASH}"


def test_dates_are_written_short_and_what_is_none_stays() -> None:
    assert date_text("2024-03-03") == "3 Mar"
    assert date_text("2024-03-03", long=True) == "Sun 3 Mar 2024"
    assert date_text("Week 1") == "Week 1"
