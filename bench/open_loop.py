"""Pushes that do not wait for each other.

Rule: a push is due at a time drawn beforehand, and a late start is part of its latency.
"""

import time
from collections import deque

from bench.fleet import Fleet
from bench.ledger import MismatchError, TimedLedger
from bench.push_client import Poster


class OpenLoop:
    """Sends a push at each call of `send`, to the fleet's members round-robin, over a free poster;
    when none is free, as soon as one is. The ledger is the fleet's.
    """

    def __init__(
        self, posters: list[Poster], fleet: Fleet, ledger: TimedLedger, token: bytes
    ) -> None:
        self.sent = 0
        self._due: dict[bytes, int] = {}
        self._answer_ns: list[int] = []
        self._late_ns: list[int] = []
        self._idle = deque(posters)  # round-robin: one left idle too long would be closed
        self._queue: deque[int] = deque()
        self._fleet, self._ledger, self._token = fleet, ledger, token
        for poster in posters:
            poster.answered = self._answered
            poster.lost = self._lost

    def send(self, due: int) -> None:
        """`due`: monotonic nanoseconds."""
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

    def _answered(self, poster: Poster, status: bytes, version: bytes) -> None:
        if status != b"201" or not version:
            self._ledger.fail(f"a push was answered {status.decode()} (Location names {version!r})")
            return
        self._due[version] = poster.started
        self._answer_ns.append(time.monotonic_ns() - poster.started)
        self._ledger.answer(version)
        if self._queue:
            self._send(poster, self._queue.popleft())
        else:
            self._idle.append(poster)

    def _lost(self, reason: str) -> None:
        self._ledger.fail(f"the server ended an application server's connection: {reason}")

    def latencies(self) -> list[float]:
        """Milliseconds from due to delivered, ascending; for a round that balanced."""
        try:
            return sorted(
                (arrived - self._due[version]) / 1e6
                for version, arrived in zip(
                    self._ledger.delivered, self._ledger.arrived_at, strict=True
                )
            )
        except KeyError as unknown:
            raise MismatchError(f"a delivery of a message that was not sent: {unknown}") from None

    def answer_times(self) -> list[float]:
        """Milliseconds from due to 201, ascending."""
        return sorted(each / 1e6 for each in self._answer_ns)

    def lateness(self) -> list[float]:
        """Milliseconds by which the load was late to send, ascending: its own part of a latency."""
        return sorted(each / 1e6 for each in self._late_ns)
