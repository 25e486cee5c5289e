"""What was noted on dates is on every chart over time and beside its numbers."""

from datetime import date

from channelstats.facts import Options, Period
from channelstats.pages.annotations import with_date_notes
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import DateNote, SeriesChart
from support.channelstats.house import UTC
from support.channelstats.inputs import inputs_of
from support.channelstats.pages import Looked, look
from support.channelstats.said import said
from support.channelstats.workspace import Workspace

LAST = date(2024, 3, 16)
NOTES = {
    date(2024, 3, 9): "Before",
    date(2024, 3, 12): "Launch",
    LAST: "Fair",
    date(2024, 3, 17): "After",
}


def looked(view: str, days: int, notes: dict[date, str]) -> Looked:
    data = DashboardData(
        inputs_of(Workspace(messages={"C1": [said(2, "UA"), said(3, "UB")]})),
        Period(LAST, 1, UTC).ending_with(days),
        Options(),
    )
    return Looked(with_date_notes(look(view, data).view, notes))


def test_a_note_is_at_its_day_in_charts_and_tables() -> None:
    page = looked("volume", 7, NOTES)
    expected = tuple(
        DateNote(day, day, text) for day, text in (("2024-03-12", "Launch"), ("2024-03-16", "Fair"))
    )
    for chart in page.charts.values():
        assert isinstance(chart, SeriesChart)
        assert chart.notes == expected
    rows = page.by("volume", "day")
    assert [rows[f"2024-03-{day}"]["note"] for day in (11, 12, 16)] == ["", "Launch", "Fair"]
    assert page.tables["volume"].columns[-1].title == "Note"


def test_in_a_long_period_it_is_at_its_week() -> None:
    page = looked("volume", 98, NOTES)
    assert [(of.label, of.text) for of in page.charts["messages"].notes] == [
        ("2024-03-03", "Before"),
        ("2024-03-10", "Launch"),
        ("2024-03-10", "Fair"),
    ]
    assert page.by("volume", "week")["2024-03-10"]["note"] == "Launch; Fair"


def test_where_nothing_is_noted_pages_stay_as_they_are() -> None:
    other = {date(2024, 3, 17): "After"}
    assert "note" not in looked("volume", 7, other).tables["volume"].rows.columns
    assert "note" not in looked("people", 7, NOTES).tables["people"].rows.columns
