"""Several channels are read at once, and nobody is left behind when one of the readers falls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing

import msgspec
import pytest

from channelstats.ingest.sync import Part, Sync
from channelstats.ingest.sync_choice import SyncChoice
from channelstats.ingest.sync_events import ChannelSynced
from channelstats.slack.api import Page
from channelstats.slack.api_objects import HistoryMessage, ListedChannel
from channelstats.slack.objects import SlackUser
from support.channelstats.house import COMPAT, House
from support.channelstats.small_workspace import at
from support.clocks import ManualClock

Asked = Callable[[str], Coroutine[object, object, None]]


class Channels:
    """A workspace of channels without messages; ``asked`` is awaited before one is answered."""

    def __init__(self, asked: Asked, number: int) -> None:
        self.asked = asked
        self.listed = [ListedChannel(f"C{n}", f"name{n}") for n in range(number)]

    async def users(self) -> AsyncIterator[Page[SlackUser]]:
        yield Page([], [])

    async def channels(self, *, private: bool) -> AsyncIterator[Page[ListedChannel]]:
        yield Page(self.listed, [])

    async def members(self, cid: str) -> AsyncIterator[Page[str]]:
        yield Page([], [])

    async def history(self, cid: str, oldest: str) -> AsyncIterator[Page[HistoryMessage]]:
        await self.asked(cid)
        yield Page([], [])

    async def replies(self, cid: str, ts: str) -> AsyncIterator[Page[HistoryMessage]]:
        yield Page([], [])

    async def join(self, cid: str) -> None:
        raise AssertionError(cid)


def sync(into: House, asked: Asked, number: int, concurrency: int) -> Sync:
    return Sync(
        Channels(asked, number),
        into.tables,
        clock=ManualClock(at(5)),
        counting=COMPAT,
        choice=SyncChoice(concurrency=concurrency),
        parts=frozenset({Part.MESSAGES}),
    )


async def test_a_channel_does_not_wait_for_another_one(empty: House) -> None:
    last = asyncio.Event()

    async def asked(cid: str) -> None:
        if cid == "C5":
            last.set()
        if cid == "C0":
            await last.wait()

    events = [event async for event in sync(empty, asked, 6, concurrency=2).run()]
    done = [event.slack_cid for event in events if isinstance(event, ChannelSynced)]
    assert sorted(done) == [f"C{n}" for n in range(6)]
    assert done.index("C0") >= 4


async def test_no_more_channels_are_read_at_once_than_was_said(empty: House) -> None:
    now = most = 0

    async def asked(cid: str) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    async for _ in sync(empty, asked, 20, concurrency=3).run():
        pass
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
        async for _ in sync(empty, asked, 2, concurrency=2).run():
            pass
    assert cancelled.is_set()


async def test_whoever_stops_listening_ends_the_readers(empty: House) -> None:
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

    async with aclosing(sync(empty, asked, 9, concurrency=2).run()) as events:
        async for event in events:
            if isinstance(event, ChannelSynced):
                break
    assert cancelled.is_set()


@pytest.mark.parametrize("wrong", ["refetch", "max_age", "thread_max_age", "concurrency"])
def test_a_choice_that_means_nothing_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        msgspec.convert({wrong: -1}, SyncChoice)
