"""Marking what is to be done: who may, what becomes of it, who did it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channelstats.tables.marks import MarkState
from support.channelstats.dashboard import Dashboard, dashboard
from support.channelstats.house import NOW, House

ITEM = "question CGEN/1709573400000300"


async def mark(
    board: Dashboard,
    said: str = "done",
    *,
    item: str = ITEM,
    to: str = "/todo?weeks=1",
    status: int = 303,
) -> str:
    """The answer's place, or what it says."""
    form = {"item": item, "as": said, "to": to}
    async with board.client.post("/marks", data=form, allow_redirects=False) as answer:
        assert answer.status == status, await answer.text()
        return answer.headers.get("Location") or await answer.text()


@pytest.fixture
async def asking(questions: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with dashboard(questions, tmp_path, slack_name="example") as found:
        yield found


async def test_an_item_is_marked_and_listed_again(board: Dashboard) -> None:
    marks = board.house.tables.marks
    assert await mark(board) == "/todo?weeks=1"
    assert (await marks.all())[ITEM].state is MarkState.DONE
    await mark(board, "listed")
    assert await marks.all() == {}


@pytest.mark.parametrize(
    ("said", "words", "undo"),
    [
        ("done", "Marked as done.", True),
        ("snoozed", "Left out for a week.", True),
        ("not_a_question", "Marked as no question.", True),
        ("listed", "Listed again.", False),
    ],
)
async def test_what_became_of_an_item_is_said_once_where_it_was(
    asking: Dashboard, said: str, words: str, undo: bool
) -> None:
    page = "/todo?from=2024-03-10&to=2024-03-16"
    text = await asking.text(page)
    [to] = set(re.findall(r'action="/marks".*?name="to" value="([^"]+)"', text, re.DOTALL))
    assert to.endswith("#table-queue")
    assert 'id="table-queue"' in text
    assert words not in text
    assert await mark(asking, said, to=to) == to
    after = await asking.text(page)
    [status] = re.findall(r'<form class="marking said".*?</form>', after, re.DOTALL)
    assert 'role="status"' in status
    assert words in status
    assert f'value="{ITEM}"' in status
    assert ("Undo" in status) is undo
    assert words not in await asking.text(page)


async def test_the_list_on_the_overview_leads_to_that_of_the_same_days(asking: Dashboard) -> None:
    days = "from=2024-03-10&amp;to=2024-03-16"
    for asked in ("from=2024-03-10&to=2024-03-16", "weeks=1"):
        text = await asking.text(f"/?{asked}")
        [link] = re.findall(r'<a href="(/todo[^"]*)">The whole list', text)
        assert days in link


async def test_who_said_who_they_are_is_named(board: Dashboard) -> None:
    async with board.client.post("/me", data={"person": "UBOB", "to": "/"}):
        pass
    await mark(board)
    assert (await board.house.tables.marks.all())[ITEM].by == "UBOB"


async def test_what_is_no_item_and_no_mark_is_refused(board: Dashboard) -> None:
    assert "item: expected" in await mark(board, item="everything", status=400)
    assert "as: expected one of done, snoozed" in await mark(board, "hidden", status=400)
    assert await mark(board, to="https://example.org/") == "/"


async def test_a_page_of_another_site_marks_nothing(board: Dashboard) -> None:
    form, headers = {"item": ITEM, "as": "done"}, {"Sec-Fetch-Site": "cross-site"}
    async with board.client.post("/marks", data=form, headers=headers) as answer:
        assert answer.status == 403
    assert await board.house.tables.marks.all() == {}


async def test_a_mark_is_on_the_next_page_and_in_the_report(asking: Dashboard) -> None:
    days = "from=2024-03-10&to=2024-03-16"
    before = json.loads(await asking.text(f"/todo.json?{days}"))["tables"]
    item = before["queue"]["rows"][0]["item"]
    assert "Nobody answered this" in await asking.text(f"/report?{days}")
    await mark(asking, "snoozed", item=item)
    assert "List again" in await asking.text(f"/todo?{days}")
    after = json.loads(await asking.text(f"/todo.json?{days}"))["tables"]
    assert after["queue"]["rows"] == before["queue"]["rows"][1:]
    assert [row["state"] for row in after["marked"]["rows"]] == ["snoozed"]
    assert (await asking.house.tables.marks.all())[item].until == int(NOW) + 7 * 86_400
