"""Reads receipt subscriptions for the requests and streams that wait for their outcomes.

All that wait for one subscription share a reader, what it has read, and the events it has made of
that. Requests that come while others wait for a read to begin share that read.

Rule: a turn of the loop reads one subscription, or checks one message, for each of `READS_AT_ONCE`;
and however many subscriptions are waited for, so many rows and messages are read in a second.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

import orjson

from autopush.store.receipts import Receipts, ReceiptStatus
from keytables import KeytablesError

POLL_INTERVAL: Final = 1.0
GONE_INTERVAL: Final = 10.0
"""Seconds between two checks whether a message without an outcome is still stored."""
ROWS_PER_SECOND: Final = 20_000
CHECKS_PER_SECOND: Final = 1_000
"""Rows read and messages checked for all that wait, at most; both intervals grow to keep it so."""
READS_AT_ONCE: Final = 8
PAUSE: Final = 0.05
"""Seconds from a read to the next one: many acks may come one after the other."""
WAKES_PER_TURN: Final = 4
"""Requests that are answered in one turn of the loop."""

Document = dict[str, object]
Read = Callable[[str, set[str], bool], Awaitable[list[Document]]]
"""Reads a subscription: its identifier; URLs of messages that are known to be gone, to which it
adds; whether to check which of the others are.
"""


class Snapshot:
    """The receipts of a subscription, as they were read together. `number`: grows with the time."""

    __slots__ = ("body", "documents", "etag", "has_outcome", "number")

    def __init__(self, documents: list[Document], number: int) -> None:
        final = [f"{each['message']} {each['status']}" for each in documents if is_final(each)]
        self.documents = documents
        self.number = number
        self.has_outcome = bool(final)
        self.etag = f'"{hashlib.sha256(" ".join(final).encode()).hexdigest()[:16]}"'
        """Changes with each outcome."""
        self.body = orjson.dumps({"receipts": documents})

    def has_news(self, known: str | None) -> bool:
        """Whether there are outcomes other than those of the ETag `known`."""
        return self.has_outcome and self.etag != known


def is_final(document: Document) -> bool:
    return document["status"] != ReceiptStatus.PENDING


class Polls:
    """The subscriptions of one worker for which requests wait. `interval`: seconds."""

    def __init__(self, receipts: Receipts, read: Read, interval: float = POLL_INTERVAL) -> None:
        self.receipts = receipts
        self._read = read
        self._interval = interval
        self._polls: dict[str, Poll] = {}
        self._due: dict[str, asyncio.Task[Snapshot]] = {}
        """Reads that have not begun."""
        self._at_once = asyncio.Semaphore(READS_AT_ONCE)
        self._numbers = count(1)
        self.rows = 0
        """Of all polls, as they were read last."""

    @property
    def interval(self) -> float:
        """Seconds between two reads of a subscription."""
        return max(self._interval, self.rows / ROWS_PER_SECOND)

    @property
    def gone_interval(self) -> float:
        return max(GONE_INTERVAL, self.rows / CHECKS_PER_SECOND)

    async def read(self, identifier: str) -> Snapshot:
        """A subscription as it is after this call.

        :raises KeytablesError: the store failed
        """
        due = self._due.get(identifier)
        if due is None:
            due = asyncio.get_running_loop().create_task(self._read_due(identifier))
            self._due[identifier] = due
            due.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(due)

    async def _read_due(self, identifier: str) -> Snapshot:
        async with self._at_once:
            del self._due[identifier]  # from now on it may miss what is written
            number = next(self._numbers)
            return Snapshot(await self._read(identifier, set(), True), number)

    async def poll(self, identifier: str, gone: set[str], *, check: bool) -> Snapshot:
        async with self._at_once:
            number = next(self._numbers)
            return Snapshot(await self._read(identifier, gone, check), number)

    @contextmanager
    def joined(self, identifier: str, snapshot: Snapshot) -> Iterator["Poll"]:
        """Wait for a subscription that was read just now."""
        poll = self._polls.get(identifier)
        if poll is None:
            poll = self._polls[identifier] = Poll(self, identifier)
        poll.take(snapshot)
        poll.waiting += 1
        try:
            yield poll
        finally:
            poll.waiting -= 1
            if not poll.waiting:
                del self._polls[identifier]
                poll.end()


class Poll:
    """One subscription, from the first to the last that waits for it."""

    def __init__(self, polls: Polls, identifier: str) -> None:
        self._polls, self._identifier = polls, identifier
        self.snapshot = Snapshot([], 0)
        self.events: list[bytes] = []
        """Server-sent events: of each outcome one, in the order in which they were known."""
        self.waiting = 0
        self._sent: set[object] = set()
        self._gone: set[str] = set()
        self._sleepers: set[asyncio.Future[None]] = set()
        self._changed = polls.receipts.watch(identifier)
        self._changed.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def take(self, snapshot: Snapshot) -> bool:
        """Whether it has outcomes that those who wait do not know yet."""
        if snapshot.number <= self.snapshot.number:
            return False
        self._polls.rows += len(snapshot.documents) - len(self.snapshot.documents)
        is_new = snapshot.etag != self.snapshot.etag
        self.snapshot = snapshot
        for document in snapshot.documents:
            if is_final(document) and document["message"] not in self._sent:
                self._sent.add(document["message"])
                self.events.append(b"data: " + orjson.dumps(document) + b"\n\n")
        return is_new

    async def news(self, seconds: float) -> bool:
        """Wait up to `seconds` for outcomes; False if there are none by then. Also ends when the
        service does.
        """
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await sleeper
                    return True
            return False
        finally:
            self._sleepers.discard(sleeper)

    async def _run(self) -> None:
        loop, polls = asyncio.get_running_loop(), self._polls
        checked_at = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(polls.interval):
                    await self._changed.wait()
            self._changed.clear()
            if polls.receipts.is_closed:
                await self._wake()
                return
            is_due = loop.time() - checked_at >= polls.gone_interval
            if is_due:
                checked_at = loop.time()
            with suppress(KeytablesError):  # the next read may succeed
                if self.take(await polls.poll(self._identifier, self._gone, check=is_due)):
                    await self._wake()
            await asyncio.sleep(PAUSE)

    async def _wake(self) -> None:
        for number, sleeper in enumerate([*self._sleepers], 1):
            if not sleeper.done():
                sleeper.set_result(None)
            if number % WAKES_PER_TURN == 0:
                await asyncio.sleep(0)

    def end(self) -> None:
        self._task.cancel()
        self._polls.rows -= len(self.snapshot.documents)
        self._polls.receipts.unwatch(self._identifier, self._changed)
