"""Pushes that do not wait for each other's answers (open loop).

Rule: the time of a push is drawn before the run begins, and whatever makes it late, the load or the
server, counts as latency.
"""

import asyncio
import random
import time

from bench.fleet import Fleet
from bench.ledger import MismatchError
from bench.push_client import Poster, refusal


def poisson(rate: float, seconds: float) -> list[int]:
    """Times of arrivals, nanoseconds from the start, `rate` a second on average, each independent
    of the others.
    """
    times: list[int] = []
    at = random.expovariate(rate)
    while at < seconds:
        times.append(int(at * 1e9))
        at += random.expovariate(rate)
    return times


class OpenLoop:
    """Sends a push at each of the times, to the fleet's members round-robin, over a free poster;
    when none is free, as soon as one is. A 503 is counted in `refused`; the end of a connection in
    `unanswered` if a push was under way, and another one takes its place. `lateness_ms`: by which
    the load was late to send, at most: its own part of a latency.
    """

    def __init__(self, posters: list[Poster], fleet: Fleet, token: bytes, times: list[int]) -> None:
        self.sent = self.refused = self.unanswered = 0
        self.lateness_ms = 0.0
        self._due: dict[bytes, int] = {}
        self._idle: asyncio.Queue[Poster] = asyncio.Queue()  # one left idle too long is closed
        for poster in posters:
            self._idle.put_nowait(poster)
        self._fleet, self._ledger, self._token = fleet, fleet.ledger, token
        self._is_stopping = False
        self._done = asyncio.ensure_future(self._send_all(times))

    async def _send_all(self, times: list[int]) -> None:
        start = time.monotonic_ns()
        async with asyncio.TaskGroup() as pushes:
            for offset in times:
                due = start + offset
                await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
                if self._is_stopping:
                    return
                pushes.create_task(self._push(due, self.sent))
                self.sent += 1

    async def _push(self, due: int, number: int) -> None:
        self.lateness_ms = max(self.lateness_ms, (time.monotonic_ns() - due) / 1e6)
        poster = await self._idle.get()
        try:
            if not poster.is_usable:
                poster = await self._another(poster)
            request = self._fleet.push_to(number % len(self._fleet.identities), self._token)
            try:
                status, version = await poster.ask(request)
            except ConnectionResetError:
                self.unanswered += 1
                return
            if status == b"201":
                self._due[version] = due
                self._ledger.answer(version)
            elif status == b"503":
                self.refused += 1
            else:
                self._ledger.fail(refusal(status, version))
        finally:
            self._idle.put_nowait(poster)

    async def _another(self, ended: Poster) -> Poster:
        ended.close()
        try:
            (poster,) = await self._fleet.posters(1)
        except OSError as refused:
            self._ledger.fail(f"an application server could not connect: {refused}")
            return ended
        return poster

    async def end(self, limit: float, *, at_once: bool = False) -> int:
        """Wait until all pushes are sent (`at_once`: those that are already), and each is answered,
        or refused, and what was answered 201 is delivered; returns how many were not.
        """
        self._is_stopping = at_once
        try:
            await asyncio.wait_for(self._done, limit)
        except TimeoutError:
            raise MismatchError(f"a push was not answered within {limit:g} s") from None
        others = self.refused + self.unanswered
        self._ledger.pushes = self.sent - others
        await self._ledger.none_missing(limit)
        return others

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def latencies(self) -> list[float]:
        """Milliseconds from due to delivered, ascending, of all that were answered 201."""
        ledger, due = self._ledger, self._due
        arrivals = zip(ledger.delivered, ledger.arrived_at, strict=True)
        return sorted((at - due[version]) / 1e6 for version, at in arrivals if version in due)
