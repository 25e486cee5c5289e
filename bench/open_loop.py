"""Pushes that do not wait for each other's answers (open loop).

Rule: the time of a push is drawn before the run begins, and whatever makes it late, the load or the
server, counts as latency.
"""

import asyncio
import random
import time
from collections import deque

from bench.fleet import Fleet
from bench.ledger import Ledger, MismatchError
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
    `unanswered` if a push was under way, and another one takes its place.
    """

    def __init__(
        self,
        posters: list[Poster],
        fleet: Fleet,
        ledger: Ledger,
        token: bytes,
        times: list[int],
    ) -> None:
        self.sent = self.refused = self.unanswered = 0
        self._connecting: set[asyncio.Task[None]] = set()
        self._due: dict[bytes, int] = {}
        self._late_ns: list[int] = []
        self._idle = deque(posters)  # round-robin: one left idle too long would be closed
        self._queue: deque[int] = deque()
        self._posters = len(posters)
        self._all_idle = asyncio.Event()
        self._fleet, self._ledger, self._token = fleet, ledger, token
        self._stopping = asyncio.Event()
        for poster in posters:
            self._use(poster)
        self.done = asyncio.ensure_future(self._send_all(times))

    async def _send_all(self, times: list[int]) -> None:
        start = time.monotonic_ns()
        for offset in times:
            pause = (start + offset - time.monotonic_ns()) / 1e9
            if pause > 0:
                await asyncio.sleep(pause)
            if self._stopping.is_set():
                return
            self._send_due(start + offset)

    async def end(self, limit: float, *, at_once: bool = False) -> int:
        """Wait until all pushes are sent (`at_once`: those that are already), and each is answered,
        or refused, and what was answered 201 is delivered; returns how many were not.
        """
        if at_once:
            self._stopping.set()
        await self.done
        if len(self._idle) < self._posters:
            self._all_idle.clear()
            try:
                await asyncio.wait_for(self._all_idle.wait(), limit)
            except TimeoutError:
                raise MismatchError(f"a push was not answered within {limit:g} s") from None
        others = self.refused + self.unanswered
        self._ledger.pushes = self.sent - others
        await self._ledger.none_missing(limit)
        return others

    def _send_due(self, due: int) -> None:
        self.sent += 1
        self._late_ns.append(time.monotonic_ns() - due)
        if self._idle:
            self._send(self._idle.popleft(), due)
        else:
            self._queue.append(due)

    def _send(self, poster: Poster, due: int) -> None:
        poster.started = due
        member = self.sent % len(self._fleet.identities)
        poster.transport.write(self._fleet.push_to(member, self._token))

    def _use(self, poster: Poster) -> None:
        poster.answered = self._answered
        poster.lost = lambda _: self._lost(poster)

    def _answered(self, poster: Poster, status: bytes, version: bytes) -> None:
        if status == b"201":
            self._due[version] = poster.started
            self._ledger.answer(version)
        elif status == b"503":
            self.refused += 1
        else:
            self._ledger.fail(refusal(status, version))
        if poster.is_last:
            self._replace(poster)
        else:
            self._free(poster)

    def _free(self, poster: Poster) -> None:
        if self._queue:
            self._send(poster, self._queue.popleft())
            return
        self._idle.append(poster)
        if len(self._idle) == self._posters:
            self._all_idle.set()

    def _lost(self, poster: Poster) -> None:
        if poster in self._idle:
            self._idle.remove(poster)
        else:
            self.unanswered += 1
        self._replace(poster)

    def _replace(self, ended: Poster) -> None:
        ended.close()
        connecting = asyncio.ensure_future(self._connect())
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        try:
            (poster,) = await self._fleet.posters(1)
        except OSError as refused:
            self._ledger.fail(f"an application server could not connect: {refused}")
            return
        self._use(poster)
        self._free(poster)

    def close(self) -> None:
        for poster in self._idle:
            poster.close()

    def latencies(self) -> list[float]:
        """Milliseconds from due to delivered, ascending, of all that were answered 201."""
        arrivals = zip(self._ledger.delivered, self._ledger.arrived_at, strict=True)
        return sorted(
            (arrived - self._due[version]) / 1e6
            for version, arrived in arrivals
            if version in self._due
        )

    def lateness_ms(self) -> float:
        """Milliseconds by which the load was late to send, at most: its own part of a latency."""
        return max(self._late_ns) / 1e6
