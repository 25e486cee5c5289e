"""Whatever is written, closed, cut off and read, in any order: what is read is what is there."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from channelstats.tables import Tables
from channelstats.tables.message_row import MessageRow
from support.channelstats.dated import opened, read, row, there
from support.gated_engine import GatedEngine
from support.memory_engine import MemoryEngine
from support.soak import times

ZONES = ("UTC", "Asia/Tokyo", "America/Los_Angeles")
HOURS = (-11.5, 0, 11.5, 12.5)
"""Of messages: after midnight, at noon, before and after the next midnight."""

DAYS = date(2024, 3, 7), date(2024, 3, 11)

Inner = Callable[[], Awaitable[None]]


class Killed(Exception):
    """The process is no more."""


class History:
    """One table; one process that writes, after the other; one that reads, all the time."""

    def __init__(self) -> None:
        self.inner = MemoryEngine()
        self.gated = GatedEngine(self.inner)
        self.writer: Tables
        self.reader: Tables

    async def begin(self, zone: str = "UTC") -> None:
        """The writer, if there is one, is no more; another one comes."""
        self.reader = await opened(self.inner)
        self.gated = GatedEngine(self.inner)
        self.writer = await opened(self.gated, zone)
        await self.writer.messages.take_over_days()

    async def write(self, rows: list[MessageRow]) -> None:
        await self.writer.messages.write(rows)

    async def delete(self, rows: list[MessageRow]) -> None:
        await self.writer.messages.delete(rows)

    async def run(self, rows: list[MessageRow]) -> None:
        """All of a run."""
        await self.write(rows)
        await self.close()

    async def close(self, _: Any = None) -> None:
        await self.writer.messages.close_days()

    async def read(self) -> None:
        await read(self.reader, *DAYS)

    async def at(self, number: int, meanwhile: Inner, do: Awaitable[None], *, dies: bool) -> None:
        """Do it, and something else before its call of that number; or it does not survive that."""

        async def hook(reached: int, what: str) -> None:
            if reached == number:
                await meanwhile()
            if dies and reached >= number:
                raise Killed

        self.gated.start_counting()
        self.gated.before = hook
        try:
            await do
        except Killed:
            await self.begin()
        finally:
            self.gated.release()

    async def read_while(self, number: int, meanwhile: Inner) -> None:
        """The reader is held before its call of that number, while the writer goes on."""
        engine = GatedEngine(self.inner)
        reader = await opened(engine)
        engine.at(number, meanwhile)
        await read(reader, *DAYS)

    async def is_true(self) -> None:
        for _ in range(2):  # the second time from what the first has kept
            assert await read(self.reader, *DAYS) == await there(self.inner)


rows = st.lists(
    st.builds(row, st.sampled_from(HOURS), st.integers(1, 3)),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.cid_ts,
)
changes = st.one_of(
    st.tuples(st.just("write"), rows),
    st.tuples(st.just("delete"), rows),
    st.tuples(st.just("run"), rows),
    st.tuples(st.just("close"), st.none()),
)
steps = st.one_of(
    st.tuples(st.just("change"), changes),
    st.tuples(st.just("begin"), st.sampled_from(ZONES)),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("cut"), st.integers(0, 6), changes, st.booleans()),
    st.tuples(st.just("held"), st.integers(0, 20), st.lists(changes, max_size=3)),
)


async def happens(history: History, step: Any) -> None:
    async def change(which: tuple[str, Any]) -> None:
        await getattr(history, which[0])(which[1])

    match step:
        case ("change", which):
            await change(which)
        case ("begin", zone):
            await history.begin(zone)
        case ("read", _):
            await history.read()
        case ("cut", number, which, dies):
            await history.at(number, history.read, change(which), dies=dies)
        case ("held", number, several):

            async def meanwhile() -> None:
                for which in several:
                    await change(which)

            await history.read_while(number, meanwhile)


@settings(max_examples=times(8, 200))
@given(st.lists(steps, max_size=10))
def test_what_is_read_is_what_is_there(taken: list[Any]) -> None:
    async def play() -> None:
        history = History()
        await history.begin()
        for step in taken:
            await happens(history, step)
            await history.is_true()

    asyncio.run(play())


async def test_a_file_made_while_a_run_writes_is_not_used() -> None:
    """The reader has read the rows of a date, and is about to keep them, when they change."""
    for number in range(16):
        history = History()
        await history.begin()
        await history.run([row(0), row(24)])

        async def meanwhile(history: History = history) -> None:
            await history.run([row(0, 2)])

        await history.read_while(number, meanwhile)
        await history.is_true()
