"""What leaves the tables: a person who is to be forgotten, and messages that have grown too old.

Rule: a person is noted as forgotten first, so that no import that runs meanwhile brings them back;
then everything of theirs is removed. A run that was interrupted is done again from its beginning.
Their messages are deleted. In the messages of others nothing names them any more: no reaction, no
mention, no reply in a list. Reports that were made before are removed, since they may hold them.

Rule: messages go by the date that they are stored under; a whole date goes at a time, with what was
made of it. First posts stay, or everybody would look new.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import date
from pathlib import Path

import msgspec

from channelstats.tables import Tables
from channelstats.tables.exclusion import add_forgotten, row_without
from channelstats.tables.message_row import MessageRow


class Forgotten(msgspec.Struct, frozen=True):
    """What has been removed so far: messages of theirs, and messages of others that named them;
    ``read`` rows were looked at. ``files`` still hold their messages: columns of dates that could
    neither be overwritten nor removed.
    """

    deleted: int = 0
    changed: int = 0
    read: int = 0
    files: tuple[Path, ...] = ()


class Forgetting:
    """One person."""

    def __init__(self, tables: Tables, uid: str) -> None:
        self._tables, self._uid = tables, uid

    async def run(self) -> AsyncGenerator[Forgotten, None]:
        """Remove everything, and report as it goes on."""
        tables, uid = self._tables, self._uid
        await add_forgotten(tables.configuration, uid)
        done = Forgotten()
        async for rows in tables.messages.pages():
            deleted, changed = await self._clean(rows)
            done = Forgotten(done.deleted + deleted, done.changed + changed, done.read + len(rows))
            yield done
        files = await tables.messages.close_days()
        await self._leave_channels()
        await tables.users.delete(uid)
        await tables.users_created.delete(uid)
        await tables.user_hash.remove(uid)
        await tables.first_posts.delete([uid])
        await tables.sent.forget(uid)
        await tables.slack_analytics.remove_member(uid)
        await tables.reports.clear()
        yield msgspec.structs.replace(done, files=tuple(files))

    async def count(self) -> AsyncGenerator[Forgotten, None]:
        """What `run` would remove and change, as it is counted; nothing is touched."""
        done = Forgotten()
        async for rows in self._tables.messages.pages():
            gone, changed = self._named(rows)
            done = Forgotten(
                done.deleted + len(gone), done.changed + len(changed), done.read + len(rows)
            )
            yield done

    async def _clean(self, rows: list[MessageRow]) -> tuple[int, int]:
        gone, changed = self._named(rows)
        await self._tables.messages.delete(gone)
        await self._tables.messages.write(changed)
        return len(gone), len(changed)

    def _named(self, rows: list[MessageRow]) -> tuple[list[MessageRow], list[MessageRow]]:
        """Those of theirs, and those of others that name them as they will be."""
        gone, changed = [], []
        for row in rows:
            left = row_without(row, self._is_out)
            if left is None:
                gone.append(row)
            elif left is not row:
                changed.append(left)
        return gone, changed

    def _is_out(self, uid: str) -> bool:
        return uid == self._uid

    async def _leave_channels(self) -> None:
        """Take them out of the lists of members."""
        bulk = self._tables.bulk
        for cid in await self._tables.channels.all():
            members = (await bulk.get(cid) or "").split(",")
            if self._uid in members:
                left = [uid for uid in members if uid != self._uid]
                await (bulk.put(cid, ",".join(left)) if left else bulk.delete(cid))


async def remove_before(tables: Tables, first: date) -> AsyncIterator[tuple[str, int]]:
    """Remove the messages of the dates before ``first``; yield each date and how many it had.

    Days are open afterwards, as after every writing. Slack's own counts of these dates go too.
    """
    await tables.slack_analytics.remove_before(first)
    for day in sorted(await tables.messages.days()):
        if day < first.isoformat() and (removed := await tables.messages.empty_day(day)):
            yield day, removed
