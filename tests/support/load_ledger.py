"""The ledger of a mixed load: what was accepted, delivered, acked and deleted, and what must be.

A message is *lost* if it was answered 201 and never delivered, though its subscription stayed, its
TTL is longer than the run, and no newer message of its topic may have replaced it.

An ack has no reply. It is *confirmed* by the pong to a ping that was sent behind it on the same
connection, and *settled* when the store was seen without the message after that, and after its
sender was answered: a user agent may ack a message before the store has it. A message is sent
*again* if it comes on the connection on which its ack was confirmed, or on one that began when it
was settled. A process that is killed, stopped or cut off from the store between an ack and the
commit of its delete may send it once more; that is counted apart.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class AgentConnection:
    """A connection of a user agent. `began`: before its hello."""

    began: float = field(default_factory=time.monotonic)


@dataclass
class ConfirmedAck:
    connection: AgentConnection
    settled_at: float | None = None


@dataclass
class AckLedger:
    """Messages by their id. Seconds are those of the monotonic clock."""

    confirmed: dict[str, ConfirmedAck] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    again_unsettled: int = 0
    """Sent again after a confirmed ack whose delete was not seen in the store."""

    def deliver(self, version: str, connection: AgentConnection) -> None:
        ack = self.confirmed.get(version)
        if ack is None:
            return
        is_settled = ack.settled_at is not None and ack.settled_at < connection.began
        if is_settled or ack.connection is connection:
            self.again.append(version)
        else:
            self.again_unsettled += 1

    def confirm(self, versions: Iterable[str], connection: AgentConnection) -> None:
        """The service has read the acks of these."""
        for version in versions:
            self.confirmed.setdefault(version, ConfirmedAck(connection))

    async def watch_store(
        self, read: Callable[[], bytes | None], accepted: Container[str], pause: float
    ) -> None:
        """Look for ever which acked messages are gone."""
        while True:
            await self.look(read, accepted)
            await asyncio.sleep(pause)

    async def look(self, read: Callable[[], bytes | None], accepted: Container[str]) -> None:
        """Look which acked messages are gone. `read`: all that is stored, in any form that has the
        ids of the messages; None if that cannot be read now. `accepted`: whose sender was answered.
        """
        open_acks = [
            version
            for version, ack in self.confirmed.items()
            if ack.settled_at is None and version in accepted
        ]
        content = await asyncio.to_thread(read) if open_acks else None
        if content is not None:
            now = time.monotonic()
            for version in open_acks:
                if version.encode() not in content:
                    self.confirmed[version].settled_at = now

    @property
    def settled(self) -> int:
        return sum(ack.settled_at is not None for ack in self.confirmed.values())

    def report(self) -> str:
        return (
            f"acks confirmed {len(self.confirmed):,}, settled {self.settled:,}; "
            f"sent again before that {self.again_unsettled}, after it {len(self.again)}"
        )


@dataclass
class Fault:
    """Something done to the service, its machine or database. Seconds of the monotonic clock."""

    kind: str
    began: float
    ended: float


@dataclass(eq=False)
class Subscription:
    """A channel. `is_kept`: it was not asked to be deleted."""

    uaid: str
    channel: str
    path: str
    is_kept: bool = True


@dataclass(frozen=True)
class PushedMessage:
    """A message that was answered 201. `lasts`: its TTL is longer than the run."""

    subscription: Subscription
    topic: str | None
    lasts: bool


@dataclass
class LoadLedger:
    """Messages by their id. Seconds are those of the monotonic clock."""

    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """By status and errno; "none" for requests without an answer."""
    accepted: dict[str, PushedMessage] = field(default_factory=dict)
    delivered: Counter[str] = field(default_factory=Counter)
    acks: AckLedger = field(default_factory=AckLedger)
    forgotten: list[str] = field(default_factory=list)
    """What the service said of user agents and subscriptions that it must know."""
    late: set[str] = field(default_factory=set)
    """Delivered only after all user agents had connected again at the end."""
    faults: list[Fault] = field(default_factory=list)
    connects: int = 0
    refused_connects: Counter[str] = field(default_factory=Counter)
    max_wait: float = 0.0
    _newest: dict[tuple[Subscription, str], str | None] = field(default_factory=dict)
    """Of each topic the last message that was sent, None if it had no answer that says its id."""
    _progress: asyncio.Event = field(default_factory=asyncio.Event)

    # ── what application servers see ─────────────────────────────────────────────────────────────

    def send(self, subscription: Subscription, topic: str | None) -> None:
        self.sent += 1
        if topic is not None:
            self._newest[subscription, topic] = None

    def accept(
        self, version: str, subscription: Subscription, topic: str | None, *, lasts: bool
    ) -> None:
        self.accepted[version] = PushedMessage(subscription, topic, lasts)
        if topic is not None:
            self._newest[subscription, topic] = version

    # ── what user agents see ─────────────────────────────────────────────────────────────────────

    def deliver(self, version: str, connection: AgentConnection) -> None:
        self.delivered[version] += 1
        self._progress.set()
        self.acks.deliver(version, connection)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    @property
    def missing(self) -> set[str]:
        return {
            version
            for version, message in self.accepted.items()
            if version not in self.delivered
            and message.lasts
            and message.subscription.is_kept
            and self._is_newest(version, message)
        }

    def _is_newest(self, version: str, message: PushedMessage) -> bool:
        topic = message.topic
        return topic is None or self._newest[message.subscription, topic] == version

    @property
    def refused(self) -> Counter[str]:
        """The answers other than 201, and the requests without one."""
        return Counter({each: count for each, count in self.answers.items() if each != "201"})

    async def grows_by(self, count: int) -> None:
        """Wait until so many more messages are accepted."""
        goal = len(self.accepted) + count
        while len(self.accepted) < goal:  # noqa: ASYNC110 - each is answered by itself
            await asyncio.sleep(0.02)

    async def complete(self, seconds: float) -> bool:
        """Wait until nothing is missing; False if that takes longer."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                while self.missing:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        finally:
            self.max_wait = time.monotonic() - began
        return True

    def judge(self) -> None:
        """Nothing is lost or forgotten, and nothing comes again after its ack."""
        assert self.missing == set()
        assert self.forgotten == []
        assert {status.partition("/")[0] for status in self.answers} <= {
            "201",
            "410",
            "503",
            "none",
        }
        assert self.acks.settled > len(self.acks.confirmed.keys() & self.accepted.keys()) / 2
        assert self.acks.again == []

    def report(self) -> str:
        """Several lines of text."""
        counts = Counter(fault.kind for fault in self.faults)
        faults = ", ".join(
            f"{count} {kind} ({self._seconds_of(kind):.0f} s)"
            for kind, count in sorted(counts.items())
        )
        repeated = self.delivered.total() - len(self.delivered)
        return f"""\
faults: {faults}
sent {self.sent:,}: {_listed(self.answers)}
connects {self.connects:,}, failed: {_listed(self.refused_connects)}
accepted {len(self.accepted):,}, delivered {len(self.delivered):,}, delivered again {repeated:,}
{self.acks.report()}
complete {self.max_wait:.1f} s after the faults; only after connecting again {len(self.late)}
lost {len(self.missing)}, acked again {len(self.acks.again)}, forgotten {len(self.forgotten)}"""

    def _seconds_of(self, kind: str) -> float:
        return sum(fault.ended - fault.began for fault in self.faults if fault.kind == kind)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"
