"""The usual pages are made before anybody asks, of what is stored, once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from channelstats.pages.model import OVERVIEW, TO_DO, Page
from channelstats.pages.views import view_of
from channelstats.processes import running
from channelstats.settings import load
from channelstats.web import service as module
from channelstats.web.service import DashboardService
from channelstats.web.usual_pages import UsualPages
from support.channelstats.dated import row
from support.channelstats.house import NOW, House
from support.clocks import ManualClock, Pauses


@pytest.fixture
async def service(example: House) -> AsyncIterator[DashboardService]:
    opened = DashboardService(example.tables, load({}, {}), clock=ManualClock(NOW))
    yield opened
    await opened.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The views that were made."""
    names: list[str] = []

    def noted(name: str, *parts: Any, **options: Any) -> Page:
        names.append(name)
        return view_of(name, *parts, **options)

    monkeypatch.setattr(module, "view_of", noted)
    return names


async def test_they_are_made_once_and_again_when_something_else_is_stored(
    example: House, service: DashboardService, made: list[str]
) -> None:
    usual = UsualPages(service)
    for _ in range(2):
        await usual.check()
        assert made == [OVERVIEW, TO_DO]
    await example.tables.configuration.raise_directory_as_of(int(NOW) + 5)
    for _ in range(2):
        await usual.check()
        assert made == [OVERVIEW, TO_DO] * 2


async def test_afterwards_the_columns_of_every_day_are_kept(
    example: House, service: DashboardService
) -> None:
    assert example.days is not None
    await UsualPages(service).check()
    days = await example.tables.messages.days()
    assert {path.name[:10] for path in example.days.glob("*.parquet")} == days.keys()


async def test_of_an_empty_store_and_while_somebody_writes_none_is_made(
    empty: House, example: House, service: DashboardService, made: list[str]
) -> None:
    nothing = DashboardService(empty.tables, load({}, {}), clock=ManualClock(NOW))
    await UsualPages(nothing).check()
    await nothing.close()
    await example.tables.messages.write([row(0)])  # its day is open until the run ends
    await UsualPages(service).check()
    assert made == []


async def test_a_store_that_does_not_answer_is_said_and_looked_at_again(
    service: DashboardService,
    made: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: DashboardService) -> None:
        raise TimeoutError("no answer")

    pauses = Pauses()
    with monkeypatch.context() as patch:
        patch.setattr(DashboardService, "snapshot", fail)
        async with running(UsualPages(service, pauses).run()):
            await pauses.begun.wait()
            assert caplog.messages == ["the usual pages are not made: no answer"]
            patch.undo()
            await pauses.go_on()
            assert made == [OVERVIEW, TO_DO]
