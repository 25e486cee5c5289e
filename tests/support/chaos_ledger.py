"""The ledger of a cluster under faults: what was answered, what arrived, what was done to nodes.

Rule: a message is lost if it was answered 201 or 202 and never delivered. What is sent again after
its ack is in :mod:`support.ack_ledger`; everything else is reported, but is no failure.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from support.ack_ledger import AckLedger, AgentConnection


@dataclass
class Fault:
    """Something done to a node. Seconds of the monotonic clock."""

    kind: str
    target: str
    began: float
    ended: float = 0.0


@dataclass(frozen=True)
class Accepted:
    """An answer 201 or 202."""

    user: str
    at: float


@dataclass
class ChaosLedger:
    """Messages by id, connects and faults of one run."""

    began: float = field(default_factory=time.monotonic)
    sent: int = 0
    retried: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """By status; "none" for requests without an answer."""
    failures: list[tuple[float, str]] = field(default_factory=list)
    """Time and status of the answers other than 201 and 202."""
    accepted: dict[str, Accepted] = field(default_factory=dict)
    delivered: Counter[str] = field(default_factory=Counter)
    acks: AckLedger = field(default_factory=AckLedger)
    first_delivered: dict[str, float] = field(default_factory=dict)
    connects: list[float] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    """User agents that were given another UAID."""
    faults: list[Fault] = field(default_factory=list)
    late: set[str] = field(default_factory=set)
    """Delivered only after the user agent had connected again."""
    _progress: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """Start the clock of the report; connects before it do not count."""
        self.began = time.monotonic()
        self.connects.clear()

    @property
    def missing(self) -> set[str]:
        return self.accepted.keys() - self.delivered.keys()

    @property
    def again(self) -> int:
        """Deliveries of what had been delivered already."""
        return sum(count - 1 for count in self.delivered.values())

    def answer(self, status: str) -> None:
        self.answers[status] += 1
        if status not in ("201", "202"):
            self.failures.append((time.monotonic(), status))

    def accept(self, version: str, user: str) -> None:
        self.accepted[version] = Accepted(user, time.monotonic())

    def deliver(self, version: str, connection: AgentConnection) -> None:
        self.delivered[version] += 1
        self.acks.deliver(version, connection)
        self.first_delivered.setdefault(version, time.monotonic())
        self._progress.set()

    async def grows_by(self, count: int, seconds: float) -> None:
        """Wait until so many more messages are accepted."""
        goal = len(self.accepted) + count
        async with asyncio.timeout(seconds):
            while len(self.accepted) < goal:  # noqa: ASYNC110 - each is answered by itself
                await asyncio.sleep(0.02)

    async def complete(self, seconds: float) -> bool:
        """Wait until nothing is missing; False if that takes longer."""
        try:
            async with asyncio.timeout(seconds):
                while self.missing:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    def loss_window(self) -> float:
        """How many seconds before a connection node was killed the earliest of the messages lost
        with it was accepted; 0 without losses, infinite for one that no kill explains.
        """
        kills = [
            fault.began
            for fault in self.faults
            if fault.kind in ("kill", "crash") and fault.target.startswith("connection")
        ]
        windows = [0.0]
        for version in self.missing:
            before = [at - self.accepted[version].at for at in kills]
            windows.append(min((each for each in before if each > -1), default=math.inf))
        return max(windows)

    def waits(self, versions: Iterable[str]) -> list[float]:
        """Seconds from the answer to the delivery, ascending."""
        return sorted(
            max(0.0, self.first_delivered[version] - self.accepted[version].at)
            for version in versions
            if version in self.first_delivered
        )

    # ── the report ───────────────────────────────────────────────────────────────────────────────

    def report(self) -> str:
        """Several lines of text."""
        seconds = time.monotonic() - self.began
        waits = self.waits(self.accepted)
        unanswered = self.first_delivered.keys() - self.accepted.keys()
        answers = ", ".join(f"{status} {count:,}" for status, count in sorted(self.answers.items()))
        lines = [
            f"{seconds:.0f} s, {len(self.faults)} faults, {len(self.connects):,} connects",
            f"sent {self.sent:,} ({self.retried:,} of them again): {answers}",
            f"accepted {len(self.accepted):,}, delivered {len(self.first_delivered):,}",
            f"delivered without an answer {len(unanswered):,}",
            f"delivered again under the same id {self.again:,}",
            self.acks.report(),
            f"after the answer: median {_at(waits, 50):.3f} s, 99 % within {_at(waits, 99):.2f} s",
            f"slowest {_at(waits, 100):.1f} s; only after a new connection {len(self.late)}",
            f"lost {len(self.missing)}",
        ]
        lines += [self._line(fault) for fault in self.faults]
        return "\n".join(lines)

    def _line(self, fault: Fault) -> str:
        until = fault.ended + 5
        accepted = [v for v, each in self.accepted.items() if fault.began <= each.at <= until]
        failed = sum(fault.began <= at <= until for at, _ in self.failures)
        connects = sum(fault.began <= at <= until for at in self.connects)
        lost = len(self.missing.intersection(accepted))
        return (
            f"  {fault.began - self.began:6.1f} s  {fault.kind:<8}{fault.target:<12}"
            f" {fault.ended - fault.began:5.1f} s  {len(accepted):5,} accepted, {failed:3,} not,"
            f" {connects:5,} connects, slowest {_at(self.waits(accepted), 100):5.1f} s,"
            f" lost {lost}"
        )


def _at(ascending: list[float], percent: float) -> float:
    if not ascending:
        return 0.0
    return ascending[min(len(ascending) - 1, int(len(ascending) * percent / 100))]
