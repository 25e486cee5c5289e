"""`channelstats notify`: which week, and what its user is told."""

import asyncio
from collections.abc import Iterator

import pytest

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from channelstats.sending.web_push import vapid_key
from channelstats.tables import Tables
from keytables.sqlite import SqliteEngine
from support.channelstats.called import DATA, Capture, called, stored
from support.channelstats.house import NOW, UTC
from support.channelstats.push_service import Answer, Browser, PushService, push_service
from support.clocks import ManualClock
from support.event_loops import LoopThread

pytestmark = pytest.mark.usefixtures("example")


@pytest.fixture
def service() -> Iterator[PushService]:
    """A push service beside the command, which has a loop of its own."""
    with LoopThread() as loop:
        running = push_service()
        yield loop.run(running.__aenter__())
        loop.run(running.__aexit__(None, None, None))


def subscribed(service: PushService, *answers: Answer, announced: str = "") -> Browser:
    async def add(browser: Browser) -> None:
        engine = await SqliteEngine.open(DATA / "channelstats.sqlite", clock=ManualClock(NOW))
        try:
            key = vapid_key(DATA).public
            tables = await Tables.open(engine, "channelstats", UTC)
            await tables.subscriptions.add(browser.subscription(announced=announced, vapid=key))
        finally:
            await engine.close()

    browser = service.browser(*answers)
    asyncio.run(add(browser))
    return browser


def notify(capfd: Capture, *flags: str, code: int = DONE) -> str:
    assert called("notify", *flags, now=NOW) == code
    found = capfd.readouterr()
    assert found.out == ""
    return found.err


def test_without_a_week_it_is_the_newest_that_is_there(
    service: PushService, capfd: Capture
) -> None:
    browser = subscribed(service)
    assert notify(capfd) == "week of 2024-03-10: 1 subscriber notified\n"
    assert notify(capfd) == "week of 2024-03-10: 0 subscribers notified, 1 knew already\n"
    assert len(browser.got) == 1


def test_a_week_can_be_named_by_any_of_its_days(service: PushService, capfd: Capture) -> None:
    browser = subscribed(service)
    assert notify(capfd, "--week", "2024-03-13") == "week of 2024-03-10: 1 subscriber notified\n"
    assert browser.got[0]["url"] == "/report?from=2024-03-10&to=2024-03-16"


def test_a_dry_run_says_how_many_and_sends_nothing(service: PushService, capfd: Capture) -> None:
    assert notify(capfd, "--dry-run") == "week of 2024-03-10: 0 subscribers would be notified\n"
    browser = subscribed(service)
    assert notify(capfd, "--dry-run") == "week of 2024-03-10: 1 subscriber would be notified\n"
    assert browser.got == []


def test_what_is_left_for_later_is_a_problem_and_a_quiet_run_says_nothing(
    service: PushService, capfd: Capture
) -> None:
    subscribed(service, 403)
    told = notify(capfd, code=WITH_PROBLEMS)
    assert told == "channelstats: week of 2024-03-10: 0 subscribers notified, 1 left for later\n"
    assert notify(capfd, "--quiet") == ""


def test_a_week_that_is_not_over_or_was_not_read_cannot_be_told(capfd: Capture) -> None:
    told = notify(capfd, "--week", "2024-03-21", code=NOT_DONE)
    assert told == "channelstats: the week of 2024-03-17 is not over\n"
    told = notify(capfd, "--prefix", "other", code=NOT_DONE)
    assert told.startswith("channelstats: no whole week was read yet; see channelstats import-expo")


def test_a_broken_key_is_one_line(service: PushService, capfd: Capture) -> None:
    subscribed(service)
    (DATA / "vapid.pem").write_text("broken")
    told = notify(capfd, code=NOT_DONE)
    assert told.startswith("channelstats: channelstats-data/vapid.pem: expected a private key")
    assert told.count("\n") == 1
    assert [
        item["announced"] for item in stored("Subscription").values() if "announced" in item
    ] == []
