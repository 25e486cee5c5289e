"""Everybody who waits for a week is told of it once."""

import asyncio
import base64
import json
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import pytest

from channelstats.facts import Period
from channelstats.pages.goals import parse_bound
from channelstats.pages.reports import ReportData, load_report_data
from channelstats.sending import announcing
from channelstats.sending.announcing import (
    GIVEN_UP,
    LONGEST_PAUSE,
    SHORTEST_PAUSE,
    WHOLE_RUN,
    Announcer,
    AnnounceResult,
)
from channelstats.sending.delivery import ATTEMPTS, LONGEST_WAIT
from channelstats.sending.push_sender import DEFAULT_CONTACT, vapid_key
from channelstats.settings import Settings
from channelstats.tables.subscriptions import HELD, Subscription
from support.channelstats.house import NOW, UTC, House
from support.channelstats.push_service import Answer, Browser, PushService
from support.clocks import ManualClock

pytestmark = pytest.mark.slow

WEEK_1, WEEK_2 = (Period(date(2024, 3, day), 7, UTC) for day in (3, 10))
EMPTY_WEEK = Period(date(2024, 5, 5), 7, UTC)
KNEW = WEEK_1.start.isoformat()


@dataclass
class Desk:
    """A dashboard at the worked example, its push service, and a clock that sleeping moves."""

    house: House
    service: PushService
    settings: Settings
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def subscribed(self, *answers: Answer, announced: str = KNEW) -> Browser:
        browser = self.service.browser(*answers)
        await self.add(browser, announced=announced)
        return browser

    async def add(self, browser: Browser, announced: str = KNEW, vapid: str | None = None) -> None:
        key = vapid_key(self.settings.folder).public if vapid is None else vapid
        subscription = browser.subscription(announced=announced, vapid=key)
        await self.house.tables.subscriptions.add(subscription)

    async def announce(self, week: Period = WEEK_2, *, dry_run: bool = False) -> AnnounceResult:
        tables, clock, sleep = self.house.tables, self.clock, self.sleep
        announcer = Announcer(tables, self.settings, clock=clock, sleep=sleep)
        return await announcer.announce(week, dry_run=dry_run)

    async def stored(self, browser: Browser) -> Subscription:
        every = await self.house.tables.subscriptions.all()
        [found] = [one for one in every if one.endpoint == browser.endpoint]
        return found

    async def count(self) -> int:
        return len(await self.house.tables.subscriptions.all())


@pytest.fixture
def desk(example: House, service: PushService, settings: Settings) -> Desk:
    return Desk(example, service, settings)


async def test_whoever_waits_is_told_once(desk: Desk) -> None:
    browsers = [await desk.subscribed() for _ in range(20)]
    assert await desk.announce() == AnnounceResult(notified=20)
    assert await desk.announce() == AnnounceResult(knew=20)
    for browser in browsers:
        assert [told["url"] for told in browser.got] == ["/report?from=2024-03-10&to=2024-03-16"]
        assert "8 messages (+60%) by 3 people" in browser.got[0]["body"]
        assert (await desk.stored(browser)).announced == "2024-03-10"


@pytest.mark.parametrize(
    ("knows", "expected"),
    [("2024-03-10", AnnounceResult(knew=1)), ("", AnnounceResult(notified=1))],
)
async def test_a_week_is_told_to_who_knows_of_none_and_not_to_who_knows_a_later_one(
    desk: Desk, knows: str, expected: AnnounceResult
) -> None:
    browser = await desk.subscribed(announced=knows)
    assert await desk.announce(WEEK_1) == expected
    assert len(browser.got) == expected.notified


async def test_where_nobody_waits_nothing_is_made(desk: Desk) -> None:
    await desk.add(desk.service.browser(), announced="2024-03-10", vapid="key")
    await desk.announce()
    assert await desk.house.items("ReportStore") == {}
    assert not desk.settings.folder.exists()


async def test_of_a_silent_week_nobody_is_told(desk: Desk) -> None:
    browser = await desk.subscribed()
    told = await desk.announce(EMPTY_WEEK)
    assert told.is_empty_week
    assert str(told) == "there were no messages in this week: nobody is notified"
    assert browser.got == []
    assert (await desk.stored(browser)).announced == KNEW


async def test_a_dry_run_counts_and_sends_nothing(desk: Desk) -> None:
    browser = await desk.subscribed()
    before = await desk.stored(browser)
    told = await desk.announce(dry_run=True)
    assert str(told) == "1 subscriber would be notified"
    assert browser.got == []
    assert await desk.stored(browser) == before
    assert await desk.announce() == AnnounceResult(notified=1)


async def test_nothing_is_sent_with_a_key_that_was_not_subscribed_with(desk: Desk) -> None:
    browser = desk.service.browser()
    await desk.add(browser, vapid="key of another data folder")
    told = await desk.announce()
    assert told == AnnounceResult(left=1, foreign=1)
    assert "is this the dashboard's data folder?" in str(told)
    assert desk.service.requests == 0
    assert await desk.count() == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_is_gone_is_removed(desk: Desk, status: int) -> None:
    await desk.subscribed(status)
    other = await desk.subscribed()
    assert await desk.announce() == AnnounceResult(notified=1, removed=1)
    assert [one.endpoint for one in await desk.house.tables.subscriptions.all()] == [other.endpoint]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_busy_push_service_is_asked_again_after_a_while(desk: Desk, status: int) -> None:
    browser = await desk.subscribed(status, status)
    assert await desk.announce() == AnnounceResult(notified=1)
    assert desk.slept == [2, 4]
    assert len(browser.got) == 1
    assert (await desk.stored(browser)).failing_since == 0


async def test_it_is_asked_again_when_it_said(desk: Desk) -> None:
    await desk.subscribed((429, {"Retry-After": "17"}), (503, {"Retry-After": "1"}))
    assert await desk.announce() == AnnounceResult(notified=1)
    assert desk.slept == [17, 4]


async def test_what_stays_busy_is_left_for_the_next_run(desk: Desk) -> None:
    browser = await desk.subscribed(*[503] * ATTEMPTS)
    told = await desk.announce()
    assert told == AnnounceResult(left=1)
    assert str(told) == "0 subscribers notified, 1 left for later"
    assert desk.service.requests == ATTEMPTS
    assert await desk.announce() == AnnounceResult(notified=1)
    assert len(browser.got) == 1


async def test_who_wants_a_long_time_gets_it(desk: Desk) -> None:
    long = LONGEST_WAIT + 1
    browser = await desk.subscribed((429, {"Retry-After": str(long)}))
    assert await desk.announce() == AnnounceResult(left=1)
    assert desk.slept == []
    desk.clock.advance(long - 1)
    assert await desk.announce() == AnnounceResult(left=1)
    assert desk.service.requests == 1
    desk.clock.advance(1)
    assert await desk.announce() == AnnounceResult(notified=1)
    assert len(browser.got) == 1


@pytest.mark.parametrize("status", [302, 400, 401, 403, 413])
async def test_a_refusal_is_not_argued_with_and_tried_after_an_hour(
    desk: Desk, status: int
) -> None:
    browser = await desk.subscribed(status)
    assert await desk.announce() == AnnounceResult(left=1)
    assert (desk.service.requests, desk.slept) == (1, [])
    assert (await desk.stored(browser)).failing_since == int(NOW)
    desk.clock.advance(SHORTEST_PAUSE - 1)
    assert await desk.announce() == AnnounceResult(left=1)
    assert desk.service.requests == 1
    desk.clock.advance(1)
    assert await desk.announce() == AnnounceResult(notified=1)
    assert (await desk.stored(browser)).failing_since == 0


async def test_the_longer_it_fails_the_longer_are_the_pauses(desk: Desk) -> None:
    browser = await desk.subscribed(*[403] * 9)
    pauses = []
    for _ in range(8):
        assert await desk.announce() == AnnounceResult(left=1)
        pauses.append((await desk.stored(browser)).not_before - desk.clock.now)
        desk.clock.advance(pauses[-1])
    assert [pause / 3600 for pause in pauses] == [1, 1, 2, 4, 8, 16, 24, 24]


async def test_what_nothing_comes_through_to_for_a_month_is_given_up(desk: Desk) -> None:
    browser = await desk.subscribed(403, 403, 403)
    assert await desk.announce() == AnnounceResult(left=1)
    desk.clock.advance(GIVEN_UP - LONGEST_PAUSE)
    assert await desk.announce() == AnnounceResult(left=1)
    assert (await desk.stored(browser)).failing_since == int(NOW)
    desk.clock.advance(LONGEST_PAUSE)
    assert await desk.announce() == AnnounceResult(removed=1)
    assert await desk.count() == 0


async def test_one_that_fails_does_not_keep_the_others(desk: Desk) -> None:
    gone = Browser("http://127.0.0.1:1/nobody/listens")
    await desk.add(gone)
    await desk.subscribed(*[500] * 9)
    browsers = [await desk.subscribed() for _ in range(3)]
    assert await desk.announce() == AnnounceResult(notified=3, left=2)
    assert all(len(browser.got) == 1 for browser in browsers)


async def test_of_several_runs_at_once_one_tells(desk: Desk) -> None:
    browsers = [await desk.subscribed() for _ in range(10)]
    runs = await asyncio.gather(*(desk.announce() for _ in range(4)))
    assert sum(run.notified for run in runs) == 10
    assert all(len(browser.got) == 1 for browser in browsers)


async def test_what_a_run_that_died_had_leased_is_told_by_a_later_one(desk: Desk) -> None:
    browser = await desk.subscribed()
    subscriptions = desk.house.tables.subscriptions
    assert await subscriptions.lease_if_due(browser.endpoint, WEEK_2.start, desk.clock)
    told = await desk.announce()
    assert told == AnnounceResult(held=1)
    assert str(told) == "0 subscribers notified, 1 being notified by another run"
    assert browser.got == []
    desk.clock.advance(HELD)
    assert await desk.announce() == AnnounceResult(notified=1)


async def test_whoever_unsubscribes_meanwhile_is_not_written_back(desk: Desk) -> None:
    browser = await desk.subscribed()
    desk.service.gate = asyncio.Event()
    run = asyncio.create_task(desk.announce())
    await desk.service.arrived.wait()
    await desk.house.tables.subscriptions.remove(browser.endpoint)
    desk.service.gate.set()
    await run
    assert await desk.count() == 0


@pytest.mark.parametrize("contact", ["https://stats.example/contact", ""])
async def test_the_contact_is_the_operators_else_one_that_push_services_take(
    desk: Desk, contact: str
) -> None:
    desk.settings = replace(desk.settings, push_contact=contact)
    browser = await desk.subscribed()
    await desk.announce()
    claims = browser.headers[0]["Authorization"].split("t=")[1].split(".")[1]
    told = json.loads(base64.urlsafe_b64decode(f"{claims}=="))["sub"]
    assert told == (contact or DEFAULT_CONTACT)
    assert "localhost" not in told


async def test_a_run_ends_and_leaves_the_rest(desk: Desk) -> None:
    for _ in range(30):
        await desk.subscribed(*[(503, {"Retry-After": str(LONGEST_WAIT)})] * ATTEMPTS)
    before = desk.clock.now
    told = await desk.announce()
    assert told == AnnounceResult(left=30)
    assert desk.clock.now - before < WHOLE_RUN + 8 * ATTEMPTS * LONGEST_WAIT
    assert desk.service.requests < 30 * ATTEMPTS


async def test_what_making_the_report_takes_is_not_lost_for_sending(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def loaded(*given: Any, **how: Any) -> ReportData:
        desk.clock.advance(WHOLE_RUN)
        return await load_report_data(*given, **how)

    monkeypatch.setattr(announcing, "load_report_data", loaded)
    await desk.subscribed()
    assert await desk.announce() == AnnounceResult(notified=1)


async def test_a_lease_lasts_longer_than_all_attempts() -> None:
    assert ATTEMPTS * 20 + (ATTEMPTS - 1) * LONGEST_WAIT < HELD


async def test_goals_that_were_not_met_and_alerts_are_in_the_message(desk: Desk) -> None:
    browser = await desk.subscribed()
    desk.settings = replace(
        desk.settings,
        goals=tuple(map(parse_bound, ("threads.unanswered_share <= 30", "people.posters >= 3"))),
        alerts=tuple(map(parse_bound, ("people.messages > 5", "people.messages > 50"))),
    )
    await desk.announce()
    [message] = browser.got
    body = message["body"].splitlines()
    assert len(body) == 3
    assert body[1].endswith(": 8 (alert: more than 5)")
    assert body[2].endswith(": 50.0% (goal: at most 30%, not met)")
