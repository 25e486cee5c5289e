"""Everybody who waits for a week is told of it once, also of what is sure before its end."""

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest

from channelstats.facts import Period
from channelstats.processes import running
from channelstats.sending.announcing import (
    CHECK_EVERY,
    GIVEN_UP,
    LONGEST_RUN,
    RETRY_AFTER,
    Announcer,
    AnnounceResult,
)
from channelstats.sending.mail import mail_server, mail_subscription
from channelstats.sending.web_push import vapid_key
from channelstats.sending.week_messages import sure_lines
from channelstats.settings import Settings, load
from channelstats.tables.sending import HELD, Subscription
from support.channelstats.house import NOW, UTC, House
from support.channelstats.mail_server import PASSWORD, SmtpServer, smtp_settings
from support.channelstats.push_service import Answer, Browser, PushService
from support.channelstats.small_workspace import workspace
from support.channelstats.workspace import write_zip
from support.clocks import ManualClock

WEEK_1, WEEK_2, WEEK_3 = (Period(date(2024, 3, day), 7, UTC) for day in (3, 10, 17))
EMPTY_WEEK = Period(date(2024, 5, 5), 7, UTC)
KNEW = WEEK_1.start.isoformat()
ANNA = mail_subscription("anna@example.org")


@dataclass
class Office:
    """A dashboard at the worked example, its push service, and a clock that sleeping moves."""

    house: House
    service: PushService
    settings: Settings
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))

    async def subscribed(self, *answers: Answer, announced: str = KNEW) -> Browser:
        browser = self.service.browser(*answers)
        await self.add(browser, announced)
        return browser

    async def add(self, browser: Browser, announced: str = KNEW, vapid: str = "") -> None:
        key = vapid or vapid_key(self.settings.folder).public
        subscription = browser.subscription(announced=announced, vapid=key)
        await self.house.tables.subscriptions.add(subscription)

    def announcer(self) -> Announcer:
        server = mail_server(self.settings, {"CHANNELSTATS_MAIL_PASSWORD": PASSWORD})
        return Announcer(self.house.tables, self.settings, clock=self.clock, mail_server=server)

    async def announce(self, week: Period = WEEK_2, *, dry_run: bool = False) -> AnnounceResult:
        return await self.announcer().announce(week, dry_run=dry_run)

    async def stored(self) -> list[Subscription]:
        return await self.house.tables.subscriptions.all()

    async def take_in_more(self, folder: Path) -> None:
        """Import a message of 2024-03-18: the second week is read to its end then."""
        more = workspace(dev=[])
        after = {"type": "message", "user": "UBOB", "ts": "1710720000.000100", "text": "news"}
        more.messages["CDEV"] = [after]
        await self.house.take_in(write_zip(more.files(), folder / "more.zip"))


@pytest.fixture
def office(example: House, service: PushService, settings: Settings) -> Office:
    return Office(example, service, settings)


# ── a week ───────────────────────────────────────────────────────────────────────────────────────


async def test_whoever_waits_is_told_once(office: Office) -> None:
    browsers = [await office.subscribed() for _ in range(20)]
    assert str(await office.announce(dry_run=True)) == "20 subscribers would be notified"
    assert office.service.requests == 0
    assert await office.announce() == AnnounceResult(notified=20)
    assert await office.announce() == AnnounceResult(knew=20)
    for browser in browsers:
        assert [told["url"] for told in browser.got] == ["/report?from=2024-03-10&to=2024-03-16"]
        assert "8 messages (+60%) by 3 people" in browser.got[0]["body"]
    assert {one.announced for one in await office.stored()} == {"2024-03-10"}


async def test_a_week_is_told_to_who_knows_of_none_and_not_to_who_knows_a_later_one(
    office: Office,
) -> None:
    await office.subscribed(announced="2024-03-10")
    browser = await office.subscribed(announced="")
    assert await office.announce(WEEK_1) == AnnounceResult(notified=1, knew=1)
    assert len(browser.got) == 1


async def test_where_nobody_waits_nothing_is_made(office: Office) -> None:
    await office.add(office.service.browser(), announced="2024-03-10", vapid="key")
    await office.announce()
    assert await office.house.items("ReportStore") == {}
    assert not office.settings.folder.exists()


async def test_of_a_silent_week_nobody_is_told(office: Office) -> None:
    browser = await office.subscribed()
    told = await office.announce(EMPTY_WEEK)
    assert str(told) == "0 subscribers notified, as there were no messages in this week"
    assert browser.got == []
    assert await office.announce() == AnnounceResult(notified=1)


async def test_nothing_is_sent_with_a_key_that_was_not_subscribed_with(office: Office) -> None:
    await office.add(office.service.browser(), vapid="key of another data folder")
    told = await office.announce()
    assert str(told) == (
        "0 subscribers notified, 1 left for later, 1 with another key: is this the dashboard's "
        "data folder?"
    )
    assert (office.service.requests, len(await office.stored())) == (0, 1)


# ── what is not taken ────────────────────────────────────────────────────────────────────────────


async def test_what_is_not_taken_is_left_to_the_next_run_and_what_is_gone_is_removed(
    office: Office,
) -> None:
    nobody = Browser("http://127.0.0.1:1/nobody/listens")
    await office.add(nobody)
    refusals = (302, 400, 403, 413, 429, 503)
    failing = [await office.subscribed(status) for status in refusals]
    for status in (404, 410):
        await office.subscribed(status)
    told = await office.announce()
    assert told == AnnounceResult(left=7, removed=2)
    assert str(told) == "0 subscribers notified, 7 left for later, 2 unsubscribed"
    assert {one.failing_since for one in await office.stored()} == {int(NOW)}
    assert await office.announce() == AnnounceResult(notified=6, left=1)
    assert all(len(browser.got) == 1 for browser in failing)
    since = {one.endpoint: one.failing_since for one in await office.stored()}
    assert since.pop(nobody.endpoint) == int(NOW)
    assert set(since.values()) == {0}


async def test_what_nothing_comes_through_to_for_a_month_is_given_up(office: Office) -> None:
    await office.subscribed(403, 403, 403)
    assert await office.announce() == AnnounceResult(left=1)
    office.clock.advance(GIVEN_UP - 1)
    assert await office.announce() == AnnounceResult(left=1)
    office.clock.advance(1)
    assert await office.announce() == AnnounceResult(removed=1)
    assert await office.stored() == []


async def test_a_run_ends_and_leaves_the_rest(office: Office) -> None:
    browsers = [await office.subscribed() for _ in range(30)]
    office.service.on_request = lambda: office.clock.advance(LONGEST_RUN / 8)
    told = await office.announce()
    assert told.notified + told.left == len(browsers)
    assert 0 < office.service.requests < len(browsers)


# ── several runs ─────────────────────────────────────────────────────────────────────────────────


async def test_of_several_runs_at_once_one_tells(office: Office) -> None:
    browsers = [await office.subscribed() for _ in range(10)]
    runs = await asyncio.gather(*(office.announce() for _ in range(4)))
    assert sum(run.notified for run in runs) == 10
    assert all(len(browser.got) == 1 for browser in browsers)


async def test_what_a_run_that_died_would_have_told_is_told_by_a_later_one(office: Office) -> None:
    browser = await office.subscribed()
    assert await office.house.tables.subscriptions.lease(office.clock).acquire()
    told = await office.announce()
    assert str(told) == "0 subscribers notified, another run is notifying"
    assert browser.got == []
    office.clock.advance(HELD)
    assert await office.announce() == AnnounceResult(notified=1)


async def test_a_run_that_was_taken_over_sends_nothing_more(office: Office) -> None:
    for _ in range(9):
        await office.subscribed()
    office.service.gate = asyncio.Event()
    run = asyncio.create_task(office.announce())
    await office.service.arrived.wait()
    office.clock.advance(HELD)
    assert await office.house.tables.subscriptions.lease(office.clock).acquire()
    office.service.gate.set()
    assert (await run).is_busy
    assert office.service.requests == 8


# ── mail ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def mailing(office: Office, server: SmtpServer, tmp_path: Path) -> Office:
    """The office with a mail server, to which one address has subscribed."""
    bounds = {"goals": "volume.messages <= 5", "alerts": "volume.messages > 7"}
    office.settings = load({**smtp_settings(server, tmp_path / "data"), **bounds}, {})
    await office.house.tables.subscriptions.add(ANNA)
    return office


async def test_a_week_is_mailed_and_told_once_with_its_goals_and_alerts(
    mailing: Office, server: SmtpServer
) -> None:
    browser = await mailing.subscribed()
    assert await mailing.announce() == AnnounceResult(notified=2)
    assert await mailing.announce() == AnnounceResult(knew=2)
    [got] = server.got
    body = got.get_body(("plain",))
    assert body is not None
    assert "3 people" in body.get_content()
    assert "Messages: 8 (goal: at most 5, not met)" in body.get_content()
    assert "10 to 16 March 2024" in got["Subject"]
    [told] = browser.got
    assert told["body"].splitlines()[1:] == [
        "Messages: 8 (alert: more than 7)",
        "Messages: 8 (goal: at most 5, not met)",
    ]


async def test_an_address_that_is_refused_stays_and_is_tried_again(
    mailing: Office, server: SmtpServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse["RCPT"] = "550 nobody"
    for _ in range(3):
        assert await mailing.announce() == AnnounceResult(left=1)
        mailing.clock.advance(GIVEN_UP)
    assert "a mail was not taken: the server refused the recipient" in caplog.text
    del server.refuse["RCPT"]
    assert await mailing.announce() == AnnounceResult(notified=1)


async def test_without_a_mail_server_it_is_said(mailing: Office, settings: Settings) -> None:
    mailing.settings = settings
    assert str(await mailing.announce()) == (
        "0 subscribers notified, 1 left for later, 1 of them by mail: mail_server is not set"
    )


# ── what is sure before a week is over ───────────────────────────────────────────────────────────


async def test_what_is_sure_is_told_once_in_the_week(mailing: Office, server: SmtpServer) -> None:
    browser = await mailing.subscribed()
    lines = await sure_lines(mailing.house.tables, mailing.settings, WEEK_2)
    goal, alert = lines.values()
    assert goal == "Messages: 8 (goal: at most 5, not met)"
    assert alert == "Messages: 8 (alert: more than 7)"
    first = dict(list(lines.items())[:1])
    warn = mailing.announcer().warn
    assert await warn(WEEK_2, {}) == AnnounceResult()
    for told in (first, lines):
        assert await warn(WEEK_2, told) == AnnounceResult(notified=2)
        assert await warn(WEEK_2, told) == AnnounceResult(knew=2)
    assert [told["body"] for told in browser.got] == [goal, alert]
    # What still waits at the push service is not replaced by what comes later.
    assert len({headers["Topic"] for headers in browser.headers}) == 2
    assert [got["Subject"].partition(": ")[2] for got in server.got] == [goal, alert]
    assert len({got["Message-ID"] for got in server.got}) == 2

    server.refuse["RCPT"] = "550 no"
    assert await warn(WEEK_3, lines) == AnnounceResult(notified=1, left=1)
    assert browser.got[-1]["body"] == f"{goal}\n{alert}"
    del server.refuse["RCPT"]
    assert await warn(WEEK_3, lines) == AnnounceResult(notified=1, knew=1)
    assert server.got[-1]["Subject"] == f"Already sure this week: {goal} and 1 more"


# ── as long as the dashboard runs ────────────────────────────────────────────────────────────────


async def test_a_week_is_announced_when_it_is_there(office: Office, tmp_path: Path) -> None:
    browser = await office.subscribed(503)
    announcer = office.announcer()
    assert await announcer.check() == AnnounceResult(knew=1)
    assert await announcer.check() is None
    await office.take_in_more(tmp_path)
    lease = office.house.tables.subscriptions.lease(office.clock)
    assert await lease.acquire()
    assert await announcer.check() == AnnounceResult(is_busy=True)
    await lease.release()
    assert await announcer.check() == AnnounceResult(left=1)
    assert await announcer.check() == AnnounceResult(notified=1)
    assert await announcer.check() is None
    assert len(browser.got) == 1


async def test_a_fault_is_logged_and_looked_at_again_and_what_is_left_after_an_hour(
    office: Office, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await office.take_in_more(tmp_path)
    browser = await office.subscribed(503)
    key = office.settings.folder / "vapid.pem"
    good = key.read_bytes()
    key.write_text("broken")
    slept, wake = asyncio.Queue[float](), asyncio.Semaphore(0)

    async def sleep(seconds: float) -> None:
        slept.put_nowait(seconds)
        await wake.acquire()

    announcer = Announcer(office.house.tables, office.settings, clock=office.clock, sleep=sleep)
    with caplog.at_level(logging.INFO, "channelstats.notifications"):
        async with running(announcer.run()):
            pauses = [await slept.get()]
            key.write_bytes(good)
            for _ in range(2):
                wake.release()
                pauses.append(await slept.get())
    assert pauses == [CHECK_EVERY, RETRY_AFTER, CHECK_EVERY]
    fault, *said = [one for one in caplog.records if one.name == "channelstats.notifications"]
    assert fault.levelno == logging.ERROR
    assert [record.getMessage() for record in said] == [
        "0 subscribers notified, 1 left for later",
        "1 subscriber notified",
    ]
    assert browser.endpoint not in caplog.text
    assert [task for task in asyncio.all_tasks() if "run" in str(task.get_coro())] == []
