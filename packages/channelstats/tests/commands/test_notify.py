"""`channelstats notify`: which week, and what its user is told."""

import asyncio
from collections.abc import Iterator

import pytest

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from channelstats.sending.web_push import vapid_key
from channelstats.tables import Tables
from keytables.sqlite import SqliteEngine
from support.channelstats.called import DATA, Capture, called
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
    knew = "week of 2024-03-10: 0 subscribers notified, 1 knew already\n"
    assert notify(capfd) == notify(capfd, "--week", "2024-03-13") == knew
    assert len(browser.got) == 1
    dry_run = notify(capfd, "--dry-run", "--week", "2024-03-03")
    assert dry_run == "week of 2024-03-03: 0 subscribers would be notified, 1 knew already\n"


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
