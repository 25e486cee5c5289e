"""Every page has every layout: what the dashboard shows can be mailed, and a report is data too."""

import html
import json
from datetime import date

import pytest

from channelstats.metrics.quantities import change
from channelstats.metrics.table import Kind
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import VIEWS, Choice, Page, Span, Text
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest, report_on
from channelstats.pages.views import view_of
from channelstats.render.data import json_of
from channelstats.render.html import html_of
from channelstats.render.names import Directory
from channelstats.render.text import text_of
from support.cases import cases
from support.channelstats.pages import everything, people_of, random_workspace

NAMES = Directory(slack_name="example")


@pytest.fixture(scope="module")
def data() -> DashboardData:
    return random_workspace(3, 60)


@cases("name", VIEWS)
def test_a_view_is_text_and_a_page_with_all_its_sections(data: DashboardData, name: str) -> None:
    page = view_of(name, data, everything(data))
    text, file = text_of(page, NAMES), html.unescape(html_of(page, NAMES))
    for title in (page.about, *page.notes, *(section.title for section in page.sections)):
        assert title in text
        assert title in file


@cases("kind", [ReportKind.GLOBAL, ReportKind.USER])
def test_a_report_is_data_like_a_view(data: DashboardData, kind: ReportKind) -> None:
    of_whom = people_of(data)[0] if kind is ReportKind.USER else ""
    page = report_on(ReportRequest(kind, of_whom), ReportData(data, made_at=0))
    found = json.loads(json_of(page, NAMES))
    assert found["name"] == page.name
    assert found["tables"].keys() == {table.name for table in page.tables}
    for table in page.tables:
        assert len(found["tables"][table.name]["rows"]) == table.rows.height


def test_a_number_that_stayed_the_same_ends_a_sentence_without_a_gap() -> None:
    day = date(2024, 3, 10)
    wrote = ("Ann wrote ", Span(change(5, 5), Kind.COUNT, "message"), ".")
    page = Page("x", ("X",), Choice(day, day), (day, day), lead=(Text((wrote,)),))
    assert '<span class="number">5</span> messages.</p>' in html_of(page, NAMES)
