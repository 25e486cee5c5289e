"""The table Mark: what somebody said about an item of the list of what is to be done.

Rule: a mark is no longer there once its time is over, and the item is listed again.

    item_key  which item: `<what> <IDs and timestamps, joined by />`; of an assignment, which lasts
              whatever else is said of the item, with `assigned ` before it
    state     done, snoozed, not_a_question or assigned
    assignee  ID of whom it is assigned to
    by        ID of who said so, where that is known
    at        seconds: when
    until     seconds
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from channelstats.tables.items import every_item, number, text, without_empty, write_all
from keytables import Item, TableHandle

_DAY: Final = 86_400


class MarkState(StrEnum):
    DONE = "done"
    SNOOZED = "snoozed"
    NOT_A_QUESTION = "not_a_question"
    ASSIGNED = "assigned"


LASTS: Final[Mapping[MarkState, int]] = {
    MarkState.DONE: 400 * _DAY,
    MarkState.SNOOZED: 7 * _DAY,
    MarkState.NOT_A_QUESTION: 400 * _DAY,
    MarkState.ASSIGNED: 400 * _DAY,
}
"""Seconds. No period that is shown reaches back longer than what is done is remembered."""


_STATES: Final = frozenset(map(str, MarkState))


class ItemMark(msgspec.Struct, frozen=True):
    """``by`` is "" for somebody who did not say who they are; ``assignee`` is of an assignment."""

    state: MarkState
    by: str = ""
    until: int = 0
    assignee: str = ""


class Marks:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, ItemMark]:
        """By item; what is no mark of this version is left out."""
        marks = {}
        async for item in every_item(self._table):
            if (state := text(item, "state")) in _STATES:
                until = number(item, "until") or 0
                mark = ItemMark(MarkState(state), text(item, "by"), until, text(item, "assignee"))
                marks[text(item, "item_key")] = mark
        return marks

    async def put(self, item: str, state: MarkState, now: int, by: str = "") -> None:
        await self._put(item, ItemMark(state, by, now + LASTS[state]), now)

    async def remove(self, item: str) -> None:
        """List it again."""
        await self._table.delete((item,))

    async def assign(self, item: str, assignee: str, now: int, by: str = "") -> None:
        """Assign an item to somebody, or with "" to nobody."""
        key = assignment_of(item)
        until = now + LASTS[MarkState.ASSIGNED]
        if assignee:
            await self._put(key, ItemMark(MarkState.ASSIGNED, by, until, assignee), now)
        else:
            await self._table.delete((key,))

    async def _put(self, key: str, mark: ItemMark, now: int) -> None:
        row: Item = {"item_key": key, "at": now, **msgspec.structs.asdict(mark)}
        await self._table.put(without_empty({**row, "state": str(mark.state)}))

    async def forget(self, uid: str) -> None:
        """Delete what a person said, and what was said about them."""
        marks = await self.all()
        theirs = [
            key
            for key, mark in marks.items()
            if uid in (mark.by, mark.assignee, *re.split("[ /]", key))
        ]
        await write_all(self._table, deletes=theirs)


def assignment_of(item: str) -> str:
    """The key of the row that says whom an item is assigned to."""
    return f"{MarkState.ASSIGNED} {item}"
