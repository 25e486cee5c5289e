"""The dashboard in a real browser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from channelstats.pages.model import VIEWS
from support.axe import need_axe, violations
from support.channelstats.dashboard import TOKEN, Dashboard
from support.chromium import TIMEOUT, Chromium, Page
from support.contrast import LOW_CONTRAST

pytestmark = pytest.mark.browser

WIDE, NARROW = 1280, 360
PHONE = 390, 844
WEEK = "weeks=1"

UNNAMED = """
[...document.querySelectorAll('a, button, input:not([type=hidden]), select, svg, table')]
  .filter((element) => element.checkVisibility() && !element.closest('[aria-hidden]'))
  .filter((element) => !(
    element.textContent.trim() || element.getAttribute('aria-label') || element.labels?.length
  ) || (element.tagName === 'TABLE' && !element.caption?.textContent))
  .map((element) => element.outerHTML.slice(0, 80))
"""


MISPLACED = """
[...document.querySelectorAll(
  '[role=img] :is(a, [tabindex]), [aria-hidden] :is(a[href], button, [tabindex]), '
  + '[role=list] > :not([role=listitem]), :not([role=list]) > [role=listitem], '
  + '[role=listitem] > a:not([tabindex="-1"]), svg a:not([aria-label])'
)].map((element) => element.outerHTML.slice(0, 80))
"""
"""Links where nobody but the eye finds them, lists that are none."""

TABLES_ALONE = """
(() => {
  const paths = (selector) =>
    [...document.querySelectorAll(selector)].map((of) => of.getAttribute('href'));
  const listed = new Set(paths('td a, th a'));
  return [...new Set(paths('svg a'))].filter((of) => !listed.has(of));
})()
"""
"""Where charts lead and tables do not."""

CHIP = "document.querySelector('.chip').textContent"


class Watch:
    """What a page asks for and complains of."""

    def __init__(self, page: Page) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.on("Network.requestWillBeSent", lambda e: self.asked.append(e["request"]["url"]))
        page.on("Log.entryAdded", lambda e: self.complaints.append(str(e["entry"])))
        page.on("Runtime.exceptionThrown", lambda e: self.complaints.append(str(e)))
        page.on("Runtime.consoleAPICalled", lambda e: self.complaints.append(str(e)))


@pytest.fixture
async def page(browser: Chromium) -> Page:
    opened = await browser.open()
    await opened.command("Network.enable")
    return opened


async def test_every_view_is_shown_in_every_window_and_scheme(board: Dashboard, page: Page) -> None:
    watch = Watch(page)
    for name in VIEWS:
        await page.emulate(width=WIDE)
        await page.goto(f"{board.url}/{name}?{WEEK}")
        for width, dark in ((WIDE, False), (NARROW, True)):
            # Without the change from one colour to the other that takes a moment.
            await page.emulate(width=width, dark=dark, media={"prefers-reduced-motion": "reduce"})
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert await page.evaluate(LOW_CONTRAST) == [], (name, width, dark)
            assert await page.evaluate(UNNAMED) == []
            assert await page.evaluate(MISPLACED) == []
        pictures = "[...document.querySelectorAll('svg[aria-label]')]"
        seen = f"{pictures}.filter((of) => of.checkVisibility()).length"
        assert await page.evaluate(f"2 * {seen} === {pictures}.length")
    await page.goto(f"{board.url}/report?{WEEK}")
    assert watch.complaints == []
    assert watch.asked
    assert [one for one in watch.asked if not one.startswith((f"{board.url}/", "data:"))] == []


async def test_axe_finds_nothing_in_either_scheme(board: Dashboard, page: Page) -> None:
    need_axe()
    for view in ("overview?chart=messages&channel=dev", "todo"):
        for width, dark in ((WIDE, True), (NARROW, False)):
            await page.emulate(width=width, dark=dark, media={"prefers-reduced-motion": "reduce"})
            await page.goto(f"{board.url}/{view}")
            assert await violations(page) == [], (view, width)


SIDEWAYS = """
[document.documentElement, ...document.querySelectorAll('.scroll')]
  .filter((of) => of.checkVisibility() && of.scrollWidth > of.clientWidth)
  .map((of) => `${of.getAttribute('aria-label')} ${of.scrollWidth} > ${of.clientWidth}`)
"""


@pytest.mark.slow
async def test_nothing_is_scrolled_sideways_where_there_is_room(
    board: Dashboard, page: Page
) -> None:
    for width in (1265, 1024, 785):  # Those of usual windows, with a bar to scroll by.
        await page.emulate(width=width)
        for name in ("overview", "todo", "channels", "people"):
            await page.goto(f"{board.url}/{name}?{WEEK}")
            # The widest of what can be marked.
            await page.evaluate(
                "for (const of of document.querySelectorAll('.marking'))"
                " of.append(Object.assign(document.createElement('button'),"
                " { textContent: 'Not a question' }))"
            )
            assert await page.evaluate(SIDEWAYS) == [], (name, width)
    await page.emulate(width=1265)
    row = "[...document.querySelectorAll('.filters label, .filters button')]"
    row = f"{row}.filter((of) => of.getClientRects().length)"
    assert (
        await page.evaluate(
            f"new Set({row}.map((of) => Math.round(of.getBoundingClientRect().bottom))).size"
        )
        == 1
    )
    await page.emulate(width=305)
    assert await page.evaluate("document.documentElement.scrollWidth") == 305


@pytest.mark.slow
async def test_names_and_titles_are_whole_however_long_they_are(
    board: Dashboard, page: Page
) -> None:
    for width in (WIDE, NARROW):
        await page.emulate(width=width)
        await page.goto(f"{board.url}/channels?{WEEK}")
        whole = await page.evaluate(
            """(() => {
              const name = document.querySelector('#table-channels tbody bdi');
              name.textContent = `#${'x'.repeat(79)}`;
              const { left, right } = name.getBoundingClientRect();
              const cell = name.closest('th');
              return cell.scrollWidth <= cell.clientWidth && right - left <= innerWidth / 2;
            })()"""
        )
        assert whole, width


async def test_on_a_phone_the_first_figure_is_in_the_upper_half(
    board: Dashboard, page: Page
) -> None:
    await page.emulate(width=PHONE[0])
    await page.goto(f"{board.url}/overview?{WEEK}")
    top = "document.querySelector('.summary').getBoundingClientRect().bottom"
    assert await page.evaluate(top) < PHONE[1] / 2
    fields = "[...document.querySelectorAll('.filters .more input')]"
    assert not await page.evaluate(f"{fields}.some((of) => of.checkVisibility())")
    await page.evaluate("document.querySelector('.unfold input').click()")
    assert await page.evaluate(f"{fields}.every((of) => of.checkVisibility())")


async def test_on_a_phone_every_column_of_what_is_to_do_is_in_sight(
    board: Dashboard, page: Page
) -> None:
    await page.emulate(width=PHONE[0])
    await page.goto(f"{board.url}/todo?{WEEK}")
    assert await page.evaluate("document.querySelectorAll('.listed td').length") > 0
    assert await page.evaluate(SIDEWAYS) == []
    cells = "[...document.querySelectorAll('.listed tbody :is(th, td)')]"
    right = f"{cells}.map((of) => of.getBoundingClientRect().right)"
    assert max(await page.evaluate(right)) <= PHONE[0]
    named = "[...document.querySelectorAll('.listed td')].every((of) => of.dataset.title)"
    assert await page.evaluate(named)


async def test_dark_and_light_are_the_choice_of_the_visitor(board: Dashboard, page: Page) -> None:
    await page.goto(board.url)
    found = []
    for dark in (False, True):
        await page.emulate(dark=dark)
        found.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert found[0] != found[1]


@asynccontextmanager
async def another_page(page: Page) -> AsyncIterator[None]:
    """What is done within leads to another page; afterwards that is loaded."""
    loaded = asyncio.Event()
    page.on("Page.loadEventFired", lambda _: loaded.set())
    yield
    await asyncio.wait_for(loaded.wait(), TIMEOUT)


async def pressed(page: Page, key: str) -> None:
    for kind in ("keyDown", "keyUp"):
        event: dict[str, Any] = {"type": kind, "key": key, "code": key}
        if key == "Enter":
            event |= {"windowsVirtualKeyCode": 13, "text": "\r" if kind == "keyDown" else ""}
        else:
            event |= {"windowsVirtualKeyCode": 9}
        await page.command("Input.dispatchKeyEvent", **event)


async def test_everything_is_reached_by_keyboard_and_seen_to_be(
    board: Dashboard, page: Page
) -> None:
    await page.goto(f"{board.url}/people?{WEEK}")
    reached = []
    for _ in range(40):
        await pressed(page, "Tab")
        reached.append(
            await page.evaluate(
                """(() => {
                  const { tagName, name, className, role } = document.activeElement;
                  const drawn = getComputedStyle(document.activeElement).outlineStyle !== 'none';
                  const named = `${tagName} ${name || className || role || ''}`.trim();
                  return drawn ? named : `unseen ${named}`;
                })()"""
            )
        )
    assert reached[0] == "A skip"
    for wanted in ("INPUT from", "INPUT to", "INPUT channel", "SELECT against", "BUTTON submit"):
        assert wanted in reached
    assert "DIV scroll" in reached
    # The calendar within a field of a date draws its own; after the last comes the first.
    own = {"unseen INPUT from", "unseen INPUT to", "unseen BODY"}
    assert [name for name in reached if name.startswith("unseen") and name not in own] == []


@pytest.mark.slow
async def test_where_a_chart_leads_a_table_leads_that_the_keyboard_reaches(
    board: Dashboard, page: Page
) -> None:
    whole = "from=2024-03-10&to=2024-03-16"
    for name in ("volume", "hours", "threads", "network"):
        of_heat = "&table=week&sort=-messages" if name == "hours" else ""
        await page.goto(f"{board.url}/{name}?{whole}{of_heat}")
        assert await page.evaluate("document.querySelectorAll('svg a').length") > 0, name
        assert await page.evaluate(TABLES_ALONE) == [], name


async def test_a_bar_leads_to_what_it_counts(board: Dashboard, page: Page) -> None:
    await page.goto(f"{board.url}/hours?{WEEK}")
    bar = "[...document.querySelectorAll('.bars.wide a')].find((of) => of.checkVisibility())"
    label = await page.evaluate(f"{bar}.getAttribute('aria-label')")
    async with another_page(page):
        await page.evaluate(f"{bar}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    rows = await page.evaluate("document.querySelectorAll('#table-messages tbody tr').length")
    assert label.splitlines()[1] == f"This period: {rows}"


async def test_a_table_is_sorted_by_keyboard(board: Dashboard, page: Page) -> None:
    await page.goto(f"{board.url}/people?{WEEK}")
    await page.evaluate("document.querySelector('#table-people thead th:nth-child(2) a').focus()")
    async with another_page(page):
        await pressed(page, "Enter")
    assert (await page.evaluate("location.search + location.hash")).endswith(
        "table=people&sort=person#table-people"
    )
    names = "[...document.querySelectorAll('#table-people tbody th')].map((of) => of.innerText)"
    shown = await page.evaluate(names)
    assert shown == sorted(shown, key=str.casefold)
    assert len(shown) > 1
    sorted_by = "document.querySelector('#table-people [aria-sort=ascending]').innerText"
    assert (await page.evaluate(sorted_by)).startswith("Person")


@pytest.mark.slow
async def test_a_choice_is_shown_as_soon_as_it_is_made(board: Dashboard, page: Page) -> None:
    await page.goto(f"{board.url}/volume?{WEEK}")
    for field, value, event in ((".channel", "#dev", "input"), ("select", "year", "change")):
        place = f"document.querySelector('.filters {field}')"
        chosen = f"{place}.value = '{value}'; {place}.dispatchEvent(new Event('{event}'))"
        async with another_page(page):
            await page.evaluate(f"{chosen}; 0")
        assert await page.evaluate(CHIP) == "#dev\N{MULTIPLICATION SIGN}"
    query = await page.evaluate("location.search")
    assert query == "?from=2024-03-10&to=2024-03-16&channel=%23dev&against=year"


async def test_people_are_offered_and_found(board: Dashboard, page: Page) -> None:
    await page.goto(f"{board.url}/volume?{WEEK}")
    await page.evaluate("document.querySelector('.person').focus()")
    await page.command("Input.insertText", text="Ber")
    await page.until("document.querySelector('#people option')?.value === 'Bob Berg'")
    await page.evaluate("document.querySelector('.person').value = 'Bob Berg'")
    async with another_page(page):
        await pressed(page, "Enter")
    assert await page.evaluate(CHIP) == "Bob Berg\N{MULTIPLICATION SIGN}"


@pytest.mark.slow
async def test_a_chart_shows_its_numbers_where_the_pointer_is(board: Dashboard, page: Page) -> None:
    await page.emulate(width=WIDE)
    await page.goto(f"{board.url}/volume?{WEEK}")
    place = await page.evaluate(
        """(() => {
          const seen = [...document.querySelectorAll('.hit')].find((of) => of.checkVisibility());
          const { x, y, width, height } = seen.getBoundingClientRect();
          return { x: x + width / 2, y: y + height / 2 };
        })()"""
    )
    await page.command("Input.dispatchMouseEvent", type="mouseMoved", **place)
    await page.until("!document.querySelector('#tip').hidden")
    tip = await page.evaluate("document.querySelector('#tip').textContent")
    assert tip.startswith("Sun 10 Mar 2024\nThis period: "), tip


async def test_all_of_it_works_without_a_script(board: Dashboard, page: Page) -> None:
    await page.command("Emulation.setScriptExecutionDisabled", value=True)
    await page.goto(f"{board.url}/volume?{WEEK}")
    await page.evaluate("document.querySelector('.person').focus()")
    await page.command("Input.insertText", text="Bob Berg")
    async with another_page(page):
        await pressed(page, "Enter")
    assert await page.evaluate(CHIP) == "Bob Berg\N{MULTIPLICATION SIGN}"
    async with another_page(page):
        await page.evaluate("document.querySelector('.me button').click()")
    assert await page.evaluate("document.querySelector('.me a').textContent") == "Me, Bob Berg"
    async with another_page(page):
        await page.evaluate("document.querySelector('.me a:not([aria-current])').click()")
    assert "person" not in await page.evaluate("location.search")


async def test_a_visitor_logs_in_once(guarded: Dashboard, page: Page) -> None:
    watch = Watch(page)
    await page.goto(f"{guarded.url}/volume?{WEEK}")
    assert await page.evaluate("location.pathname") == "/login"
    assert await page.evaluate(LOW_CONTRAST) == []
    await page.evaluate("document.querySelector('[type=password]').focus()")
    await page.command("Input.insertText", text=TOKEN)
    async with another_page(page):
        await pressed(page, "Enter")
    assert await page.evaluate("document.querySelector('h1').textContent") == "Volume"
    assert await page.evaluate("location.search") == f"?{WEEK}"
    assert await page.evaluate("document.cookie") == ""
    assert watch.complaints == []


@pytest.mark.slow
async def test_on_paper_there_are_numbers_and_no_controls(board: Dashboard, page: Page) -> None:
    await page.goto(f"{board.url}/people?{WEEK}")
    await page.command("Emulation.setEmulatedMedia", media="print")
    for gone in (".filters", ".side", ".actions"):
        assert await page.evaluate(f"document.querySelector('{gone}').checkVisibility()") is False
    for there in (".tile", "table", "h1"):
        assert await page.evaluate(f"document.querySelector('{there}').checkVisibility()")
    await page.goto(f"{board.url}/hours?{WEEK}")
    for width in (WIDE, NARROW):
        await page.emulate(width=width)
        await page.command("Emulation.setEmulatedMedia", media="print")
        assert await page.evaluate("document.querySelector('svg.wide').checkVisibility()")
        assert not await page.evaluate("document.querySelector('svg.narrow').checkVisibility()")


@pytest.mark.slow
async def test_with_colours_of_ones_own_it_is_seen_where_one_is(
    board: Dashboard, page: Page
) -> None:
    await page.emulate(media={"forced-colors": "active"})
    await page.goto(f"{board.url}/hours?{WEEK}")
    drawn = "[...document.querySelectorAll('a')].map((of) => getComputedStyle(of).outlineStyle)"
    here = "[...document.querySelectorAll('a')].map((of) => of.hasAttribute('aria-current'))"
    outlines, current = await page.evaluate(drawn), await page.evaluate(here)
    assert any(current)
    assert [outline == "solid" for outline in outlines] == current
