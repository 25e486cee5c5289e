"""Marking what is to be done: who may, what becomes of it, who did it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channelstats.tables.marks import MarkState
from channelstats.web.auth import personal_token
from support.channelstats.dashboard import TOKEN, Dashboard, dashboard
from support.channelstats.house import NOW, House

ITEM = "question CGEN/1709573400000300"


async def mark(
    board: Dashboard,
    said: str = "done",
    *items: str,
    to: str = "/todo?weeks=1",
    status: int = 303,
    person: str = "",
) -> str:
    """The answer's place, or what it says."""
    form = [("as", said), ("to", to), ("person", person)]
    form += [("item", item) for item in items or [ITEM]]
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
        ("done", "Done: {label}.", True),
        ("snoozed", "Left out for a week: {label}.", True),
        ("not_a_question", "Marked as no question: {label}.", True),
        ("listed", "Listed again: {label}.", False),
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
    item, label = re.findall(r'data-item="([^"]+)" data-label="([^"]+)"', text)[0]
    words = words.format(label=label)
    assert words not in text
    assert await mark(asking, said, item, to=to) == to
    after = await asking.text(page)
    [status] = re.findall(r'<form class="marking said".*?</form>', after, re.DOTALL)
    assert 'role="status"' in status
    assert words in status
    assert f'value="{item}"' in status
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


async def test_who_has_a_token_of_their_own_is_named_whoever_they_say_to_be(
    guarded: Dashboard,
) -> None:
    form = {"token": personal_token(TOKEN, "UBOB"), "to": "/todo"}
    async with guarded.client.post("/login", data=form) as answer:
        assert "Me, Bob Berg" in (text := await answer.text())
    assert "This isn\N{RIGHT SINGLE QUOTATION MARK}t me" not in text
    async with guarded.client.post("/me", data={"person": "UALICE", "to": "/"}):
        pass
    await mark(guarded)
    assert (await guarded.house.tables.marks.all())[ITEM].by == "UBOB"


async def test_items_are_assigned_to_the_team_and_each_finds_theirs(
    questions: House, tmp_path: Path
) -> None:
    async with dashboard(questions, tmp_path, team="bob,alice,nobody") as board:
        days, as_bob = "from=2024-03-10&to=2024-03-16", {"person": "UBOB", "to": "/"}
        first, second, *_ = re.findall(r'data-item="([^"]+)"', await board.text(f"/todo?{days}"))
        assert "mine: expected of somebody" in await board.text("/todo?mine=yes", status=400)
        async with board.client.post("/me", data=as_bob):
            pass
        await mark(board, "assigned", first, person="UALICE")
        await mark(board, "assigned", second, person="UBOB")
        assert "person: expected" in await mark(board, "assigned", person="UCARA", status=400)
        assert "ali, by Bob Berg<" in await board.text(f"/todo?{days}")
        mine = (await board.json(f"/todo.json?{days}&mine=yes"))["tables"]["queue"]
        assert [row["item"] for row in mine["rows"]] == [second]
        assert [row["assignee"] for row in mine["rows"]] == ["UBOB"]
        text = await board.text(f"/todo?{days}&mine=yes")
        assert set(re.findall(r'data-item="([^"]+)"', text)) == {second}
        assert set(re.findall(r'name="to" value="(/todo[^"]*table-queue)"', text)) == {
            "/todo?weeks=1&amp;mine=yes#table-queue"
        }
        await mark(board, "done", first)
        await mark(board, "listed", first)
        assert "ali, by Bob Berg<" in await board.text(f"/todo?{days}"), "still hers"
        await mark(board, "assigned", first, second)
        assert await questions.tables.marks.all() == {}


async def test_what_is_no_item_and_no_mark_is_refused(board: Dashboard) -> None:
    assert "item: expected" in await mark(board, "done", ITEM, "everything", status=400)
    assert "as: expected one of done, snoozed" in await mark(board, "hidden", status=400)
    no_question = await mark(board, "not_a_question", ITEM, "newcomer UBOB", status=400)
    assert "as: only questions" in no_question
    assert await board.house.tables.marks.all() == {}, "nothing of it"
    assert await mark(board, to="https://example.org/") == "/"


async def test_several_items_are_marked_and_listed_again_at_once(asking: Dashboard) -> None:
    marks, others = asking.house.tables.marks, ("newcomer UBOB", "channel CDEV/1709573400000300")
    page = await mark(asking, "done", ITEM, *others)
    assert set(await marks.all()) == {ITEM, *others}
    [status] = re.findall(
        r'<form class="marking said".*?</form>', await asking.text(page), re.DOTALL
    )
    assert "Done: 3 items." in status
    await mark(asking, "listed", *re.findall(r'name="item" value="([^"]+)"', status))
    assert await marks.all() == {}


async def test_without_anything_checked_that_is_said(asking: Dashboard) -> None:
    form = {"as": "done", "to": "/todo"}
    async with asking.client.post("/marks", data=form) as answer:
        assert "Nothing is checked." in await answer.text()


async def test_a_script_gets_no_page(board: Dashboard) -> None:
    headers = {"Accept": "application/json"}
    for said, status in (("done", 204), ("hidden", 400)):
        form = {"item": ITEM, "as": said}
        async with board.client.post("/marks", data=form, headers=headers) as answer:
            assert answer.status == status
            assert status == 204 or "as: expected" in (await answer.json())["error"]


async def test_a_page_of_another_site_marks_nothing(board: Dashboard) -> None:
    form, headers = {"item": ITEM, "as": "done"}, {"Sec-Fetch-Site": "cross-site"}
    async with board.client.post("/marks", data=form, headers=headers) as answer:
        assert answer.status == 403
    assert await board.house.tables.marks.all() == {}


async def test_a_mark_is_on_the_next_page_and_in_the_report(asking: Dashboard) -> None:
    days = "from=2024-03-10&to=2024-03-16"
    before = (await asking.json(f"/todo.json?{days}"))["tables"]
    item = before["queue"]["rows"][0]["item"]
    assert "Nobody answered this" in await asking.text(f"/report?{days}")
    await mark(asking, "snoozed", item)
    assert "List again" in await asking.text(f"/todo?{days}")
    after = (await asking.json(f"/todo.json?{days}"))["tables"]
    assert after["queue"]["rows"] == before["queue"]["rows"][1:]
    assert [row["state"] for row in after["marked"]["rows"]] == ["snoozed"]
    assert (await asking.house.tables.marks.all())[item].until == int(NOW) + 7 * 86_400
