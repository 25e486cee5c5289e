"""The incomplete writes of one process: how many there may be, and who waits for them.

Rule: what is refused is refused before it is counted, and what was counted is completed once. A
read that waits for a write is woken by its completion, whatever that is.
"""

import asyncio
from typing import Final

from keytables.commit.completions import Answered, Completion, FanOut, clone_error, wake
from keytables.errors import KeytablesError, StoreClosed, Throttled

DELETE_SIZE: Final = 64
UPDATE_SIZE: Final = 256
"""Bytes that a write without an item counts for while it waits."""


class Operation:
    """A write from its submission to its completion. ``size``: bytes. Applying it sets ``result``
    or ``error``. ``waiters``: reads that wait for the completion.
    """

    __slots__ = ("completion", "error", "result", "size", "waiters")

    completion: Completion
    error: Exception | None
    result: object
    size: int
    waiters: "list[asyncio.Future[None]] | None"


class IncompleteWrites:
    """Those over ``max_waiting`` or ``max_waiting_bytes`` are Throttled, and once ``is_closed`` all
    are refused. ``count`` includes replaced ones.
    """

    __slots__ = (
        "_empty_waiters",
        "_loop",
        "_max_waiting",
        "_max_waiting_bytes",
        "bytes",
        "count",
        "is_closed",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, max_waiting: int, max_waiting_bytes: int
    ) -> None:
        self._loop = loop
        self._max_waiting, self._max_waiting_bytes = max_waiting, max_waiting_bytes
        self.count = self.bytes = 0
        self.is_closed = False
        self._empty_waiters: list[asyncio.Future[None]] = []

    def refuses(self, completion: Completion) -> bool:
        """Whether another write is refused; its completion has the error then."""
        if self.is_closed:
            completion.set_exception(StoreClosed("the store is closed"))
            return True
        if self.count >= self._max_waiting or self.bytes >= self._max_waiting_bytes:
            completion.set_exception(
                Throttled(f"{self.count} writes with {self.bytes} bytes are waiting already")
            )
            return True
        return False

    def add(self, operation: Operation, completion: Completion) -> bool:
        """Count a write, unless it is refused; return whether so."""
        if self.refuses(completion):
            return False
        operation.completion = completion
        self.count += 1
        self.bytes += operation.size
        return True

    def replace(self, older: Operation, newer: Operation) -> None:
        """Let another one do a write that was added, and complete both."""
        self.bytes -= older.size
        older.size = newer.size
        if isinstance(older.completion, FanOut):
            older.completion.completions.append(newer.completion)
        else:
            older.completion = FanOut(older.completion, newer.completion)

    def complete(self, operation: Operation, error: Exception | None) -> None:
        """Give the caller the result, or the error."""
        self.count -= 1
        self.bytes -= operation.size
        completion = operation.completion
        if type(completion) is FanOut:
            self.count -= len(completion.completions) - 1
        if not completion.done():
            if error is None:
                completion.set_result(operation.result)
            else:
                completion.set_exception(error)
        if operation.waiters is not None:
            wake(operation.waiters)
        if self._empty_waiters and not self.count:
            waiters, self._empty_waiters = self._empty_waiters, []
            wake(waiters)

    def answer(self, operation: Operation, failure: KeytablesError) -> None:
        """Give the caller an error of its own now; the write stays incomplete."""
        if not operation.completion.done():
            operation.completion.set_exception(clone_error(failure))
        operation.completion = Answered()
        wake(operation.waiters or ())
        operation.waiters = None

    def wait_for(self, operation: Operation) -> "asyncio.Future[None]":
        waiter = self._loop.create_future()
        if operation.waiters is None:
            operation.waiters = []
        operation.waiters.append(waiter)
        return waiter

    async def wait_empty(self) -> None:
        while self.count:
            waiter = self._loop.create_future()
            self._empty_waiters.append(waiter)
            await waiter
