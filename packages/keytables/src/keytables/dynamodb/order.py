"""The writes of one table that are under way, and the reads that wait for them.

The one rule: writes of one item reach the database one after the other, in the order submitted;
those of different items at the same time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from keytables.errors import Throttled, Unavailable
from keytables.values import KeyTuple, Scalar

__all__ = ["Order", "Room"]

_T = TypeVar("_T")

MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 64 << 20
MAX_DELAY: Final = 30.0
"""Seconds that a write waits for those before it; later it is Throttled, and not sent."""


class Room:
    """How much one engine may have under way: so many writes, of so many bytes.

    A write may be larger than what is left, but none begins when nothing is left.
    """

    def __init__(
        self, max_waiting: int = MAX_WAITING, max_waiting_bytes: int = MAX_WAITING_BYTES
    ) -> None:
        self._writes, self._bytes = max_waiting, max_waiting_bytes
        self.closed = False

    def take(self, writes: int, size: int) -> None:
        """Take room. Raises Throttled, and Unavailable once the room is closed."""
        if self.closed:
            raise Unavailable("the store is closed")
        if self._writes <= 0 or self._bytes <= 0:
            raise Throttled("too many writes are on their way to the database")
        self._writes -= writes
        self._bytes -= size

    def give_back(self, writes: int, size: int) -> None:
        self._writes += writes
        self._bytes += size


class Order:
    """The writes of one table that have no answer yet."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._loop = asyncio.get_running_loop()
        self._last: dict[Scalar, dict[KeyTuple, asyncio.Task[None]]] = {}
        """The last write of each item, by partitions."""

    def submit(
        self, keys: Sequence[KeyTuple], size: int, work: Callable[[], Awaitable[_T]]
    ) -> asyncio.Future[_T]:
        """Do ``work``, which writes the items of these keys, once the writes before it are done.

        It goes on when its answer is no longer waited for. Raises Throttled and Unavailable; the
        answer may fail with Throttled too, if the writes before it take too long.
        """
        self.room.take(len(keys), size)
        before: set[asyncio.Task[None]] = set()
        for key in keys:
            lane = self._last.get(key[0])
            if lane is not None and key in lane:
                before.add(lane[key])
        answer: asyncio.Future[_T] = self._loop.create_future()
        task = self._loop.create_task(self._run(keys, size, before, work, answer))
        for key in keys:
            self._last.setdefault(key[0], {})[key] = task
        return answer

    async def settled(self, key: KeyTuple) -> None:
        """Wait for the writes of an item submitted until now."""
        lane = self._last.get(key[0])
        if lane is not None and (task := lane.get(key)) is not None:
            await asyncio.wait((task,))

    async def partition_settled(self, partition: Scalar) -> None:
        """Wait for the writes of a partition submitted until now."""
        lane = self._last.get(partition)
        if lane is not None:
            await asyncio.wait(set(lane.values()))

    async def all_settled(self) -> None:
        """Wait for every write submitted until now."""
        if self._last:
            await asyncio.wait({task for lane in self._last.values() for task in lane.values()})

    async def _run(
        self,
        keys: Sequence[KeyTuple],
        size: int,
        before: Collection[asyncio.Task[None]],
        work: Callable[[], Awaitable[_T]],
        answer: asyncio.Future[_T],
    ) -> None:
        try:
            if before:
                due = self._loop.time() + MAX_DELAY
                await asyncio.wait(before)
                if self._loop.time() > due:
                    raise Throttled("the writes before it took too long")
            done = await work()
            if not answer.done():
                answer.set_result(done)
        except asyncio.CancelledError:  # the loop ends
            answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is for who awaits the answer
            if not answer.done():
                answer.set_exception(error)
        finally:
            del answer  # which refers to the error, and that to here
            self.room.give_back(len(keys), size)
            self._forget(keys)

    def _forget(self, keys: Iterable[KeyTuple]) -> None:
        own = asyncio.current_task()
        for key in keys:
            lane = self._last[key[0]]
            if lane[key] is own:
                del lane[key]
                if not lane:
                    del self._last[key[0]]
