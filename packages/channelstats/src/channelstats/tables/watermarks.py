"""The table ChannelConfiguration: up to where each channel was read.

Rule: a watermark only rises, and is written after the messages below it.
"""

from typing import Final

from channelstats.tables.attributes import number
from keytables import Attr, ConditionFailed, Param, TableHandle, Update

ATTRIBUTE: Final = "last_message_timestamp"
OLDER_NAME: Final = "last_message_ts"

RAISE: Final = Update(set=(ATTRIBUTE,))
IS_LOWER: Final = Attr(ATTRIBUTE).absent() | (Attr(ATTRIBUTE) < Param(ATTRIBUTE))


class Watermarks:
    """See the module. Times are whole seconds of the newest message that is no reply."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def get(self, cid: str) -> int:
        """The watermark of a channel; 0 for one never read."""
        item = await self._table.get((cid,))
        return 0 if item is None else number(item, ATTRIBUTE, OLDER_NAME) or 0

    async def raise_to(self, cid: str, seconds: int) -> None:
        if seconds <= await self.get(cid):
            return
        try:
            await self._table.update((cid,), RAISE, {ATTRIBUTE: seconds}, condition=IS_LOWER)
        except ConditionFailed:
            return  # another reader was further
