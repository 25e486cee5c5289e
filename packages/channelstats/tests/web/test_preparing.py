"""Pages that are prepared: the same as those made when asked for, and of nothing but what is stored
and set now.
"""

import asyncio
import gc
import multiprocessing
import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from channelstats.facts.periods import History, Now
from channelstats.pages.loading import DashboardData
from channelstats.pages.loading import load as read_days
from channelstats.pages.model import TO_DO, VIEWS, Choice, Page
from channelstats.pages.views import unmarked_view_of
from channelstats.processes import running
from channelstats.settings import load
from channelstats.tables import Tables
from channelstats.tables.exclusion import forget_person
from channelstats.tables.marks import MarkState
from channelstats.web import service as module
from channelstats.web.filters import PRESETS, USUAL, asked
from channelstats.web.preparing import PagePreparer, in_process, offered, prepare
from channelstats.web.service import DashboardService
from support.channelstats.house import EXAMPLE, NOW, House, house
from support.channelstats.pages import comparable
from support.clocks import ManualClock, Pauses

Opener = Callable[..., DashboardService]

DAYS: Final = Choice(date(2024, 3, 10), date(2024, 3, 16))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def opener(example: House, clock: ManualClock) -> AsyncIterator[Opener]:
    """Opens a service over the worked example; a second one has nothing in memory."""
    opened: list[DashboardService] = []

    def open_service(**settings: str) -> DashboardService:
        known = load(settings, {})
        opened.append(DashboardService(example.tables, known, clock=clock))
        return opened[-1]

    yield open_service
    for one in opened:
        await one.close()


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The views that were made."""
    found: list[str] = []
    really = unmarked_view_of

    def noted(name: str, *of: Any, **options: Any) -> Page:
        found.append(name)
        return really(name, *of, **options)

    monkeypatch.setattr(module, "unmarked_view_of", noted)
    return found


async def offers(service: DashboardService) -> list[tuple[Choice, str]]:
    now = Now(service.today, (await service.snapshot()).history, service.settings.first_weekday)
    return [(days, name) for days, names in offered(now).items() for name in names]


async def pages(service: DashboardService) -> list[Page]:
    """Every page that is offered."""
    snapshot = await service.snapshot()
    return [await service.view(name, days, snapshot) for days, name in await offers(service)]


async def prepare_one(service: DashboardService) -> None:
    """The page of people."""
    await service.prepare({DAYS: ["people"]})


async def one_page(service: DashboardService) -> Page:
    """The same page, prepared or not."""
    return await service.view("people", DAYS, await service.snapshot())


def files(example: House) -> list[Path]:
    assert example.days is not None
    return sorted((example.days / "pages").glob("*"))


# ── what is prepared ──────────────────────────────────────────────────────────────────────────────


def test_every_view_is_offered_of_the_days_of_every_button_the_usual_first() -> None:
    now = Now(date(2024, 3, 21), History(date(2020, 1, 1), date(2024, 3, 20)), 6)
    found = offered(now)
    assert sorted(name for names in found.values() for name in names) == sorted([*VIEWS] * 4)
    for weeks in PRESETS:
        for name in VIEWS:
            shown = asked([("weeks", str(weeks))], now, to_newest=name == TO_DO).choice
            assert name in found[shown]
    first = next(iter(found))
    assert (first.last - first.first).days + 1 == USUAL * 7


async def test_a_prepared_page_is_the_one_that_is_made_when_asked_for(
    opener: Opener, makings: list[str]
) -> None:
    expected = [comparable(page) for page in await pages(opener())]
    await prepare(opener())
    makings.clear()
    assert [comparable(page) for page in await pages(opener())] == expected
    assert makings == []


async def test_what_is_there_is_not_made_again_and_a_damaged_page_is(
    example: House, opener: Opener, makings: list[str]
) -> None:
    await prepare_one(opener())
    expected = comparable(await one_page(opener()))
    await prepare_one(opener())
    assert len(makings) == 1
    [damaged] = files(example)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    assert comparable(await one_page(opener())) == expected
    assert len(makings) == 2
    await prepare_one(opener())
    assert damaged.read_bytes()[:-1] != whole[:-1]
    assert comparable(await one_page(opener())) == expected
    assert len(makings) == 3


async def test_the_days_of_one_choice_are_in_memory_at_a_time(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[weakref.ref[DashboardData]] = []

    async def noted(*of: Any, **options: Any) -> DashboardData:
        gc.collect()
        assert [ref() for ref in found] == [None] * len(found)
        data = await read_days(*of, **options)
        found.append(weakref.ref(data))
        return data

    monkeypatch.setattr(module, "load", noted)
    days = (date(2024, 3, 10), date(2024, 3, 11), date(2024, 3, 12))
    await opener().prepare({Choice(day, day): ["volume", "network"] for day in days})
    assert len(found) == len(days)


async def test_a_choice_that_no_button_offers_is_made_when_asked_for(
    opener: Opener, makings: list[str]
) -> None:
    await prepare_one(opener())
    makings.clear()
    service = opener()
    of_channel = Choice(DAYS.first, DAYS.last, channel="CDEV")
    view = await service.view("volume", of_channel, await service.snapshot())
    assert view.choice == of_channel
    assert makings == ["volume"]


async def test_what_is_marked_is_left_out_of_a_prepared_page(
    questions: House, clock: ManualClock, makings: list[str]
) -> None:
    settings = load({}, {})
    first = DashboardService(questions.tables, settings, clock=clock)
    await first.prepare({DAYS: [TO_DO]})
    makings.clear()
    service = DashboardService(questions.tables, settings, clock=clock)
    snapshot = await service.snapshot()

    async def rows(table: str) -> list[dict[str, Any]]:
        page = await service.view(TO_DO, DAYS, snapshot)
        return next((of.rows.to_dicts() for of in page.tables if of.name == table), [])

    before = await rows("queue")
    await questions.tables.marks.put(before[0]["item"], MarkState.DONE, int(NOW), "UBOB")
    assert await rows("queue") == before[1:]
    assert [row["by"] for row in await rows("marked")] == ["UBOB"]
    assert makings == []


OTHER_SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"min_group": "3"},
    {"exclude_users": "UBOB"},
    {"exclude_channels": "CDEV"},
    {"include_bots": "yes"},
    {"merge_skin_tones": "yes"},
    {"default_timezone": "Asia/Tokyo"},
    {"week_start": "monday"},
)

# ── what it depends on ────────────────────────────────────────────────────────────────────────────


async def test_a_page_of_other_settings_is_never_shown(opener: Opener, makings: list[str]) -> None:
    await prepare_one(opener())
    for made, other in enumerate(OTHER_SETTINGS, 1):
        await one_page(opener())
        assert len(makings) == made, other
        await one_page(opener(**other))
        assert len(makings) == made + 1, other


async def test_a_page_of_other_code_or_of_another_time_zone_is_never_shown(
    example: House, opener: Opener, makings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await prepare_one(opener())
    await one_page(opener())
    assert len(makings) == 1
    with monkeypatch.context() as patch:
        patch.setattr(module, "code_digest", lambda: "of the next version")
        await one_page(opener())
    assert len(makings) == 2
    example.tables.zone = ZoneInfo("Europe/Berlin")
    await one_page(opener())
    assert len(makings) == 3


async def test_the_order_of_what_is_excluded_does_not_matter(
    opener: Opener, makings: list[str]
) -> None:
    names = [f"nobody{number}" for number in range(30)]
    await prepare_one(opener(exclude_users=",".join(names)))
    await one_page(opener(exclude_users=",".join(reversed(names))))
    assert len(makings) == 1


async def test_after_an_import_nothing_of_before_is_shown_nor_left(
    example: House, opener: Opener, makings: list[str]
) -> None:
    await prepare_one(opener())
    before = files(example)
    rows = await example.tables.messages.of_channel("CDEV", "0")
    await example.tables.messages.delete(list(rows.values())[:1])
    await one_page(opener())
    assert len(makings) == 2  # the day is open
    await example.tables.messages.close_days()
    assert files(example) == []
    await prepare_one(opener())
    assert len(files(example)) == len(before) == 1
    assert files(example) != before


async def test_pages_of_what_another_machine_has_changed_are_removed(
    example: House, opener: Opener
) -> None:
    await prepare_one(opener())
    before = files(example)
    await example.tables.configuration.raise_directory_as_of(int(NOW) + 5)
    await prepare_one(opener())
    assert len(files(example)) == len(before) == 1
    assert files(example) != before


async def test_nothing_of_somebody_who_was_forgotten_is_left(
    example: House, opener: Opener
) -> None:
    service = opener()
    await prepare_one(service)
    assert any(b"UBOB" in path.read_bytes() for path in files(example))
    snapshot = await service.snapshot()
    async with example.tables.writing(ManualClock(0)):
        async for _ in forget_person(example.tables, "UBOB"):
            pass
    assert files(example) == []
    assert (await service.snapshot()).mark != snapshot.mark
    await prepare_one(opener())
    assert files(example)
    assert not any(b"UBOB" in path.read_bytes() for path in files(example))


async def test_somebody_without_a_message_who_was_forgotten_is_on_no_page_that_was_made_before(
    example: House, opener: Opener
) -> None:
    before = await opener().snapshot()
    async with example.tables.writing(ManualClock(0)):
        async for _ in forget_person(example.tables, "UNOBODY"):
            pass
    assert (await opener().snapshot()).mark != before.mark


async def test_while_somebody_writes_nothing_is_prepared(example: House, opener: Opener) -> None:
    async with example.tables.writing(ManualClock(NOW)):
        await prepare_one(opener())
    assert files(example) == []
    rows = await example.tables.messages.of_channel("CDEV", "0")
    await example.tables.messages.write(list(rows.values())[:1])  # and the day stays open
    await prepare_one(opener())
    assert files(example) == []


async def test_a_run_that_begins_or_ends_while_a_page_is_made_leaves_none(
    example: House, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = await example.tables.messages.of_channel("CDEV", "0")
    put = type(example.tables.pages).put

    async def put_late(*of: Any) -> None:
        await example.tables.messages.delete(list(rows.values())[:1])
        await example.tables.messages.close_days()
        await put(*of)

    with monkeypatch.context() as patch:
        patch.setattr(type(example.tables.pages), "put", put_late)
        await prepare_one(opener())
    assert files(example) == []
    writing = example.tables.writing(ManualClock(NOW))

    async def put_first(*of: Any) -> None:
        await put(*of)
        await writing.__aenter__()

    with monkeypatch.context() as patch:
        patch.setattr(type(example.tables.pages), "put", put_first)
        await prepare_one(opener())
    await writing.__aexit__(None, None, None)
    assert files(example) == []


# ── when it is done ───────────────────────────────────────────────────────────────────────────────


class Making:
    """Makes the first page in this process, and counts how often."""

    def __init__(self) -> None:
        self.number = 0
        self.succeeds = True

    async def __call__(self, service: DashboardService) -> bool:
        self.number += 1
        if self.succeeds:
            [(days, name), *_] = await offers(service)
            await service.prepare({days: [name]})
        return self.succeeds


async def test_pages_are_prepared_once_and_again_when_they_are_gone_or_something_else_is_stored(
    example: House, opener: Opener
) -> None:
    making = Making()
    preparer = PagePreparer(opener(), making)
    for _ in range(2):
        await preparer.check()
        assert making.number == 1
    await example.tables.pages.clear()
    for _ in range(2):
        await preparer.check()
        assert making.number == 2
    await example.tables.configuration.raise_directory_as_of(int(NOW) + 5)
    for _ in range(2):
        await preparer.check()
        assert making.number == 3


async def test_what_failed_is_said_and_tried_again_when_something_else_is_stored(
    example: House, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    making = Making()
    making.succeeds = False
    preparer = PagePreparer(opener(), making)
    for _ in range(2):
        await preparer.check()
    assert making.number == 1
    assert caplog.messages == [
        "the process that prepares pages has failed; they are made when asked for"
    ]
    await example.tables.configuration.raise_directory_as_of(int(NOW) + 5)
    await preparer.check()
    assert making.number == 2


async def test_a_store_that_does_not_answer_is_said_and_looked_at_again(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: DashboardService) -> None:
        raise TimeoutError("no answer")

    making, pauses = Making(), Pauses()
    with monkeypatch.context() as patch:
        patch.setattr(DashboardService, "snapshot", fail)
        async with running(PagePreparer(opener(), making, pauses).run()):
            await pauses.begun.wait()
            assert caplog.messages == ["pages are not prepared: no answer"]
            patch.undo()
            await pauses.go_on()
            assert making.number == 1


async def test_an_empty_store_has_nothing_to_prepare(tmp_path: Path, clock: ManualClock) -> None:
    async with house(tmp_path) as empty:
        service = DashboardService(empty.tables, load({}, {}), clock=clock)
        making = Making()
        await PagePreparer(service, making).check()
        await prepare(service)
        await service.close()
    assert making.number == 0


# ── the process ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def real(tmp_path: Path, clock: ManualClock) -> AsyncIterator[DashboardService]:
    """A service over the store that its settings name, which another process can open."""
    settings = load({"data": str(tmp_path / "data")}, {})
    opening = Tables.opened(
        settings.store_url, settings.prefix, ZoneInfo("UTC"), settings.folder, clock
    )
    settings.folder.mkdir()
    async with opening as tables:
        found = House(None, tables)  # type: ignore[arg-type]
        await found.take_in(EXAMPLE)
        service = DashboardService(tables, settings, clock=clock)
        yield service
        await service.close()


async def test_a_process_prepares_the_pages_and_ends(
    real: DashboardService, makings: list[str]
) -> None:
    assert await in_process(real)
    await pages(real)
    assert makings == []
    assert multiprocessing.active_children() == []


@pytest.mark.slow
async def test_a_process_that_cannot_open_the_store_says_so_in_a_line(
    real: DashboardService, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    real.settings = load({"store": f"sqlite:///{tmp_path}"}, {})
    assert not await in_process(real)
    assert re.fullmatch(r"channelstats: pages are not prepared: .+\n", capfd.readouterr().err)


async def test_the_process_is_ended_with_the_service(real: DashboardService) -> None:
    preparing: Awaitable[Any] = asyncio.ensure_future(in_process(real))
    await asyncio.sleep(0)
    assert multiprocessing.active_children()
    preparing.cancel()  # type: ignore[attr-defined]
    with pytest.raises(asyncio.CancelledError):
        await preparing
    assert multiprocessing.active_children() == []
