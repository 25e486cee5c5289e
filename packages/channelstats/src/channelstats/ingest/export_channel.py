"""The messages of one channel of an export → the tables.

Rule: its rows first, then what follows from them. Where nothing of the channel is stored, rows are
written as they come; else they are settled with what is there once all have come.
"""

import asyncio
from collections import deque
from typing import Final, Self

from channelstats.identifiers import seconds
from channelstats.ingest.export_pieces import Piece
from channelstats.ingest.first_posts import FirstPostKeeper
from channelstats.ingest.opted_out import OptedOut
from channelstats.ingest.seen import put_seen, seen_of, step_of
from channelstats.ingest.threads import Change, lowest, settle
from channelstats.tables.message_row import MessageRow
from channelstats.tables.store import Tables

_AT_ONCE: Final = 2
"""Pieces being written: while one of them is on its way to the disk the next one is made ready."""


class ChannelImport:
    """Takes the pieces of a channel; a context, after which nothing of it is being written.

    ``out`` are people to leave out. ``alone``: nothing of it is stored; ``fetched_at``: how recent
    the export is, in seconds. ``messages`` were read, ``changed`` rows written, the ``newest``
    timestamp is among them.
    """

    def __init__(
        self,
        tables: Tables,
        keeper: FirstPostKeeper,
        out: OptedOut,
        cid: str,
        *,
        alone: bool,
        fetched_at: int,
    ) -> None:
        self._tables, self._keeper, self._out, self._cid = tables, keeper, out, cid
        self._alone, self._fetched_at = alone, fetched_at
        self._rows: list[MessageRow] = []
        self._oldest = self._top = ""
        self._writing: deque[asyncio.Task[None]] = deque()
        self.messages = self.changed = 0
        self.newest = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def take(self, piece: Piece) -> None:
        """Take in some of its rows."""
        rows = piece.rows
        if not rows:
            return
        self.messages += len(rows)
        times = [row.ts for row in rows]
        self._oldest = min([*times, self._oldest or times[0]])
        self.newest = max([*times, self.newest])
        self._top = max([self._top, *(row.ts for row in rows if not row.is_reply)])
        rows = list(self._out.rows(rows))
        if not self._alone:
            self._rows += rows
            return
        while len(self._writing) >= _AT_ONCE:
            await self._writing.popleft()
        self._writing.append(asyncio.create_task(self._tables.messages.write(rows)))
        self._note([(row, None) for row in rows])

    async def finish(self) -> None:
        """All have come."""
        if not self.messages:
            return
        while self._writing:
            await self._writing.popleft()
        tables, cid = self._tables, self._cid
        stored, seen = {}, await seen_of(tables.configuration, cid)
        if not self._alone:
            stored = await tables.messages.of_channel(cid, lowest(self._rows))
            changes = settle(stored, self._rows, seen)
            await tables.messages.write(row for row, _ in changes)
            self._note(changes)
        step = step_of(
            {row.ts for row in self._rows},
            stored,
            at=self._fetched_at,
            since=self._oldest,
            until=self.newest,
        )
        await asyncio.gather(
            put_seen(tables.configuration, cid, seen.with_step(step)),
            tables.watermarks.raise_to(cid, seconds(self._top or "0")),
        )

    def _note(self, changes: list[Change]) -> None:
        self.changed += len(changes)
        for row, replaced in changes:
            self._keeper.consider(row, replaced)
