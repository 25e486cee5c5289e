"""What Overview has that no other view has: newcomers who stayed, and a choice of charts."""

from datetime import date

import pytest

from channelstats.facts.periods import History
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import Text
from channelstats.render.names import Directory
from channelstats.render.text import line_text
from support.channelstats.pages import Looked, data_of, look
from support.channelstats.said import LONG_AGO, WEEK, said
from support.channelstats.workspace import Raw

NEW_BEFORE = [said(-6, "UA"), said(-5, "UBB"), said(-4, "UCCC"), said(-40, "UOLD")]
BACK = [said(1, "UA"), said(2, "UA"), said(4, "UBB"), said(4, "UOLD"), said(5, "UNEW")]


def overview(messages: list[Raw], history: History = LONG_AGO) -> Looked:
    return look("overview", data_of({"C1": messages}, history=history))


def test_newcomers_stayed_who_posted_again_in_the_period_after_the_one_they_were_new_in() -> None:
    found = overview([*NEW_BEFORE, *BACK])
    assert found.number("newcomers_stayed") == pytest.approx(200 / 3)
    about = found.tiles["newcomers_stayed"].about
    assert about == "2 of 3 who first posted in the period before posted again in this one."
    (text,) = (part for part in found.view.lead if isinstance(part, Text))
    said_of = line_text(text.lines[-1], Directory())
    assert said_of == "2 of 3 newcomers of the period before posted again."
    up_to = found.series("newcomers_stayed")["now"]
    assert up_to == pytest.approx((0, *[100 / 3] * 3, *[200 / 3] * 3))


def test_against_a_year_before_they_are_those_of_the_days_just_before() -> None:
    data = data_of({"C1": [*NEW_BEFORE, *BACK]})
    assert look("overview", data.against_year(data)).number("newcomers_stayed") == pytest.approx(
        200 / 3
    )


@pytest.mark.parametrize(
    ("messages", "history"),
    [(BACK, LONG_AGO), ([*NEW_BEFORE, *BACK], History(date(2024, 2, 20), WEEK.last))],
)
def test_where_nobody_is_known_to_have_been_new_there_is_no_share(
    messages: list[Raw], history: History
) -> None:
    found = overview(messages, history)
    assert found.number("newcomers_stayed") is None
    assert set(found.series("newcomers_stayed")["now"]) == {None}
    assert "newcomer" not in str(found.view.lead[0])


def test_the_points_of_its_charts_add_up_to_the_figures(data: DashboardData) -> None:
    found = look("overview", data)
    for name in ("messages", "open_questions"):
        assert sum(n or 0 for n in found.series(name)["now"]) == found.number(name)
    stayed = found.series("newcomers_stayed")["now"]
    assert stayed[-1] == found.number("newcomers_stayed")


def test_one_of_its_charts_is_shown_at_a_time_the_first_unless_another_is_named() -> None:
    section = overview(BACK).view.sections[0]
    assert [of.name for of in section.charts] == list(overview(BACK).tiles)
    for name, shown in (("first_reply", "first_reply"), ("", "posters"), ("words", "posters")):
        found = section.showing(name)
        assert [part.name for part in (*found.charts, *found.tables)] == [shown, shown]
        assert found.title == found.charts[0].title
