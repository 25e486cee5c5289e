"""The pages of the console in a real browser."""

import asyncio
from pathlib import Path

from support.axe import violations
from support.chromium import TIMEOUT, Chromium, Page
from support.service import Service, autopush


async def log_in(browser: Chromium, running: Service) -> tuple[Page, list[str]]:
    """A tab with the page Now, and what its console complains about."""
    complaints: list[str] = []
    token = (await autopush("console-token", "--data", running.data)).strip()
    page = await browser.open()
    page.on("Log.entryAdded", lambda event: complaints.append(event["entry"]["text"]))
    await page.goto(f"{running.node_api}/console/")
    assert await page.evaluate("location.pathname") == "/console/log-in"
    await page.evaluate(f"document.querySelector('#token').value = '{token}'")
    loaded = asyncio.Event()
    page.on("Page.loadEventFired", lambda _: loaded.set())
    await page.evaluate("document.querySelector('form').requestSubmit()")
    await asyncio.wait_for(loaded.wait(), TIMEOUT)
    await page.until("location.pathname === '/console/' && document.querySelector('#tiles svg')")
    return page, complaints


def shown(section: str, name: str) -> str:
    """What the page says under that name, as a JavaScript expression."""
    return (
        f"[...document.querySelectorAll('#{section} > div')]"
        f".find((each) => each.firstChild.textContent === '{name}')?.lastChild.textContent"
    )


async def look_at(page: Page, name: str, screens: Path) -> None:
    """No window scrolls sideways, and axe finds nothing."""
    for width in (1280, 390):
        for dark in (False, True):
            await page.emulate(width=width, height=900, dark=dark)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            found = await violations(page)
            assert not found, found
            await page.screenshot(screens / f"{name}-{width}-{'dark' if dark else 'light'}.png")
