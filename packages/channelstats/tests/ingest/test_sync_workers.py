"""Several channels are read at once, and nobody is left behind when one of the readers falls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest

from channelstats.counting import Counting
from channelstats.ingest.runs import Event, OnEvent, StepProgress, SyncOptions, ignore_event
from channelstats.ingest.sync import Part, Sync
from channelstats.slack.objects import HistoryMessage, ListedChannel, SlackUser
from channelstats.slack.web_api import ListingPage, WebApi
from support.channelstats.house import House
from support.channelstats.small_workspace import at
from support.clocks import ManualClock

Asked = Callable[[str], Coroutine[object, object, None]]


class Channels(WebApi):
    """A workspace of channels without messages; ``asked`` is awaited before one is answered."""

    def __init__(self, asked: Asked, number: int) -> None:
        self.asked = asked
        self.listed = [ListedChannel(f"C{n}", f"name{n}") for n in range(number)]

    async def users(self) -> AsyncIterator[ListingPage[SlackUser]]:
        yield ListingPage([], [])

    async def channels(self, *, private: bool) -> AsyncIterator[ListingPage[ListedChannel]]:
        yield ListingPage(self.listed, [])

    async def members(self, cid: str) -> AsyncIterator[ListingPage[str]]:
        yield ListingPage([], [])

    async def history(self, cid: str, oldest: str) -> AsyncIterator[ListingPage[HistoryMessage]]:
        await self.asked(cid)
        yield ListingPage([], [])

    async def replies(self, cid: str, ts: str) -> AsyncIterator[ListingPage[HistoryMessage]]:
        yield ListingPage([], [])

    async def join(self, cid: str) -> None:
        raise AssertionError(cid)


def sync(
    into: House,
    asked: Asked,
    number: int,
    concurrency: int,
    on_event: OnEvent = ignore_event,
) -> Sync:
    return Sync(
        Channels(asked, number),
        into.tables,
        clock=ManualClock(at(5)),
        counting=Counting(),
        options=SyncOptions(concurrency=concurrency),
        parts=frozenset({Part.MESSAGES}),
        on_event=on_event,
    )


async def test_a_channel_does_not_wait_for_another_one(empty: House) -> None:
    last = asyncio.Event()

    async def asked(cid: str) -> None:
        if cid == "C5":
            last.set()
        if cid == "C0":
            await last.wait()

    events: list[Event] = []
    await sync(empty, asked, 6, 2, events.append).run()
    done = [event.channel for event in events if isinstance(event, StepProgress) and event.channel]
    assert sorted(done) == [f"name{n}" for n in range(6)]
    assert done.index("name0") >= 4


async def test_no_more_channels_are_read_at_once_than_was_said(empty: House) -> None:
    now = most = 0

    async def asked(cid: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    await sync(empty, asked, 20, concurrency=3).run()
    assert most == 3


async def test_what_nobody_expected_ends_the_run_and_its_readers(empty: House) -> None:
    cancelled = asyncio.Event()

    async def asked(cid: str) -> None:
        if cid == "C1":
            raise RuntimeError("the store is gone")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(RuntimeError, match="the store is gone"):
        await sync(empty, asked, 2, concurrency=2).run()
    assert cancelled.is_set()


async def test_whoever_cancels_the_run_ends_the_readers(empty: House) -> None:
    waiting, cancelled = asyncio.Event(), asyncio.Event()

    async def asked(cid: str) -> None:
        if cid == "C1":
            waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
        await waiting.wait()

    run = asyncio.create_task(sync(empty, asked, 9, concurrency=2).run())
    await waiting.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert cancelled.is_set()
