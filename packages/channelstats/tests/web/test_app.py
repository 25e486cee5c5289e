"""Pages and twins over HTTP.

Tests that only read share one dashboard, which has made most of what they ask for, and the loop
that it runs in.
"""

import asyncio
import csv
import io
import json
import os
import re
import shlex
from collections.abc import AsyncIterator
from datetime import date
from html import escape, unescape
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from channelstats.commands import COMMANDS
from channelstats.commands.context import make_parser
from channelstats.counting import Counting
from channelstats.facts import Options
from channelstats.pages.loading import load
from channelstats.pages.model import VIEWS, Choice, Page
from channelstats.pages.views import view_of
from channelstats.render.data import csv_of, json_of
from channelstats.render.names import Directory
from channelstats.tables.directory import Channel, User
from channelstats.tables.exclusion import forget_person
from channelstats.tables.first_posts import rebuild
from channelstats.web import app
from channelstats.web.auth import POLICY
from channelstats.web.service import Busy, DashboardService
from keytables import Unavailable
from support.channelstats.dashboard import Dashboard, dashboard
from support.channelstats.dated import row
from support.channelstats.elements import Elements
from support.channelstats.house import EXAMPLE, NOW, UTC, House, copied_house, house
from support.channelstats.workspace import write_linked
from support.clocks import ManualClock

pytestmark = pytest.mark.asyncio(loop_scope="module")

WEEK = "weeks=1"
CHOICE = Choice(date(2024, 3, 10), date(2024, 3, 16))
NONSENSE = [
    ("/volume?weeks=0", 400, "weeks: expected a number"),
    ("/volume.json?from=x", 400, "from: expected a date"),
    ("/volume?wekks=1", 400, "did you mean weeks?"),
    ("/volume.csv?table=none", 400, "table: expected one of"),
    ("/volume.csv?table=volume&page=2", 400, "page: there is no such parameter"),
    ("/people?sort=words", 400, "table: expected with sort, find and page"),
    ("/people?table=nobody", 400, "table: expected one of people"),
    ("/people?table=people&sort=wrds", 400, "sort: expected one of rank, person"),
    ("/people?table=people&page=2", 400, "page: expected a number from 1 to 1"),
    ("/people?tabel=people", 400, "did you mean table?"),
    ("/people?person=nobody", 404, "there is no user"),
    ("/channels?channel=none", 404, "there is no channel"),
    ("/nowhere", 404, "There is nothing at this address."),
    ("/volume.xml", 404, "There is nothing at this address."),
    ("/static/../app.py", 404, "There is nothing at this address."),
    ("/static/none.css", 404, "There is nothing at this address."),
]


# ── dashboards ───────────────────────────────────────────────────────────────────────────────────


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    taken_in: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Dashboard]]:
    """Over the worked example."""
    folder = tmp_path_factory.mktemp("shared")
    async with (
        copied_house(taken_in, folder / "example") as opened,
        dashboard(opened, folder, slack_name="example") as board,
    ):
        yield {"board": board}


def visited(found: Dashboard) -> Dashboard:
    """By somebody who has not been there: the cookies of earlier tests are gone."""
    found.client.session.cookie_jar.clear()
    return found


@pytest.fixture
def board(shared: dict[str, Dashboard]) -> Dashboard:
    """Rule: for tests that change neither its store nor its clock."""
    return visited(shared["board"])


@pytest_asyncio.fixture(loop_scope="module")
async def empty(unused: Path, tmp_path: Path) -> AsyncIterator[House]:
    async with copied_house(unused, tmp_path) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def example(taken_in: Path, tmp_path: Path) -> AsyncIterator[House]:
    async with copied_house(taken_in, tmp_path / "example") as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def own(example: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    """A dashboard whose store and clock a test may change."""
    async with dashboard(example, tmp_path, slack_name="example") as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def views(shared: dict[str, Dashboard]) -> dict[str, Page]:
    """What the pages of the week are to show."""
    data = await load(shared["board"].house.tables, CHOICE, Options())
    return {name: view_of(name, data, CHOICE) for name in VIEWS}


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
async def test_every_view_has_a_page_that_needs_nothing_from_elsewhere(
    board: Dashboard, name: str
) -> None:
    for query in (WEEK, f"{WEEK}&channel=dev", f"{WEEK}&person=@bob", "weeks=52", "to=2009-01-01"):
        page = Elements(await board.text(f"/{name}?{query}"))
        assert page.tags.count("h1") == 1
        assert page.running == page.styled == []
        assert all(address.startswith("/") for address in page.loads)
        assert all(
            address.startswith(("/", "#", "https://example.slack.com/archives/"))
            for address in page.links
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
async def test_every_picture_says_what_it_shows(
    board: Dashboard, views: dict[str, Page], name: str
) -> None:
    view = views[name]
    page = Elements(await board.text(f"/{name}?{WEEK}"))
    for chart in view.charts:
        said = [
            label for label in page.images if re.match(rf"{re.escape(chart.title)}[,.:]", label)
        ]
        assert len(said) in (0, 2)  # none where there is nothing to draw
        assert all(len(label) > len(chart.title) + 5 for label in said)


async def test_less_is_better_of_waiting_and_of_what_nobody_answers_alone(
    views: dict[str, Page],
) -> None:
    for view in views.values():
        for tile in view.tiles:
            waiting = tile.name.startswith(("first_reply", "unanswered", "open_questions"))
            assert tile.less_is_better == waiting, tile.name


async def test_the_start_is_the_overview(board: Dashboard) -> None:
    assert await board.text("/") == await board.text("/overview")
    assert "<h1>Overview</h1>" in await board.text("/")


async def test_every_link_of_a_page_leads_somewhere(board: Dashboard) -> None:
    page = Elements(await board.text(f"/people?{WEEK}"))
    for address in sorted(set(page.links)):
        if address.startswith("/"):
            assert await board.status(address) == 200, address


async def test_numbers_of_the_example_are_on_the_page(board: Dashboard) -> None:
    text = await board.text(f"/?{WEEK}")
    tile = re.search(r"<dt>.*Messages.*</dt>\s*<dd class=\"figure\">(.*?)</dd>\s*(.*?)</dd>", text)
    assert tile is not None
    assert re.sub("<.*?>", "", tile[1]) == "8"
    assert "+60%" in tile[2]
    assert "before: 5" in tile[2]
    assert "3 people wrote 8 messages (60% more)." in text


async def test_lists_to_act_on_say_which_rows_they_have(board: Dashboard) -> None:
    page = await board.text(f"/todo?{WEEK}")
    for words in ("Those whom nobody answered yet come first.", "nothing in this one"):
        assert page.count(words) == 1


async def test_messages_are_linked_where_the_workspace_is_known(
    board: Dashboard, tmp_path: Path
) -> None:
    assert 'href="https://example.slack.com/archives/C' in await board.text(f"/threads?{WEEK}")
    async with dashboard(board.house, tmp_path) as unknown:
        text = await unknown.text(f"/threads?{WEEK}")
        assert "slack.com/archives" not in text
        assert text.count("<code>CHANNELSTATS_SLACK_NAME=example</code>") == 1
        assert "SLACK_NAME" not in await unknown.text(f"/volume?{WEEK}")
    assert "SLACK_NAME" not in await board.text(f"/threads?{WEEK}")


async def test_messages_are_linked_to_the_workspace_that_files_of_an_export_are_linked_to(
    empty: House, tmp_path: Path
) -> None:
    link = "https://acme.slack.com/files/UALICE/F1/plan.pdf"
    await empty.take_in(write_linked(EXAMPLE, tmp_path / "export", link))
    async with dashboard(empty, tmp_path) as opened:
        text = await opened.text(f"/threads?{WEEK}")
        assert 'href="https://acme.slack.com/archives/C' in text
        assert "SLACK_NAME" not in text
        assert "plan.pdf" not in text
    async with dashboard(empty, tmp_path, slack_name="given") as opened:
        text = await opened.text(f"/threads?{WEEK}")
        assert 'href="https://given.slack.com/archives/C' in text
        assert "acme" not in text


async def test_one_of_a_kind_is_compared_with_everyone(board: Dashboard) -> None:
    assert "average per poster: " in await board.text(f"/?{WEEK}&person=bob")
    assert "average per poster: " not in await board.text(f"/?{WEEK}")


async def test_what_is_called_like_markup_is_text(example: House, tmp_path: Path) -> None:
    evil = '<script>alert("1")</script>'
    await example.tables.users.put([User("UBOB", user_name=evil, display_name=evil)])
    await example.tables.channels.put([Channel("CDEV", friendly_name='"><img src=x>')])
    async with dashboard(example, tmp_path) as opened:
        for name in VIEWS:
            text = await opened.text(f"/{name}?{WEEK}&person=UBOB&channel=CDEV")
            assert "<script>alert" not in text
            assert "<img" not in text
            page = Elements(text)
            assert page.running == page.styled == []


async def test_an_empty_store_says_what_to_do_and_fills_without_a_restart(
    empty: House, tmp_path: Path
) -> None:
    async with dashboard(empty, tmp_path) as opened:
        text = await opened.text("/volume")
        assert "channelstats import-export" in text
        assert str(tmp_path) in text
        await empty.take_in(EXAMPLE)
        assert "<h1>Volume</h1>" in await opened.text("/volume")


async def test_days_without_messages_say_so_and_lead_to_others(board: Dashboard) -> None:
    text = await board.text("/?from=2024-06-01&to=2024-06-07")
    assert "There is nothing to show for this period; messages were read up to 2024-03-16." in text


async def test_whoever_is_not_known_is_named_and_leads_nowhere(
    example: House, tmp_path: Path
) -> None:
    await example.tables.users.delete("UBOB")
    async with dashboard(example, tmp_path) as opened:
        page = await opened.text(f"/people?{WEEK}")
        assert "<bdi>UBOB</bdi>" in page
        assert [link for link in Elements(page).links if "UBOB" in link] == []
        assert [link for link in Elements(page).links if "UALICE" in link]


async def test_what_another_process_brings_is_on_the_next_page(
    empty: House, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    for path in EXAMPLE.rglob("*.json"):
        if path.name < "2024-03-14" or path.parent == EXAMPLE:
            copy = before / path.relative_to(EXAMPLE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    await empty.take_in(before)
    days = "from=2024-03-10&to=2024-03-16"
    async with dashboard(empty, tmp_path / "data") as opened:
        first = await opened.json(f"/volume.json?{days}")
        async with house(tmp_path) as other:
            await other.take_in(EXAMPLE)
        then = await opened.json(f"/volume.json?{days}")
    assert first["tiles"]["words"]["cur"] < then["tiles"]["words"]["cur"] == 40


# ── twins ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", VIEWS)
async def test_twins_say_the_same_as_the_view(
    board: Dashboard, views: dict[str, Page], name: str
) -> None:
    view = views[name]
    users, channels = await board.house.tables.users.all(), await board.house.tables.channels.all()
    names = Directory(
        people={uid: user.name for uid, user in users.items()},
        channels={cid: channel.name for cid, channel in channels.items()},
        slack_name="example",
    )
    assert await board.text(f"/{name}.json?{WEEK}") == json_of(view, names).decode()
    assert view.tables
    for table in view.tables:
        text = await board.text(f"/{name}.csv?{WEEK}&table={table.name}")
        assert text == csv_of(table, names, UTC).decode()


async def test_each_table_of_a_page_leads_to_all_of_it(board: Dashboard) -> None:
    page = Elements(await board.text(f"/channels?{WEEK}"))
    for address in {link for link in page.links if ".csv" in link}:
        rows = list(csv.reader(io.StringIO(await board.text(address))))
        assert len({len(row) for row in rows}) == 1


async def test_a_table_is_sorted_and_searched_by_links_and_a_form(
    example: House, tmp_path: Path
) -> None:
    """And each link of its headings and pages leads to what it says."""
    uids = [f"U{number:03}" for number in range(120)]
    await example.tables.users.put(User(uid, user_name=f"anna{uid}") for uid in uids)
    rows = [row(50 + number / 60) for number in range(120)]
    await example.tables.messages.write(
        [msgspec.structs.replace(of, slack_uid=uid) for of, uid in zip(rows, uids, strict=True)]
    )
    async with dashboard(example, tmp_path) as opened:
        first = await opened.text(f"/people?{WEEK}")
        assert "1\N{EN DASH}20 of 123" in first
        page = Elements(first)
        names = [f"page={number}#table-people" for number in (2, 7)]
        assert all(any(link.endswith(name) for link in page.links) for name in names)
        last = await opened.text(f"/people?{WEEK}&table=people&page=7")
        assert "121\N{EN DASH}123 of 123" in last
        found = await opened.text(f"/people?{WEEK}&table=people&find=@BOB&sort=-words")
        assert "1\N{EN DASH}1 of 1" in found
        assert 'name="find" value="@BOB"' in found
        assert 'name="sort" value="-words"' in found
        assert found.count('aria-sort="descending"') == 1
        assert "Bob Berg" in found
        assert "anna" not in found.partition("<tbody>")[2]
        assert "Nothing found for “zzz”" in await opened.text("/people?table=people&find=zzz")
        lines = (await opened.text(f"/people.csv?{WEEK}&table=people")).splitlines()
        assert len(lines) == 124


async def test_a_file_is_called_after_what_is_in_it(board: Dashboard) -> None:
    async with board.client.get(f"/people.csv?{WEEK}&table=people") as answer:
        assert answer.content_type == "text/csv"
        assert answer.headers["Content-Disposition"] == (
            'attachment; filename="people-people-2024-03-10-2024-03-16.csv"'
        )


@pytest.mark.parametrize("name", VIEWS)
async def test_a_csv_without_a_table_is_the_main_one(
    board: Dashboard, views: dict[str, Page], name: str
) -> None:
    view = views[name]
    rankings = (of.tables[0].name for of in view.sections if of.chart is None)
    main = next(rankings, view.tables[0].name)
    async with board.client.get(f"/{name}.csv?{WEEK}") as answer:
        assert f'filename="{name}-{main}-2024' in answer.headers["Content-Disposition"]
        text = await answer.text()
    assert text == await board.text(f"/{name}.csv?{WEEK}&table={main}")


async def test_the_report_of_the_week_can_be_read(board: Dashboard) -> None:
    async with board.client.get(f"/report?{WEEK}") as answer:
        text = await answer.text()
        assert "script-src" not in answer.headers["Content-Security-Policy"]
    assert "Workspace report" in text
    assert "Sunday 10 March 2024 to Saturday 16 March 2024" in text
    assert "Report on #dev" in await board.text(f"/report?{WEEK}&channel=dev")
    assert "Report for @Bob Berg" in await board.text(f"/report?{WEEK}&person=bob")


# ── nonsense ─────────────────────────────────────────────────────────────────────────────────────


async def test_what_means_nothing_is_refused_in_words(board: Dashboard) -> None:
    for path, status, message in NONSENSE:
        text = await board.text(path, status=status)
        assert message in text.replace("&#39;", "'"), path
        if path.partition("?")[0].endswith((".json", ".csv")):
            assert list(json.loads(text)) == ["error"]


async def test_only_what_is_there_can_be_done(board: Dashboard) -> None:
    async with board.client.post("/volume", data={}) as answer:
        assert answer.status == 405


async def test_too_large_a_form_is_refused(board: Dashboard) -> None:
    async with board.client.post("/me", data={"person": "x" * 20_000}) as answer:
        assert answer.status == 413


async def test_a_fault_is_an_answer_and_in_the_log(
    board: Dashboard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> int:
        raise RuntimeError("broken")

    configuration = type(board.house.tables.configuration)
    monkeypatch.setattr(configuration, "last_run", lambda _: fail())
    text = await board.text("/volume?person=bob", status=500)
    assert "broken" not in text
    assert "broken" in caplog.text
    assert "person=bob" not in caplog.text


async def test_a_store_that_does_not_answer_is_told_apart_from_a_fault(
    board: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> int:
        raise Unavailable("gone")

    monkeypatch.setattr(type(board.house.tables.configuration), "last_run", fail)
    assert "The store does not answer." in await board.text("/volume", status=503)
    monkeypatch.setattr(type(board.house.tables.messages), "is_empty", fail)
    assert "ok" not in await board.text("/health", status=503)


async def test_numbers_that_take_long_are_asked_for_again_by_the_page(
    board: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_long(*_: object) -> None:
        raise Busy

    monkeypatch.setattr(DashboardService, "view", take_long)
    async with board.client.get("/volume") as answer:
        assert answer.status == 503
        assert answer.headers["Refresh"] == answer.headers["Retry-After"] == "3"
        assert "reloads by itself" in await answer.text()


# ── headers ──────────────────────────────────────────────────────────────────────────────────────


async def test_every_answer_forbids_what_is_foreign(board: Dashboard) -> None:
    for path in ("/", "/volume.json", "/nowhere", "/volume?weeks=0", "/static/icon.svg", "/health"):
        async with board.client.get(path) as answer:
            headers = answer.headers
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in headers
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
    assert "frame-ancestors 'none'" in POLICY


async def test_pages_are_kept_by_nobody_and_files_as_long_as_they_are_the_same(
    board: Dashboard,
) -> None:
    async with board.client.get("/volume") as answer:
        assert answer.headers["Cache-Control"] == "no-store"
    async with board.client.get("/static/dashboard.js") as answer:
        tag = answer.headers["ETag"]
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.content_type == "text/javascript"
    assert await board.status("/static/dashboard.js", **{"If-None-Match": tag}) == 304
    assert await board.status("/static/dashboard.js", **{"If-None-Match": '"other"'}) == 200


async def test_a_file_of_the_same_time_and_size_has_another_tag_when_it_differs(
    board: Dashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_STATIC", tmp_path)
    file, known = tmp_path / "dashboard.css", ""
    for style in ("a { color: red }", "a { color: tan }"):
        file.write_text(style)
        os.utime(file, (1, 1))
        headers = {"If-None-Match": known} if known else {}
        async with board.client.get("/static/dashboard.css", headers=headers) as answer:
            assert await answer.text() == style
            known = answer.headers["ETag"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/static/icon.svg", "image/svg+xml"),
        ("/worker.js", "text/javascript"),
        ("/notifications/notify.js", "text/javascript"),
        ("/notifications/icon.png", "image/png"),
    ],
)
async def test_a_browser_never_keeps_an_old_file(board: Dashboard, path: str, kind: str) -> None:
    async with board.client.get(path) as answer:
        assert answer.content_type == kind
        assert answer.headers["Cache-Control"] == "no-cache"
        assert await answer.read()


async def test_health_tells_that_the_store_answers_and_nothing_else(board: Dashboard) -> None:
    assert await board.json("/health") == {"status": "ok"}


# ── me ───────────────────────────────────────────────────────────────────────────────────────────


async def test_who_the_visitor_is_is_remembered_and_forgotten(board: Dashboard) -> None:
    switch = "Me, Bob Berg"
    assert "This is me" in await board.text(f"/?{WEEK}&person=bob")
    form = {"person": "UBOB", "to": "/volume?weeks=1"}
    async with board.client.post("/me", data=form, allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/volume?weeks=1"
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
    text = await board.text("/volume")
    assert switch in text
    assert 'href="/volume?person=UBOB"' in text
    async with board.client.post("/me", data={"person": "", "to": "/"}, allow_redirects=False):
        pass
    assert switch not in await board.text("/volume")


async def test_nobody_is_led_away(board: Dashboard) -> None:
    for to in ("//evil.example/", "https://evil.example/", "/\\evil", "", "x"):
        form = {"person": "UBOB", "to": to}
        async with board.client.post("/me", data=form, allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/"


async def test_a_page_of_somebody_else_changes_nothing(board: Dashboard) -> None:
    headers = {"Origin": "http://evil.example"}
    async with board.client.post("/me", data={"person": "UBOB"}, headers=headers) as answer:
        assert answer.status == 403


async def test_people_are_offered_while_a_name_is_typed(board: Dashboard) -> None:
    found = await board.json("/names.json?like=BE")
    assert found == [{"value": "Bob Berg", "name": "Bob Berg"}]
    assert len(await board.json("/names.json?like=")) >= 3
    assert await board.json("/names.json?like=nobody%20at%20all") == []


async def test_of_people_of_one_name_the_id_is_offered(example: House, tmp_path: Path) -> None:
    await example.tables.users.put([User("UBOB2", user_name="bob2", display_name="Bob Berg")])
    async with dashboard(example, tmp_path) as opened:
        found = await opened.json("/names.json?like=bob%20berg")
        assert sorted(one["value"] for one in found) == ["UBOB", "UBOB2"]
        assert "may be any of" in await opened.text("/people?person=Bob%20Berg", status=404)


# ── privacy ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_profile_of_nobody_leads_to_the_list(board: Dashboard) -> None:
    for path, to in (("/person", "/people"), ("/channel", "/channels")):
        for query in ("?weeks=1", "?weeks=1&person=&channel="):
            async with board.client.get(f"{path}{query}", allow_redirects=False) as answer:
                assert answer.status == 303
                assert answer.headers["Location"] == f"{to}?weeks=1"
        assert "expected a name or an ID" in await board.text(f"{path}.json?weeks=1", status=400)


async def test_a_name_filters_overview_until_the_filter_is_removed(board: Dashboard) -> None:
    page = Elements(await board.text(f"/?{WEEK}"))
    assert {f"/?{WEEK}&channel=CDEV", f"/?{WEEK}&person=UBOB"} <= {*page.links}
    text = await board.text(f"/?{WEEK}&channel=CDEV&person=UBOB")
    assert f"/channel?{WEEK}&channel=CDEV" in Elements(text).links
    without = escape(f"/?{WEEK}&person=UBOB")
    assert f'href="{without}" aria-label="Remove the filter #dev">' in text


async def test_a_tile_of_overview_leads_to_its_chart(board: Dashboard) -> None:
    asked = f"/?{WEEK}&channel=CDEV&chart=first_reply"
    text = await board.text(asked)
    current = re.findall(r'<a class="switch" href="([^"]*)" aria-current="true">', text)
    assert [unescape(one) for one in current] == [f"{asked}#tiles"]
    assert "Median time to first reply</h2>" in text
    assert "People who posted</h2>" not in text
    assert '<input type="hidden" name="chart" value="first_reply">' in text
    assert f"/?{WEEK}&channel=CDEV&chart=messages#tiles" in Elements(text).links
    assert f"/?{WEEK}&channel=CDEV#tiles" in Elements(text).links, "the first one is usual"
    assert "chart: expected one of posters, messages" in await board.text(
        f"/?{WEEK}&chart=pairs", status=400
    )
    assert await board.status(f"/channels?{WEEK}&chart=messages") == 400


async def test_names_in_tables_lead_to_their_pages(board: Dashboard) -> None:
    channels, people = [await board.text(f"/{name}?{WEEK}") for name in ("channels", "people")]
    assert f"/channel?{WEEK}&channel=CDEV" in Elements(channels).links
    assert f"/person?{WEEK}&person=UBOB" in Elements(people).links
    person = await board.text(f"/person?{WEEK}&person=bob")
    assert "<h1>Bob Berg</h1>" in person
    assert re.search(r'href="/people[^"]*" aria-current="page"', person)
    assert "<h1>#dev</h1>" in await board.text(f"/channel?{WEEK}&channel=CDEV")


async def test_a_profile_has_its_twins(board: Dashboard) -> None:
    for path, table in (("person", "seen"), ("channel", "carriers")):
        query = f"{WEEK}&{path}={'bob' if path == 'person' else 'dev'}"
        view = await board.json(f"/{path}.json?{query}")
        rows = view["tables"][table]["rows"]
        assert rows
        text = await board.text(f"/{path}.csv?{query}&table={table}")
        assert len(text.splitlines()) == len(rows) + 1


async def test_up_to_four_channels_are_drawn_beside_one(board: Dashboard) -> None:
    query = f"{WEEK}&channel=dev&compare=general&compare="
    view = await board.json(f"/channel.json?{query}")
    (chart,) = (of for of in view["charts"] if of["name"] == "messages")
    assert [of["title"] for of in chart["series"]] == ["CDEV", "CGEN"]
    assert chart["series_kind"] == "channel"
    page = await board.text(f"/channel?{query}")
    assert '<span class="chip">beside #general<a' in page
    assert re.search(r"</svg>#dev</li><li>.*?</svg>#general</li>", page)
    assert "compare=" not in "".join(re.findall(r'href="(/channels\?[^"]*)"', page))
    many = "&".join(["compare=general"] * 5)
    assert "at most 4 channels" in await board.text(f"/channel?channel=dev&{many}", status=400)
    missing = await board.text("/channel?channel=dev&compare=none", status=404)
    assert "there is no channel" in missing
    assert "no such parameter" in await board.text("/channels?compare=dev", status=400)


async def test_a_group_of_channels_is_shown_together(board: Dashboard) -> None:
    async def messages(channel: str) -> int:
        page = await board.json(f"/volume.json?{WEEK}&channel={channel}")
        return int(page["tiles"]["messages"]["cur"])

    assert await messages("*e*") == await messages("dev") + await messages("general")
    view = await board.json(f"/channels.json?{WEEK}&channel=d*,general")
    assert (view["channel"], view["channels"]) == (None, ["CDEV", "CGEN"])
    assert {row["channel"] for row in view["tables"]["channels"]["rows"]} == {"CDEV", "CGEN"}
    page = await board.text(f"/?{WEEK}&channel=d*,general")
    assert '<span class="chip">d*,general (2 channels)<a' in page
    assert f'href="/people?{WEEK}&amp;channel=d%2A%2Cgeneral"' in page
    assert "<h1>d* (1 channel)</h1>" in await board.text(f"/channel?{WEEK}&channel=d*")
    nothing = await board.text("/?channel=help-*", status=404)
    assert "no channel is called like &#39;help-*&#39;; there are dev, general" in nothing
    for path in ("report?channel=d*", "channel?channel=d*&compare=general"):
        assert "not a group" in await board.text(f"/{path}", status=400)


async def test_a_period_is_compared_with_the_same_weeks_a_year_before(
    example: House, tmp_path: Path
) -> None:
    query = f"{WEEK}&against=year"
    async with dashboard(example, tmp_path) as opened:
        unknown = "not compared with Sun 12 Mar to Sat 18 Mar 2023, as messages are known only"
        assert unknown in await opened.text(f"/?{query}")
    year_ago = -24 * 364
    hours = (year_ago - 24, year_ago + 30, year_ago + 31)
    await example.tables.messages.write([row(hour, cid="CDEV") for hour in hours])
    await rebuild(example.tables, Counting())
    async with dashboard(example, tmp_path) as opened:
        view = await opened.json(f"/volume.json?{query}&channel=dev")
        assert view["before"] == {"first": "2023-03-12", "last": "2023-03-18"}
        assert view["tiles"]["messages"]["prev"] == 2
        assert [of["title"] for of in view["charts"][0]["series"]] == [
            "This period",
            "A year before",
        ]
        text = await opened.text(f"/?{query}")
        assert "compared with Sun 12 Mar to Sat 18 Mar 2023" in text
        assert f'href="/people?{WEEK}&amp;against=year"' in text
        # What is to be done is of now.
        to_do = await opened.json(f"/todo.json?{query}")
        assert to_do["before"]["first"] > "2024"


async def test_what_is_noted_on_a_date_is_on_the_next_page_and_in_the_report(
    own: Dashboard,
) -> None:
    said = "Tue 12 Mar 2024: Launch"
    for path in (f"/?{WEEK}", f"/report?{WEEK}"):
        assert said not in await own.text(path)
    await own.house.tables.configuration.put_note(date(2024, 3, 12), "Launch")
    for path in (f"/?{WEEK}", f"/report?{WEEK}"):
        text = await own.text(path)
        assert f"<li>{said}</li>" in text
        assert re.search("<td[^>]*>Launch</td>", text)
    assert said in await own.text(f"/volume?{WEEK}")
    assert ",Launch\r\n" in await own.text(f"/volume.csv?{WEEK}&table=volume")


async def test_who_is_unknown_forgotten_or_excluded_has_no_page(
    example: House, tmp_path: Path
) -> None:
    async with dashboard(
        example, tmp_path, exclude_users="@bob", exclude_channels="#dev"
    ) as opened:
        for query in ("person?person=bob", "person?person=UBOB", "person?person=UNOBODY"):
            assert "there is no user" in await opened.text(f"/{query}", status=404)
        for query in ("channel?channel=dev", "channel?channel=CDEV", "channel?channel=CNONE"):
            assert "there is no channel" in await opened.text(f"/{query}", status=404)
        for path in ("person?person=UALICE", "channel?channel=general"):
            for ending in ("", ".json"):
                name, _, query = path.partition("?")
                text = await opened.text(f"/{name}{ending}?{WEEK}&{query}")
                assert not re.search("Bob Berg|UBOB|CDEV", text), path
    assert [done async for done in forget_person(example.tables, "UCARA")]
    async with dashboard(example, tmp_path) as opened:
        assert "there is no user" in await opened.text("/person?person=cara", status=404)
        assert "UCARA" not in await opened.text(f"/channel.json?{WEEK}&channel=general")


async def test_groups_that_are_too_small_are_not_shown(board: Dashboard, tmp_path: Path) -> None:
    async with dashboard(board.house, tmp_path, min_group="4") as opened:
        tables = (await opened.json(f"/channels.json?{WEEK}"))["tables"]
        assert tables["channels"]["rows"] == []
        assert "#dev" not in await opened.text(f"/people?{WEEK}")
        for page in ("channels", "report"):
            text = await opened.text(f"/{page}?{WEEK}&channel=dev", status=400)
            assert "fewer than 4 people posted in this channel" in text
            text = await opened.text(f"/{page}?{WEEK}&person=bob", status=400)
            assert "fewer than 4 people posted in these days" in text
        assert "fewer than 4 people" in await opened.text(f"/report?{WEEK}", status=400)


async def test_who_hides_in_a_group_has_a_report(board: Dashboard, tmp_path: Path) -> None:
    async with dashboard(board.house, tmp_path, min_group="3") as opened:
        assert "Report for @Bob Berg" in await opened.text(f"/report?{WEEK}&person=bob")
        assert "Workspace report" in await opened.text(f"/report?{WEEK}")


async def test_the_report_on_a_person_is_the_same_whatever_channel_is_chosen(
    board: Dashboard, tmp_path: Path
) -> None:
    async with dashboard(board.house, tmp_path, min_group="3") as opened:
        report = "/report?from=2024-03-03&to=2024-03-09&person=bob"
        of_small_channel = await opened.text(f"{report}&channel=dev")
        assert "Report for @Bob Berg" in of_small_channel
        assert await opened.text(report) == of_small_channel


async def test_whoever_is_excluded_is_neither_named_nor_found(
    board: Dashboard, tmp_path: Path
) -> None:
    async with dashboard(board.house, tmp_path, exclude_users="@bob") as opened:
        assert await opened.status("/people?person=bob") == 404
        assert "Bob Berg" not in await opened.text("/names.json?like=")
        view = await opened.text(f"/people.json?{WEEK}")
        assert "UBOB" not in view
        assert json.loads(view)["tiles"]["posters"]["cur"] == 2
        assert "Bob Berg" not in await opened.text(f"/report?{WEEK}")


async def test_requests_at_the_same_time_are_answered_alike(own: Dashboard) -> None:
    found = await asyncio.gather(*(own.text(f"/volume?{WEEK}") for _ in range(20)))
    assert len(set(found)) == 1


async def test_a_name_that_was_the_name_of_a_channel_finds_it(own: Dashboard) -> None:
    channel = (await own.house.tables.channels.all())["CDEV"]
    await own.house.tables.channels.put_alias("engineering", channel)
    text = await own.text(f"/?{WEEK}&channel=engineering")
    assert 'aria-label="Remove the filter #dev"' in text


async def test_days_that_were_not_read_are_no_silence(own: Dashboard) -> None:
    later = await own.text("/volume?from=2024-03-10&to=2024-03-20")
    assert "read up to 2024-03-16; later ones are not counted" in later
    assert "Messages were read up to" not in await own.text(f"/volume?{WEEK}")
    own.clock.advance(30 * 86_400)
    assert "so periods end with the last week that was read in full" in await own.text(
        f"/volume?{WEEK}"
    )


async def test_to_do_goes_up_to_the_newest_day(own: Dashboard) -> None:
    own.clock.advance(6 * 86_400)
    await own.house.tables.configuration.raise_last_run(int(own.clock()) - 3 * 86_400)
    assert (await own.json("/todo.json"))["last"] == "2024-03-24"
    assert (await own.json("/volume.json"))["last"] == "2024-03-23"
    own.clock.advance(30 * 86_400)
    assert "Messages were read up to 2024-03-24. To see newer ones" in await own.text("/todo")


# ── before anything is whole ─────────────────────────────────────────────────────────────────────


async def test_beside_the_first_import_nothing_is_worked_out(
    empty: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DashboardService, "read", None)  # whatever would read messages fails
    async with dashboard(empty, tmp_path) as opened, empty.tables.writing(ManualClock(NOW)):
        for _ in range(2):
            for page in ("/", f"/volume?{WEEK}", "/report"):
                async with opened.client.get(page) as answer:
                    assert answer.status == 503
                    assert answer.headers["Refresh"] == answer.headers["Retry-After"] == "10"
                    assert "The first import is running" in await answer.text()
            assert "error" in await opened.json("/volume.json", status=503)
            await empty.tables.messages.write([row(0)])


async def test_when_the_first_import_is_over_or_dead_there_are_numbers(
    empty: House, tmp_path: Path
) -> None:
    async with dashboard(empty, tmp_path) as opened:
        async with empty.tables.writing(ManualClock(NOW)):
            await empty.tables.messages.write([row(0)])
        assert "<h1>Overview</h1>" in await opened.text("/")
        async with empty.tables.writing(ManualClock(NOW)):
            assert await opened.status("/") == 503
            await empty.tables.messages.close_days()
            assert "<h1>Overview</h1>" in await opened.text("/")


async def test_beside_a_later_import_everything_is_shown(own: Dashboard) -> None:
    async with own.house.tables.writing(ManualClock(NOW)):
        assert "<h1>Overview</h1>" in await own.text("/")


async def test_the_start_shows_commands_that_are_understood(empty: House, tmp_path: Path) -> None:
    async with dashboard(empty, tmp_path) as opened:
        shown = re.findall(r"<pre>channelstats (.+)</pre>", await opened.text("/"))
    parsers = {command.name: make_parser(command) for command in COMMANDS}
    assert len(shown) == 3
    for line in shown:
        name, *words = shlex.split(line)
        parsers[name].parse_args(words)


async def test_who_is_no_member_any_more_is_not_listed_as_one(own: Dashboard) -> None:
    address, bulk = "/channel.json?channel=CGEN", own.house.tables.bulk
    for members in ("UALICE,UBOB,UCARA", "UALICE,UCARA"):
        await bulk.put("CGEN", members)
        rows = (await own.json(address))["tables"]["members"]["rows"]
        assert {row["person"] for row in rows} == set(members.split(","))


async def test_a_number_leads_to_its_rows_and_a_day_to_itself(board: Dashboard) -> None:
    days = "from=2024-03-10&to=2024-03-16"
    for name in (*VIEWS, "person", "channel"):
        query = f"{days}&person=bob" if name == "person" else f"{days}&channel=general"
        page = Elements(await board.text(f"/{name}?{query}"))
        for link in {link for link in page.links if "only=" in link}:
            assert await board.status(link) == 200, link
    page = Elements(await board.text(f"/?{days}&chart=messages"))
    assert f"/messages?{days}" in page.links
    assert f"/messages?channel=CDEV&{days}" in page.links
    assert "/?chart=messages&from=2024-03-12&to=2024-03-12" in page.links
    hours = [link for link in page.links if re.search(r"only=[a-z]+day-\d\d-00&", link)]
    assert "Messages written on a " in await board.text(hours[0])
    reactions = Elements(await board.text(f"/reactions?{days}"))
    assert f"/messages?only=emoji-tada&{days}" in reactions.links
    newcomers = Elements(await board.text(f"/newcomers?{days}"))
    [group, *_] = [link for link in newcomers.links if link.startswith("/group?")]
    assert "Whose first message was in the week from " in await board.text(group)
    assert await board.status(f"/group?{days}&only=monday-09-00") == 400
    channels = Elements(await board.text(f"/channels?{days}"))
    members = f"/channel?channel=CGEN&{days}"
    assert f"{members}#table-members" in channels.links
    assert 'id="table-members"' in await board.text(members)
    listed = Elements(await board.text(f"/people?{days}"))
    assert f"/people?{days}#table-people" in listed.links
