"""Acks under faults, and what is sent again after them.

An ack has no reply. It is *confirmed* by the pong to a ping that was sent behind it on the same
connection, and *settled* when the store was seen without the message after that, and after its
sender was answered: a user agent may ack a message before the store has it. A message is sent
*again* if it comes on the connection on which its ack was confirmed, or on one that began when it
was settled. A process that is killed, stopped or cut off from the store between an ack and the
commit of its delete may send it once more; that is counted apart.
"""

import asyncio
import time
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
