"""As long as the dashboard runs, new weeks are announced by themselves."""

import asyncio
import logging
from datetime import date
from pathlib import Path

import pytest

from channelstats.processes import running
from channelstats.sending.announcing import EVERY, Announcer, AnnounceResult
from channelstats.sending.delivery import ATTEMPTS
from channelstats.sending.push_sender import vapid_key
from channelstats.settings import Settings
from channelstats.tables.subscriptions import HELD
from support.channelstats.house import NOW, House
from support.channelstats.push_service import Answer, Browser, PushService
from support.channelstats.small_workspace import workspace
from support.channelstats.workspace import write_zip
from support.clocks import ManualClock

WEEK_1 = "2024-03-03"
WEEK_2 = date(2024, 3, 10)
AFTER = {"type": "message", "user": "UBOB", "ts": "1710720000.000100", "text": "a new week"}
"""2024-03-18: with it the second week of the worked example is read to its end."""


async def take_in_more(house: House, folder: Path) -> None:
    more = workspace(dev=[])
    more.messages["CDEV"] = [AFTER]
    await house.take_in(write_zip(more.files(), folder / "more.zip"))


class Sleeper:
    """Sleeps as long as the test wants."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self._wake = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self._wake.acquire()

    async def wake_when_asleep(self) -> None:
        assert await asyncio.wait_for(self.asked.get(), 60) == EVERY
        self._wake.release()


async def subscribed(
    house: House, service: PushService, settings: Settings, *answers: Answer
) -> Browser:
    browser = service.browser(*answers)
    key = vapid_key(settings.folder).public
    await house.tables.subscriptions.add(browser.subscription(announced=WEEK_1, vapid=key))
    return browser


def announcer(house: House, settings: Settings) -> Announcer:
    return Announcer(house.tables, settings, clock=ManualClock(NOW))


async def test_a_week_is_announced_when_it_is_there(
    example: House, service: PushService, settings: Settings, tmp_path: Path
) -> None:
    browser = await subscribed(example, service, settings)
    looks = announcer(example, settings)
    assert await looks.check() == AnnounceResult(knew=1)
    await take_in_more(example, tmp_path)
    assert await looks.check() == AnnounceResult(notified=1)
    assert await looks.check() is None
    assert len(browser.got) == 1


async def test_what_was_left_is_sent_at_a_later_look(
    example: House, service: PushService, settings: Settings, tmp_path: Path
) -> None:
    await take_in_more(example, tmp_path)
    browser = await subscribed(example, service, settings, *[503] * ATTEMPTS)
    clock = ManualClock(NOW)

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    looks = Announcer(example.tables, settings, clock=clock, sleep=sleep)
    assert await looks.check() == AnnounceResult(left=1)
    assert await looks.check() == AnnounceResult(notified=1)
    assert len(browser.got) == 1


async def test_what_another_run_holds_is_looked_at_again(
    example: House, service: PushService, settings: Settings, tmp_path: Path
) -> None:
    await take_in_more(example, tmp_path)
    browser, clock = await subscribed(example, service, settings), ManualClock(NOW)
    subscriptions = example.tables.subscriptions
    assert await subscriptions.lease_if_due(browser.endpoint, WEEK_2, clock)
    looks = Announcer(example.tables, settings, clock=clock)
    assert await looks.check() == AnnounceResult(held=1)
    clock.advance(HELD)
    assert await looks.check() == AnnounceResult(notified=1)


async def test_an_empty_store_is_nothing_to_look_at(empty: House, settings: Settings) -> None:
    assert await announcer(empty, settings).check() is None


async def test_it_looks_every_ten_minutes_until_the_dashboard_ends(
    example: House, service: PushService, settings: Settings, tmp_path: Path
) -> None:
    browser = await subscribed(example, service, settings)
    sleep = Sleeper()
    looks = Announcer(example.tables, settings, clock=ManualClock(NOW), sleep=sleep)
    async with running(looks.run()):
        await sleep.wake_when_asleep()
        await sleep.wake_when_asleep()
        assert browser.got == []
        await take_in_more(example, tmp_path)
        await sleep.wake_when_asleep()
        await sleep.asked.get()
        assert len(browser.got) == 1
    assert [task for task in asyncio.all_tasks() if "run" in str(task.get_coro())] == []


async def test_a_fault_is_logged_and_the_next_look_is_taken(
    example: House,
    service: PushService,
    settings: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await take_in_more(example, tmp_path)
    browser = await subscribed(example, service, settings)
    key = settings.folder / "vapid.pem"
    good = key.read_bytes()
    key.write_text("broken")
    sleep = Sleeper()
    looks = Announcer(example.tables, settings, clock=ManualClock(NOW), sleep=sleep)
    with caplog.at_level(logging.INFO, "channelstats.notifications"):
        async with running(looks.run()):
            assert await asyncio.wait_for(sleep.asked.get(), 60) == EVERY
            [fault] = logged(caplog)
            key.write_bytes(good)
            sleep.asked.put_nowait(EVERY)
            await sleep.wake_when_asleep()
            await sleep.asked.get()
    assert fault.levelno == logging.ERROR
    assert [record.getMessage() for record in logged(caplog)[1:]] == ["1 subscriber notified"]
    assert browser.endpoint not in caplog.text


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What notifications logged, without what others did meanwhile."""
    return [one for one in caplog.records if one.name.startswith("channelstats.notifications")]
