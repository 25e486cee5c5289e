"""The ledger of one measure: what was answered 201, and what was delivered.

Rule: both hold the same versions, each once; whatever else happens is a `MismatchError`, and a run
with a mismatch has no figures.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass


class MismatchError(Exception):
    """The service did something a correct one does not do."""


@dataclass(frozen=True)
class Balance:
    """Counts of messages."""

    answered: int
    delivered: int
    twice: int
    lost: int
    unasked: int


class Ledger:
    """Collects one round after the other: `begin`, traffic, `all_answered` / `all_delivered`,
    `close_round`. `arrived_at`: monotonic nanoseconds, in the order of `delivered`.
    """

    def __init__(self) -> None:
        self._failure: MismatchError | None = None

    def begin(self, pushes: int) -> None:
        """Begin a round of this many pushes."""
        loop = asyncio.get_running_loop()
        self.answered: list[bytes] = []
        self.delivered: list[bytes] = []
        self.arrived_at: list[int] = []
        self.pushes = pushes
        self._answers: asyncio.Future[None] = loop.create_future()
        self._arrivals: asyncio.Future[None] = loop.create_future()

    def answer(self, version: bytes) -> None:
        self.answered.append(version)
        if len(self.answered) == self.pushes and not self._answers.done():
            self._answers.set_result(None)

    def deliver(self, version: bytes) -> None:
        self.arrived_at.append(time.monotonic_ns())
        self.delivered.append(version)
        if len(self.delivered) == self.pushes and not self._arrivals.done():
            self._arrivals.set_result(None)

    def fail(self, reason: str) -> None:
        """Something unexpected: the round ends with it."""
        if self._failure is None:
            self._failure = MismatchError(reason)
            for waiting in (self._answers, self._arrivals):
                if not waiting.done():
                    waiting.set_exception(self._failure)
                    waiting.exception()  # its waiter gets it; asyncio need not warn

    async def all_answered(self, limit: float) -> None:
        await self._wait(self._answers, limit)

    async def all_delivered(self, limit: float) -> None:
        await self._wait(self._arrivals, limit)

    async def none_missing(self, limit: float) -> None:
        """As `all_delivered`, where more may be delivered than was answered 201."""
        until = time.monotonic() + limit
        while missing := self.balance().lost:
            if time.monotonic() > until:
                raise MismatchError(
                    f"after {limit:g} s {missing} answered pushes are not delivered"
                )
            await asyncio.sleep(0.1)

    async def _wait(self, waiting: asyncio.Future[None], limit: float) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            await asyncio.wait_for(asyncio.shield(waiting), limit)
        except TimeoutError:
            raise MismatchError(
                f"after {limit:g} s {len(self.answered)} of {self.pushes} pushes were answered"
                f" and {len(self.delivered)} delivered"
            ) from None

    def balance(self) -> Balance:
        """Compare what was answered and delivered so far."""
        answered, delivered = Counter(self.answered), Counter(self.delivered)
        return Balance(
            answered=len(self.answered),
            delivered=len(self.delivered),
            twice=sum(times - 1 for times in delivered.values()),
            lost=len(answered.keys() - delivered.keys()),
            unasked=len(delivered.keys() - answered.keys()),
        )

    def close_round(self, unanswered: int = 0, *, may_repeat: bool = False) -> Balance:
        """Raise `MismatchError` unless every answered push was delivered exactly once, under the
        version of its Location. `unanswered`: so many more were not answered 201, and may have been
        delivered all the same. `may_repeat`: a message may come twice.
        """
        if self._failure is not None:
            raise self._failure
        found = self.balance()
        reused = found.answered - len(set(self.answered))
        if (
            found.answered != self.pushes
            or (found.twice and not may_repeat)
            or found.lost
            or found.unasked > unanswered
            or reused
        ):
            raise MismatchError(
                f"{self.pushes} pushes: {found.answered} answered 201,"
                f" {found.delivered} deliveries, {found.twice} came twice, {found.lost} never came,"
                f" {found.unasked} came with a version no Location named,"
                f" {reused} shared a Location with another"
            )
        return found
