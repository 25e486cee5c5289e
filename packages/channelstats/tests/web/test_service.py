"""What is read and worked out, and how often."""

import asyncio
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from channelstats.facts import reading
from channelstats.pages import loading
from channelstats.pages.loading import DashboardData
from channelstats.pages.loading import load as read_days
from channelstats.pages.model import VIEWS, Choice, ChoiceError
from channelstats.pages.views import view_of
from channelstats.settings import load
from channelstats.tables.exclusion import forget_person
from channelstats.web import service as module
from channelstats.web.filters import PRESETS
from channelstats.web.service import Busy, DashboardService, SingleFlightCache
from support.channelstats.house import NOW, House
from support.channelstats.pages import comparable
from support.clocks import ManualClock

WEEK = Choice(date(2024, 3, 10), date(2024, 3, 16))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def service(example: House, tmp_path: Path, clock: ManualClock) -> DashboardService:
    settings = load({"data": str(tmp_path)}, {})
    return DashboardService(example.tables, settings, clock=clock)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Choice]:
    """The choices whose days were read."""
    found: list[Choice] = []
    really: Callable[..., Any] = read_days

    def counted(tables: Any, *, choice: Choice, **options: Any) -> Any:
        found.append(choice)
        return really(tables, choice, **options)

    monkeypatch.setattr(module, "load", counted)
    return found


async def test_days_are_read_once_for_every_view_and_every_choice_within(
    service: DashboardService, reads: list[Choice]
) -> None:
    snapshot = await service.snapshot()
    for name in VIEWS:
        await service.view(name, WEEK, snapshot)
    chosen = Choice(WEEK.first, WEEK.last, channel="CDEV", person="UBOB")
    await service.view("people", chosen, snapshot)
    assert reads == [WEEK]


async def test_people_and_channels_are_read_once_for_every_period(
    service: DashboardService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 0

    def noted(*arguments: Any) -> Any:
        nonlocal number
        number += 1
        return reading.load_context(*arguments)

    monkeypatch.setattr(module, "load_context", noted)
    snapshot = await service.snapshot()
    for weeks in (1, 2):
        choice = Choice(WEEK.last - timedelta(7 * weeks - 1), WEEK.last)
        await service.view("volume", choice, snapshot)
        assert number == 1
    clock.advance(3600)  # somebody without messages may be forgotten meanwhile
    await service.view("volume", Choice(WEEK.first, WEEK.first), snapshot)
    assert number == 2


async def test_periods_that_are_asked_for_at_once_do_not_wait_for_one_another(
    service: DashboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = asyncio.Barrier(len(PRESETS))

    async def read(*arguments: Any, **options: Any) -> DashboardData:
        await asyncio.wait_for(together.wait(), 30)  # for all of them to have begun
        return await read_days(*arguments, **options)

    monkeypatch.setattr(module, "load", read)
    snapshot = await service.snapshot()
    choices = [Choice(WEEK.last - timedelta(7 * weeks - 1), WEEK.last) for weeks in PRESETS]
    views = [service.view("volume", choice, snapshot) for choice in choices]
    assert [view.choice for view in await asyncio.gather(*views)] == choices


@pytest.mark.parametrize("is_large", [False, True])
async def test_only_one_large_period_is_in_memory_at_a_time(
    service: DashboardService, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: list[bool] = []

    def noting(call: Any) -> Any:
        def noted(*arguments: Any, **options: Any) -> Any:
            alone.append(service._alone.locked())
            return call(*arguments, **options)

        return noted

    if is_large:
        monkeypatch.setattr(reading, "LARGE", 1)
        monkeypatch.setattr(loading, "LARGE", 1)
    monkeypatch.setattr(reading, "history_of", noting(reading.history_of))
    monkeypatch.setattr(reading._Parts, "joined", noting(reading._Parts.joined))
    monkeypatch.setattr(module, "view_of", noting(view_of))
    await service.view("volume", WEEK, await service.snapshot())
    # The messages are put together, what is known beside them is added, and the view is made.
    assert alone == [is_large, False, is_large]
    assert not service._alone.locked()


async def test_where_there_is_too_much_a_channel_is_shown_all_the_same(
    service: DashboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await service.snapshot()
    chosen = Choice(WEEK.first, WEEK.last, channel="CDEV")
    expected = await service.view("volume", chosen, snapshot)
    monkeypatch.setattr(loading, "MOST_MESSAGES", 6)
    again = msgspec.structs.replace(snapshot, mark="another")
    assert comparable(await service.view("volume", chosen, again)) == comparable(expected)
    with pytest.raises(ChoiceError, match="choose fewer days, or a channel"):
        await service.view("volume", WEEK, again)


async def test_what_is_read_before_anybody_asks_is_not_read_again(
    service: DashboardService, reads: list[Choice]
) -> None:
    told: list[tuple[int, int]] = []
    snapshot = await service.snapshot()
    await service.read(WEEK, snapshot, lambda done, total: told.append((done, total)))
    await service.view("overview", WEEK, snapshot)
    assert reads == [WEEK]
    assert told
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("uid", ["UBOB", "UNOBODY"])
async def test_whoever_was_forgotten_with_or_without_a_message_is_in_nothing_that_is_kept(
    example: House, service: DashboardService, uid: str
) -> None:
    before = await service.snapshot()
    async with example.tables.writing(ManualClock(0)):
        async for _ in forget_person(example.tables, uid):
            pass
    assert (await service.snapshot()).mark != before.mark


async def test_a_view_is_worked_out_once(
    service: DashboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await service.snapshot()
    first = await service.view("people", WEEK, snapshot)
    monkeypatch.setattr(module, "view_of", None)
    assert await service.view("people", WEEK, snapshot) is first


async def test_days_that_somebody_writes_to_are_read_again_after_a_while(
    example: House, service: DashboardService, reads: list[Choice], clock: ManualClock
) -> None:
    rows = await example.tables.messages.of_channel("CDEV", "0")
    await example.tables.messages.write(list(rows.values())[:1])  # and the day stays open
    for _ in range(3):
        await service.view("people", WEEK, await service.snapshot())
    assert len(reads) == 1
    clock.advance(31)
    await service.view("people", WEEK, await service.snapshot())
    assert len(reads) == 2


async def test_names_are_read_again_when_people_changed_and_after_a_while(
    example: House, service: DashboardService, clock: ManualClock
) -> None:
    before = await service.names(await service.snapshot())
    assert await service.names(await service.snapshot()) is before
    await example.tables.configuration.raise_directory_as_of(int(NOW) + 5)
    after = await service.names(await service.snapshot())
    assert after is not before
    clock.advance(600)
    assert await service.names(await service.snapshot()) is not after


async def test_a_report_is_made_once(
    service: DashboardService, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = await service.snapshot()
    first = await service.report(WEEK, snapshot)
    monkeypatch.setattr(module, "report_data", None)
    assert await service.report(WEEK, snapshot) == first


# ── what is made once and serves many ────────────────────────────────────────────────────────────


class Maker:
    """Makes what it is asked for once it may."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.may = asyncio.Event()
        self.began = asyncio.Event()

    async def make(self, key: str) -> str:
        self.made.append(key)
        self.began.set()
        await self.may.wait()
        return key.upper()

    async def asked(self, kept: SingleFlightCache[str, str], key: str) -> str:
        return await kept.get(key, lambda: self.make(key))


@pytest.fixture
def maker() -> Maker:
    return Maker()


async def test_of_one_key_there_is_one_making(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    both = [asyncio.create_task(maker.asked(kept, "a")) for _ in range(2)]
    await maker.began.wait()
    maker.may.set()
    assert [await one for one in both] == ["A", "A"]
    assert await maker.asked(kept, "a") == "A"
    assert maker.made == ["a"]


async def test_what_was_not_asked_for_longest_goes_first(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    maker.may.set()
    for key in "abac":
        await maker.asked(kept, key)
    await maker.asked(kept, "a")
    await maker.asked(kept, "b")
    assert maker.made == ["a", "b", "c", "b"]


async def test_whoever_waits_too_long_is_told_and_the_making_goes_on(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2, patience=0.001)
    with pytest.raises(Busy):
        await maker.asked(kept, "a")
    making = kept._making["a"]
    maker.may.set()
    await making
    assert await maker.asked(kept, "a") == "A"
    assert maker.made == ["a"]


async def test_whoever_goes_away_takes_nothing_from_the_others(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    gone = asyncio.create_task(maker.asked(kept, "a"))
    await maker.began.wait()
    stays = asyncio.create_task(maker.asked(kept, "a"))
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    maker.may.set()
    assert await stays == "A"


async def test_whoever_goes_away_just_when_it_is_made_is_gone(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    gone = asyncio.create_task(maker.asked(kept, "a"))
    await maker.began.wait()
    kept._making["a"].add_done_callback(lambda _: gone.cancel())
    maker.may.set()
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_what_failed_is_made_anew() -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)

    async def fail() -> str:
        raise ValueError("no")

    async def make() -> str:
        return "yes"

    with pytest.raises(ValueError, match="no"):
        await kept.get("a", fail)
    assert await kept.get("a", make) == "yes"


async def test_no_more_wait_than_there_is_room_for(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(99)
    waiting = [asyncio.create_task(maker.asked(kept, str(number))) for number in range(16)]
    await maker.began.wait()
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await maker.asked(kept, "one more")
    assert maker.made == ["0"]
    maker.may.set()
    await asyncio.gather(*waiting)


async def test_at_the_end_what_is_being_made_is_given_up(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    asking = asyncio.create_task(maker.asked(kept, "a"))
    await maker.began.wait()
    await kept.close()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_what_weighs_much_leaves_room_for_less_and_the_newest_stays(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(10, weigh=len)
    maker.may.set()
    for key in ("a" * 4, "b" * 4, "c" * 20, "c" * 20, "d", "d"):
        await maker.asked(kept, key)
    assert [key[0] for key in maker.made] == ["a", "b", "c", "d"]
    assert list(kept._made) == ["d"]
