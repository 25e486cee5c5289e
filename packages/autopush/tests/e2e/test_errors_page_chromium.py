"""The page of errors in a real browser."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from autopush.webpush.errors import ERRORS
from support.chromium import Chromium, Page
from support.start_page_server import Site, start_page_site

pytestmark = pytest.mark.browser


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with start_page_site() as started:
        yield started


async def open_errors(
    browser: Chromium, site: Site, fragment: str = ""
) -> tuple[Page, asyncio.Queue[str]]:
    """A tab with the page, and what its console complains about."""
    complaints: asyncio.Queue[str] = asyncio.Queue()
    page = await browser.open()
    page.on("Log.entryAdded", lambda event: complaints.put_nowait(event["entry"]["text"]))
    await page.goto(f"{site.url}errors{fragment}")
    return page, complaints


async def test_more_info_scrolls_to_the_error_and_marks_it(browser: Chromium, site: Site) -> None:
    page, complaints = await open_errors(browser, site, "#errno-109")
    await page.until("scrollY > 0")
    shown, marked, title = await page.evaluate(
        """(() => { const error = document.querySelector(":target");
          const { top, bottom } = error.getBoundingClientRect();
          return [top >= 0 && bottom <= innerHeight, getComputedStyle(error).outlineStyle,
                  error.querySelector("h2").innerText]; })()"""
    )
    assert (shown, marked, title) == (True, "solid", "109: Invalid authentication")
    assert complaints.empty()


async def test_it_follows_the_colour_scheme(browser: Chromium, site: Site) -> None:
    page, _ = await open_errors(browser, site)
    for dark, expected in (
        (False, ["rgb(246, 245, 242)", "rgb(255, 255, 255)"]),
        (True, ["rgb(19, 18, 24)", "rgb(28, 27, 35)"]),
    ):
        await page.emulate(dark=dark)
        colours = await page.evaluate(
            """[getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.querySelector(".error")).backgroundColor]"""
        )
        assert colours == expected


async def test_no_window_scrolls_sideways(browser: Chromium, site: Site) -> None:
    page, _ = await open_errors(browser, site)
    for width in (1280, 360, 320):
        await page.emulate(width=width, height=780)
        assert await page.evaluate("document.documentElement.scrollWidth") == width


async def test_the_keyboard_reaches_the_content_and_every_error(
    browser: Chromium, site: Site
) -> None:
    page, _ = await open_errors(browser, site)
    focused = []
    for _ in range(4):
        for kind in ("keyDown", "keyUp"):
            await page.command(
                "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
            )
        focused.append(
            await page.evaluate("document.activeElement.innerText.split('\\n')[0].trim()")
        )
    assert focused[:2] == ["Skip to the content", "start page"]
    assert focused[3] == str(int(next(iter(ERRORS))))
