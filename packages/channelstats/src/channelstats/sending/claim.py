"""The right to send one report, held while it is being sent.

Rule: whoever holds it shows so again and again; who does not for a while has lost it. Nothing is
posted without a look whether it is still held.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from channelstats.sending.heartbeat import BEAT
from channelstats.tables.sent_reports import Sent, SentKey, SentReports
from keytables import Clock

HELD: Final = 150
"""Seconds for which a sign of life is good: more than a request and a short sleep take."""


class Claim:
    """A row that is held. ``row`` is how it was stored last."""

    def __init__(self, sent: SentReports, key: SentKey, row: Sent, clock: Clock) -> None:
        self._sent, self._key, self._clock = sent, key, clock
        self.row = row

    async def note(self, change: Callable[[Sent], Sent]) -> None:
        """Store a change, and a sign of life with it.

        :raises NotHeld: another run has taken over
        """
        row = msgspec.structs.replace(change(self.row), until=int(self._clock()) + HELD)
        await self._sent.keep(self._key, row)
        self.row = row

    async def keep(self) -> None:
        """A sign of life, if the last one was a while ago."""
        if self.row.until - self._clock() < HELD - BEAT / 2:
            await self.note(lambda row: row)

    async def release(self, *, done: bool = False) -> None:
        """Let go, so that another run may take it at once."""
        finished = int(self._clock()) if done else 0
        row = msgspec.structs.replace(self.row, until=0, done=finished)
        await self._sent.keep(self._key, row)
        self.row = row


def begun(row: Sent | None, content: str, run: str, now: float, *, anew: bool) -> Sent:
    """The row of a run that takes over from ``row``.

    The same content goes on where it ended. Another one is a new edition, whole, in the thread of
    the old one; ``anew``: in a thread of its own.
    """
    until = int(now) + HELD
    if row is None or anew:
        return Sent(run=run, until=until, edition=run, content=content)
    if row.content != content:
        return Sent(
            run=run,
            until=until,
            edition=run,
            content=content,
            channel=row.channel,
            thread=row.thread,
        )
    return msgspec.structs.replace(row, run=run, until=until)
