"""The table UserHash: many user IDs in few rows, by the last character of the ID.

Rule: an ID is known only as a whole token of its row.

A row of 300,000 characters holds 20,000 IDs at 15 characters each; 35 last characters make room for
700,000 users, in at most 35 reads.
"""

from collections import defaultdict
from collections.abc import Iterable

from channelstats.tables.attributes import text
from keytables import TableHandle


def key_of(uid: str) -> str:
    return uid[-1]


class UserHash:
    """See the module. One writer at a time."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def known(self, uids: Iterable[str]) -> set[str]:
        """Those of the IDs that are stored."""
        rows = await self._rows(asked := set(uids))
        return {uid for uid in asked if uid in rows[key_of(uid)]}

    async def add(self, uids: Iterable[str]) -> None:
        """Store IDs; those that are stored already stay as they are."""
        rows = await self._rows(new := set(uids))
        changed = defaultdict(list)
        for uid in sorted(new):
            if uid not in rows[key_of(uid)]:
                changed[key_of(uid)].append(uid)
        await self._table.batch_write(
            puts=[
                {"user_key": key, "uids": " ".join((*rows[key], *added))}
                for key, added in changed.items()
            ]
        )

    async def remove(self, uid: str) -> None:
        """Take an ID out."""
        left = dict.fromkeys((await self._rows({uid}))[key_of(uid)])
        if uid in left:
            del left[uid]
            if left:
                await self._table.put({"user_key": key_of(uid), "uids": " ".join(left)})
            else:
                await self._table.delete((key_of(uid),))

    async def _rows(self, uids: Iterable[str]) -> defaultdict[str, dict[str, None]]:
        """The IDs of every row that could hold one of these, in their order."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for item in await self._table.batch_get({(key_of(uid),): None for uid in uids}):
            found[text(item, "user_key")] = dict.fromkeys(text(item, "uids").split())
        return found
