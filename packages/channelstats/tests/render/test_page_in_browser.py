"""The page of a report in a real browser."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from channelstats.pages.components import table
from channelstats.pages.model import Choice, Section
from channelstats.pages.model import Page as Report
from channelstats.render.html import html_of
from channelstats.render.names import Directory
from support.channelstats.weeks import Week
from support.chromium import Chromium, Page
from support.contrast import LOW_CONTRAST

pytestmark = pytest.mark.browser

WIDE, NARROW = 1200, 360
KINDS = {"global": "", "channel": "CDEV", "user": "UALICE"}


async def opened(browser: Chromium, week: Week, folder: Path, kind: str) -> Page:
    """The page of a report in a tab of its own."""
    file = folder / f"{kind}.html"
    file.write_text(week.text(kind, "html", KINDS[kind]), "utf-8")
    page = await browser.open(file.as_uri())
    await page.until("document.querySelector('footer')")
    return page


@pytest.fixture
async def page(browser: Chromium, w2: Week, tmp_path: Path) -> Page:
    return await opened(browser, w2, tmp_path, "global")


async def shown(page: Page, width: int, scheme: str) -> None:
    """See the page in a window of that width and scheme."""
    size: dict[str, Any] = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
    await page.command("Emulation.setDeviceMetricsOverride", width=width, **size)
    scheme_feature = {"name": "prefers-color-scheme", "value": scheme}
    await page.command("Emulation.setEmulatedMedia", media="screen", features=[scheme_feature])


@pytest.mark.parametrize("kind", KINDS)
async def test_the_page_fits_every_window(
    browser: Chromium, w2: Week, tmp_path: Path, kind: str
) -> None:
    page = await opened(browser, w2, tmp_path, kind)
    for width in (WIDE, 1100, 900, 700, NARROW):
        await shown(page, width, "light")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_a_reason_is_read_on_a_phone_without_scrolling(
    browser: Chromium, tmp_path: Path
) -> None:
    cells = {
        "action": "Welcome",
        "person": "UALICE",
        "channel": "CGEN",
        "date": "2024-03-12",
        "reason": "New: nobody replied or reacted to 1 message of theirs, 1 question among them.",
    }
    section = Section.of(table("queue", "To do first", pl.DataFrame([cells])))
    day = date(2024, 3, 12)
    made = Report("global", ("Report",), Choice(day, day), (day, day), sections=(section,))
    file = tmp_path / "report.html"
    file.write_text(html_of(made, Directory()), "utf-8")
    page = await browser.open(file.as_uri())
    await shown(page, NARROW, "light")
    box = "document.querySelector('.scroll')"
    assert await page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth")


async def test_a_long_name_is_seen_whole(browser: Chromium, w2: Week, tmp_path: Path) -> None:
    long = replace(w2.directory, channels={"CGEN": "incident_response_" * 4, "CDEV": "dev"})
    page = await opened(browser, w2.named(long), tmp_path, "global")
    cut = "[...document.querySelectorAll('tbody th')].filter(of => of.scrollWidth > of.clientWidth)"
    for width in (WIDE, NARROW):
        await shown(page, width, "light")
        assert await page.evaluate(f"{cut}.map(of => of.textContent)") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_stands_out_from_what_is_behind_it(page: Page, scheme: str) -> None:
    await shown(page, WIDE, scheme)
    assert await page.evaluate(LOW_CONTRAST) == []


async def test_dark_and_light_are_the_choice_of_the_reader(page: Page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    await shown(page, WIDE, "light")
    light = await page.evaluate(background)
    await shown(page, WIDE, "dark")
    assert await page.evaluate(background) != light


async def test_the_page_asks_for_nothing_and_complains_of_nothing(page: Page) -> None:
    assert await page.evaluate("performance.getEntriesByType('resource').length") == 0
    assert await page.evaluate("document.scripts.length") == 0
    complaints: list[Any] = []
    page.on("Log.entryAdded", complaints.append)
    await page.command("Log.enable")
    await page.evaluate("1")
    assert complaints == []


async def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(page: Page) -> None:
    regions = "[...document.querySelectorAll('.scroll')]"
    named = f"{regions}.every((part) => part.tabIndex === 0 && part.getAttribute('aria-label'))"
    assert await page.evaluate(f"{regions}.length") > 0
    assert await page.evaluate(f"Boolean({named})")


async def test_a_wide_table_scrolls_by_keyboard_and_the_page_does_not(page: Page) -> None:
    await shown(page, NARROW, "light")
    regions = "[...document.querySelectorAll('.scroll')]"
    wide = (
        f"{regions}.find((part) => !part.closest('details') && part.scrollWidth > part.clientWidth)"
    )
    await page.evaluate(f"{wide}.focus()")
    key = {"key": "ArrowRight", "code": "ArrowRight", "windowsVirtualKeyCode": 39}
    await page.command("Input.dispatchKeyEvent", type="keyDown", **key)
    await page.until(f"{wide}.scrollLeft > 0")
    assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW
