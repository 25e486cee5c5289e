"""The table ChannelMembersLog: how many members a channel had, sample by sample.

Rule: a sample is a column of its own, `ts_<seconds>`, so adding one never touches another.
"""

import asyncio
from collections.abc import Mapping

from channelstats.tables.attributes import number
from channelstats.tables.paging import batches
from keytables import TableHandle, Update


class MembersLog:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def add(self, seconds: int, members: Mapping[str, int]) -> None:
        """Add a sample, taken at that time, for each channel."""
        name = f"ts_{seconds}"
        sample = Update(set=(name,))
        for batch in batches(members.items()):
            await asyncio.gather(
                *(self._table.update((cid,), sample, {name: count}) for cid, count in batch)
            )

    async def samples(self, cid: str) -> list[tuple[int, int]]:
        """Times and numbers of members of a channel, in the order of time."""
        item = await self._table.get((cid,)) or {}
        times = (name for name in item if name.startswith("ts_") and name[3:].isdecimal())
        return sorted((int(name[3:]), number(item, name) or 0) for name in times)
