"""The right to send one report, held while it is being sent.

Rule: whoever holds it shows so again and again; who does not for a while has lost it. Nothing is
posted without a look whether it is still held.
"""

from collections.abc import Callable

import msgspec

from channelstats.sending.heartbeat import BEAT
from channelstats.tables.sent_reports import Sent, columns_of
from keytables import Clock
from keytables.lease import Lease, LeaseLost


class Claim:
    """A row whose lease is held. ``row`` is how it was stored last, or will be at first."""

    def __init__(self, lease: Lease, row: Sent, clock: Clock) -> None:
        self._lease, self._clock = lease, clock
        self._renewed = clock()
        self.row = row

    async def note(self, change: Callable[[Sent], Sent]) -> None:
        """Store a change, and a sign of life with it.

        :raises LeaseLost: another run has taken over
        """
        row, now = change(self.row), self._clock()
        if not await self._lease.renew(columns_of(row)):
            raise LeaseLost
        self.row, self._renewed = row, now

    async def keep(self) -> None:
        """A sign of life, if the last one was a while ago."""
        if self._clock() - self._renewed > BEAT / 2:
            await self.note(lambda row: row)

    async def release(self, *, done: bool = False) -> None:
        """Let go, so that another run may take it at once.

        :raises LeaseLost: another one has
        """
        finished = int(self._clock()) if done else 0
        row = msgspec.structs.replace(self.row, done=finished)
        if not await self._lease.release(columns_of(row)):
            raise LeaseLost
        self.row = row


def begun(row: Sent | None, content: str, run: str, *, in_new_thread: bool) -> Sent:
    """The row of a run that takes over from ``row``.

    The same content goes on where it ended. Another one is a new edition, whole, in the thread of
    the old one; ``in_new_thread``: in a thread of its own.
    """
    if row is None or not row.edition or in_new_thread:
        return Sent(edition=run, content=content)
    if row.content != content:
        return Sent(edition=run, content=content, channel=row.channel, thread=row.thread)
    return row
