"""Reports say what the dashboard says of the same days, in every workspace."""

import msgspec
import polars as pl
import pytest

from channelstats.metrics.table import Table
from channelstats.pages.digest import digest_of
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import VIEWS, Heat, Page, Text
from channelstats.pages.reports import ROWS, ReportData, ReportKind, ReportRequest, report_on
from channelstats.pages.views import view_of
from support.channelstats.pages import channels_of, people_of


@pytest.fixture(scope="module")
def of(data: DashboardData) -> ReportData:
    return ReportData(data, made_at=0)


def rows(page: Page) -> dict[str, list[tuple[object, ...]]]:
    found = dict[str, list[tuple[object, ...]]]()
    for table in page.tables:
        found.setdefault(table.name, table.rows.drop("item", strict=False).head(ROWS).rows())
    return found


def test_a_report_has_the_first_rows_of_the_dashboard(of: ReportData) -> None:
    period = of.period
    wanted = [(ReportRequest(ReportKind.GLOBAL), "overview")]
    wanted += [(ReportRequest(ReportKind.CHANNEL, cid), "channel") for cid in channels_of(of.data)]
    wanted += [(ReportRequest(ReportKind.USER, uid), "person") for uid in people_of(of.data)[:3]]
    for one, view in wanted:
        made = report_on(one, of)
        shown = view_of(view, of.data, one.choice(period))
        assert made.tiles[: len(shown.tiles)] == shown.tiles
        shown = msgspec.structs.replace(
            shown, sections=tuple(section.showing() for section in shown.sections)
        )
        reported, on_view = rows(made), rows(shown)
        heat = {
            table.name for of in shown.sections if isinstance(of.chart, Heat) for table in of.tables
        }
        # Of what Overview has the beginning of, another page of the report has more.
        assert {name: reported[name][: len(on_view[name])] for name in on_view.keys() - heat} == {
            name: some for name, some in on_view.items() if name not in heat
        }


def test_a_report_on_a_small_group_says_no_more_than_that(data: DashboardData) -> None:
    posters = ReportData(data, made_at=0).groups.posters
    for cid, number in posters.items():
        small = ReportData(data, smallest_group=number + 1, made_at=0)
        note = f"fewer than {number + 1} people posted in this channel: it is not shown on its own."
        for make in (report_on, digest_of):
            made = make(ReportRequest(ReportKind.CHANNEL, cid), small)
            assert (made.lead[0], made.sections) == (Text(((note,),)), ())


def test_what_is_cut_says_so(of: ReportData) -> None:
    for page in (report_on(ReportRequest(ReportKind.GLOBAL), of),):
        whole = {
            table.name: table.rows.height
            for view in VIEWS
            for table in view_of(view, of.data, page.choice).tables
        }
        for table in page.tables:
            assert isinstance(table, Table)
            assert isinstance(table.rows, pl.DataFrame)
            assert table.rows.height <= ROWS
            is_cut = f"the first {ROWS} of" in table.title
            assert is_cut <= (whole[table.name] > ROWS)
