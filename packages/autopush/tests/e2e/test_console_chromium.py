"""The console in a real browser, while messages are pushed: it shows what the run knows."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.application_server import ApplicationServer
from support.axe import need_axe
from support.chromium import Chromium, Page
from support.console_page import log_in, look_at, shown
from support.service import Service, autopush, service
from support.user_agent import UserAgent

pytestmark = pytest.mark.browser

PUSHES, REFUSED = 5, 2


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Service]:
    need_axe()
    async with service(tmp_path, "--console", "--workers", "2") as started:
        yield started


async def test_the_page_now_shows_what_was_pushed(
    browser: Chromium,
    running: Service,
    sender: ApplicationServer,
    agents: list[UserAgent],
    tmp_path: Path,
) -> None:
    page, complaints = await log_in(browser, running)
    await page.until("document.querySelector('#state').dataset.state === 'live'")
    agents.append(await running.connect())
    _, endpoint = await agents[0].register()
    for _ in range(PUSHES):
        assert (await sender.push(endpoint, b"x")).status == 201
        await agents[0].ack([await agents[0].notification()])
    for _ in range(REFUSED):
        assert (await sender.push(endpoint + "x", b"x")).status == 404
    for section, name, number in (
        ("pushes", "Received", PUSHES + REFUSED),
        ("pushes", "Delivered directly", PUSHES),
        ("pushes", "Acked by them", PUSHES),
        ("refused", "Status 404", REFUSED),
        ("refused", "Errno 102", REFUSED),
        ("store", "Stored since the start", PUSHES),
        ("store", "Waiting messages", 0),
    ):
        await page.until(f"{shown(section, name)} === '{number}'")
    await page.until("document.querySelector('[data-name=connected]').textContent === '1'")
    assert await page.evaluate(shown("service", "Workers")) == "2 of 2 ready"
    assert await page.evaluate("document.querySelectorAll('#workers tr').length") == 2
    await look_at(page, "now", tmp_path)
    assert complaints == []


async def test_the_page_and_its_log_in_survive_the_worker_that_serves_them(
    browser: Chromium, running: Service
) -> None:
    page, _ = await log_in(browser, running)
    state = "document.querySelector('#state').dataset.state"
    await page.until(f"{state} === 'live'")
    os.kill(running.workers[0], signal.SIGKILL)
    await page.until(f"{state} === 'lost'")
    await page.until(f"{state} === 'live'")
    await page.until(f"{shown('service', 'Workers')} === '2 of 2 ready'")


async def press(page: Page, button: str) -> None:
    await page.evaluate(f"document.querySelector('#{button}').click()")


async def enter(page: Page, field: str, text: str) -> None:
    await page.evaluate(f"document.querySelector('#{field}').value = {json.dumps(text)}")


async def says(page: Page, element: str, text: str) -> None:
    await page.until(f"document.querySelector('#{element}').textContent === {json.dumps(text)}")


async def test_a_user_agent_is_looked_up_tried_emptied_and_dropped(
    browser: Chromium,
    running: Service,
    sender: ApplicationServer,
    agents: list[UserAgent],
    tmp_path: Path,
) -> None:
    page, complaints = await log_in(browser, running)
    agents.append(await running.connect())
    uaid = str(agents[0].uaid)
    _, endpoint = await agents[0].register()
    await page.goto(f"{running.node_api}/console/look-up")
    await enter(page, "text", endpoint)
    await page.evaluate("document.querySelector('#form').requestSubmit()")
    await says(page, "headline", "A push would arrive: connected")
    await page.evaluate("document.querySelector('#channels button').click()")
    await press(page, "yes")
    steps = "document.querySelector('#steps').textContent"
    await page.until(f"{steps}.includes('Sent to the user agent (')")
    assert await page.evaluate("document.querySelector('#steps-why').textContent") == (
        "Waiting for the ack …"
    )
    notification = await agents[0].notification()
    assert "data" not in notification
    await agents[0].ack([notification])
    await page.until(f"{steps}.includes('Acked by the user agent, code 100')")
    await look_at(page, "test-push", tmp_path)
    await agents[0].close()
    for _ in range(3):
        assert (await sender.push(endpoint, b"abc", topic="mail")).status == 201
    assert (await sender.push(endpoint, b"abcd")).status == 201
    await enter(page, "text", uaid)
    await page.evaluate("document.querySelector('#form').requestSubmit()")
    await says(page, "headline", "A push would arrive later: not connected")
    pending = shown("facts", "Pending messages")
    assert await page.evaluate(pending) == "2, 7 bytes"
    assert await page.evaluate("document.querySelectorAll('#messages tr').length") == 2
    await look_at(page, "look-up", tmp_path)
    await press(page, "delete")
    await press(page, "cancel")
    assert await page.evaluate(pending) == "2, 7 bytes"
    await press(page, "delete")
    await press(page, "yes")
    await says(page, "done", "Deleted 2.")
    assert await page.evaluate(pending) == "0, 0 bytes"
    agents.append(await running.connect(uaid))
    assert agents[1].uaid == uaid
    await press(page, "drop")
    await press(page, "yes")
    await says(page, "done", "Dropped.")
    assert await agents[1].closed() == 1000
    agents.append(await running.connect(uaid))
    assert agents[2].uaid != uaid
    assert complaints == []
    log = "".join(running.output)
    assert uaid not in log
    assert endpoint not in log
    actions = [
        line.split()[1] for line in (await autopush("audit", "--data", running.data)).splitlines()
    ]
    assert actions == ["console-token", "log-in", "test-push", "delete-messages", "drop-user"]


async def test_a_user_is_given_a_link_and_revoked(
    browser: Chromium, running: Service, tmp_path: Path
) -> None:
    page, complaints = await log_in(browser, running)
    await page.goto(f"{running.node_api}/console/accounts")
    await says(page, "total", "0 of at most 1,000.")
    await enter(page, "name", "ann")
    await page.evaluate("document.querySelector('#add').requestSubmit()")
    await page.until("document.querySelector('#invitation').open")
    link = str(await page.evaluate("document.querySelector('#link').textContent"))
    assert link.startswith(running.websocket.replace("ws", "http", 1))
    assert await page.evaluate(
        "document.querySelector('#code svg').getBoundingClientRect().width > 100"
    )
    await look_at(page, "link", tmp_path)
    await press(page, "done")
    await page.until(f"!document.documentElement.outerHTML.includes({json.dumps(link)})")
    await says(page, "total", "1 of at most 1,000.")
    await press(page, "count")
    await page.until("document.querySelector('#users td:nth-child(5)').textContent === '0'")
    await look_at(page, "accounts", tmp_path)
    await page.evaluate("document.querySelector('[aria-label=\"Quota of ann\"]').click()")
    await enter(page, "number", "3")
    await press(page, "yes")
    quota = "document.querySelector('#users td:nth-child(3)').textContent"
    await page.until(f"{quota} === '3 at once'")
    await page.evaluate("document.querySelector('[aria-label=\"End of ann\"]').click()")
    await look_at(page, "question", tmp_path)
    await enter(page, "number", "2")
    await press(page, "yes")
    ends = "document.querySelector('#users td:nth-child(4)').textContent"
    await page.until(f"{ends}.startsWith('20')")
    await page.evaluate("document.querySelector('[aria-label=\"Revoke ann\"]').click()")
    await press(page, "yes")
    await says(page, "total", "0 of at most 1,000.")
    await page.goto(f"{running.node_api}/console/log-in")
    await look_at(page, "log-in", tmp_path)
    assert complaints == []
    assert link.rpartition("/")[2] not in "".join(running.output)


async def test_the_report_says_what_is_wrong_and_no_secret(
    browser: Chromium, sender: ApplicationServer, tmp_path: Path
) -> None:
    running = Service(tmp_path, ["--console"])
    running.is_executed = True  # the report is that of its own command line
    await running.start()
    try:
        page, complaints = await log_in(browser, running)
        assert (await sender.push(f"{running.endpoint}/wpush/v1/unknown", b"x")).status == 404
        await page.goto(f"{running.node_api}/console/report")
        await press(page, "make")
        await page.until("document.querySelector('#said').textContent === 'Done.'")
        report = str(await page.evaluate("document.querySelector('#report').textContent"))
        await look_at(page, "report", tmp_path)
    finally:
        await running.stop()
    for title in ("# autopush report, ", "## Settings", "## Doctor", "## Counted since the start"):
        assert title in report
    assert f"OK    data folder  {tmp_path}, mode 700" in report
    assert f"port {running.endpoint_port}: in use by this service" in report
    assert "autopush_notification_message_error code=404, router=none, vapid=False: 1" in report
    # The 404, once this second's counts are published.
    keys = (running.data / "keys" / "crypto_key").read_text().split()
    assert not [each for each in keys if len(each) > 40 and each in report]
    assert complaints == []
