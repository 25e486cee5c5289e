"""Marking what is to be done in a real browser: in place, by keys, at once, and without scripts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.channelstats.dashboard import Dashboard, dashboard
from support.channelstats.house import House
from support.chromium import TIMEOUT, Chromium, Page
from support.contrast import LOW_CONTRAST

pytestmark = pytest.mark.browser

DAYS = "from=2024-03-10&to=2024-03-16"
ROWS = "[...document.querySelectorAll('#table-queue tbody tr:not([hidden])')]"
LABELS = f"{ROWS}.map((row) => row.dataset.label)"
SAID = "document.querySelector('#said').innerText"
FOCUSED = "document.activeElement.closest('tr')?.dataset.label ?? document.activeElement.tagName"


@pytest.fixture
async def asking(questions: House, tmp_path: Path) -> AsyncIterator[Dashboard]:
    async with dashboard(questions, tmp_path, slack_name="example", team="bob,alice") as found:
        yield found


@pytest.fixture
async def page(browser: Chromium, asking: Dashboard) -> Page:
    opened = await browser.open()
    await opened.goto(f"{asking.url}/todo?{DAYS}")
    return opened


async def press(page: Page, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        await page.command("Input.dispatchKeyEvent", type=kind, key=key, text=key)


async def say(page: Page, text: str) -> None:
    await page.until(f"{SAID}.startsWith({text!r})")


async def marks(board: Dashboard) -> dict[str, Any]:
    return dict(await board.house.tables.marks.all())


async def test_marking_by_button_stays_in_place_and_is_undone(
    asking: Dashboard, page: Page
) -> None:
    first, second, *_ = before = await page.evaluate(LABELS)
    middle = f"{ROWS}[0].scrollIntoView({{block: 'center'}})"
    await page.evaluate(f"{middle}; globalThis.before = scrollY")
    await page.evaluate(f"{ROWS}[0].querySelector('button[value=done]').click()")
    await say(page, f"Done: {first}.")
    assert await page.evaluate(LABELS) == before[1:]
    assert await page.evaluate(FOCUSED) == second
    assert await page.evaluate("scrollY === globalThis.before"), "the page did not move"
    assert len(await marks(asking)) == 1
    for scheme in (False, True):
        await page.emulate(width=390, dark=scheme, media={"prefers-reduced-motion": "reduce"})
        assert await page.evaluate(LOW_CONTRAST) == []
    await page.evaluate("document.querySelector('#said button').click()")
    await say(page, f"Listed again: {first}.")
    assert await page.evaluate(LABELS) == before
    assert await page.evaluate(FOCUSED) == first
    assert await marks(asking) == {}


async def test_items_are_walked_marked_and_listed_again_by_keys(
    asking: Dashboard, page: Page
) -> None:
    first, second, *rest = before = await page.evaluate(LABELS)
    await press(page, "d")
    assert await page.evaluate(LABELS) == before, "no item is the current one"
    walked = []
    for key in "jjk":
        await press(page, key)
        walked.append(await page.evaluate(FOCUSED))
    assert walked == [first, second, first]
    for key, words in (("d", "Done"), ("s", "Left out for a week")):
        await press(page, key)
        await say(page, words)
    assert await page.evaluate(LABELS) == rest
    assert {mark.state for mark in (await marks(asking)).values()} == {"done", "snoozed"}
    for left in (before[1:], before):
        await press(page, "u")
        await page.until(f"{LABELS}.length === {len(left)}")
    assert await page.evaluate(LABELS) == before
    assert await marks(asking) == {}
    await press(page, "u")
    await say(page, "There is nothing to undo.")
    await press(page, "?")
    assert await page.evaluate("document.querySelector('#keys').open")
    assert await page.evaluate(LOW_CONTRAST) == []
    await page.evaluate("document.querySelector('#keys').close()")
    await page.evaluate("document.querySelector('.person').focus()")
    for key in "jd":
        await press(page, key)
    assert await page.evaluate(FOCUSED) == "INPUT"
    assert await page.evaluate("document.querySelector('.person').value") == "jd"
    assert await page.evaluate(LABELS) == before


async def test_a_mark_that_is_not_stored_is_taken_back_and_said(
    asking: Dashboard, page: Page
) -> None:
    before = await page.evaluate(LABELS)
    await page.evaluate(f"{ROWS}[0].dataset.item = 'everything'")
    await page.evaluate(f"{ROWS}[0].querySelector('button[value=done]').click()")
    await say(page, "Not saved: item: expected the key of something to be done.")
    assert await page.evaluate(LABELS) == before


@pytest.mark.parametrize("with_scripts", [True, False])
async def test_what_is_checked_is_assigned_and_marked_at_once(
    asking: Dashboard, page: Page, *, with_scripts: bool
) -> None:
    await page.command("Emulation.setScriptExecutionDisabled", value=not with_scripts)
    loaded = asyncio.Event()
    page.on("Page.loadEventFired", lambda _: loaded.set())

    async def act(value: str, words: str) -> None:
        """Mark the first two."""
        loaded.clear()
        await page.evaluate(
            f"{ROWS}.slice(0, 2).forEach((row) => row.querySelector('input').checked = true);"
            f"document.querySelector('#checked button[value={value}]').click()"
        )
        if with_scripts:
            await say(page, words)
        else:
            await asyncio.wait_for(loaded.wait(), TIMEOUT)
            assert words in await page.evaluate("document.querySelector('form.said').innerText")

    await page.evaluate("location.reload()")
    await asyncio.wait_for(loaded.wait(), TIMEOUT)
    before = await page.evaluate(LABELS)
    await page.evaluate("document.querySelector('#checked select').value = 'UBOB'")
    await act("assigned", "Assigned")
    told = "document.querySelectorAll('.assignee')[1].textContent"
    assert await page.evaluate(told) == "Bob Berg"
    await act("done", "Done: 2 items.")
    assert await page.evaluate(LABELS) == before[2:]
    found = [(mark.state, mark.assignee) for mark in (await marks(asking)).values()]
    assert sorted(found) == [("assigned", "UBOB")] * 2 + [("done", "")] * 2
