"""The table Mark: what somebody said about an item of the list of what is to be done.

Rule: a mark is no longer there once its time is over, and the item is listed again.

    item_key  which item: `<what> <IDs and timestamps, joined by />`
    state     done, snoozed or not_a_question
    by        ID of who said so, where they said who they are
    at        seconds: when
    until     seconds
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from channelstats.tables.items import every_item, struct_of, text, without_empty, write_all
from keytables import Item, TableHandle

_DAY: Final = 86_400


class MarkState(StrEnum):
    DONE = "done"
    SNOOZED = "snoozed"
    NOT_A_QUESTION = "not_a_question"


LASTS: Final[Mapping[MarkState, int]] = {
    MarkState.DONE: 400 * _DAY,
    MarkState.SNOOZED: 7 * _DAY,
    MarkState.NOT_A_QUESTION: 400 * _DAY,
}
"""Seconds. No period that is shown reaches back longer than what is done is remembered."""


_STATES: Final = frozenset(map(str, MarkState))


class ItemMark(msgspec.Struct, frozen=True):
    """``by`` is "" for somebody who did not say who they are."""

    state: MarkState
    by: str = ""
    until: int = 0


class _Row(msgspec.Struct, frozen=True):
    item_key: str = ""
    by: str = ""
    until: int = 0


class Marks:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, ItemMark]:
        """By item; what is no mark of this version is left out."""
        found = {}
        async for item in every_item(self._table):
            if (state := text(item, "state")) in _STATES:
                row = struct_of(_Row, item)
                found[row.item_key] = ItemMark(MarkState(state), row.by, row.until)
        return found

    async def put(self, item: str, state: MarkState, now: int, by: str = "") -> None:
        until = now + LASTS[state]
        row: Item = {"item_key": item, "state": str(state), "by": by, "at": now, "until": until}
        await self._table.put(without_empty(row))

    async def remove(self, item: str) -> None:
        """List it again."""
        await self._table.delete((item,))

    async def forget(self, uid: str) -> None:
        """Delete what a person said, and what was said about them."""
        marks = await self.all()
        of = [key for key, mark in marks.items() if uid in (mark.by, *re.split("[ /]", key))]
        await write_all(self._table, deletes=of)
