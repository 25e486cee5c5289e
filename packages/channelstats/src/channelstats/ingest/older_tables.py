"""The tables of another installation, of today's or of the original's form, opened to be read.

Rule: nothing here writes. A table that is not there is as good as empty.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Self

from channelstats.tables.declarations import HASH_KEYS, MESSAGE_INDEXES
from channelstats.tables.paging import everything
from keytables import Engine, Index, Item, Key, SchemaError, Table, TableHandle

NAMES: Final = (
    "User",
    "UserCreated",
    "UserHash",
    "Channel",
    "BulkStore",
    "ChannelMembersLog",
    "Configuration",
    "Message",
    "FirstPost",
    "ChannelConfiguration",
)
"""What is worth reading: not reports, which are made anew, and not the tables of invented names."""

_OLDER_KEYS: Final = {"Configuration": "item_key"}
_OLDER_INDEXES: Final = (
    Index("Date", Key("date")),
    Index("Slack_cid", Key("slack_cid")),
    Index("User_id", Key("user_id")),
)


class NothingThere(Exception):  # noqa: N818
    """There is no table of that prefix; the message says which there are."""


class OlderTables:
    """See the module; the tables by name, those that are there."""

    def __init__(self, handles: Mapping[str, TableHandle]) -> None:
        self._handles = handles

    @classmethod
    async def open(cls, engine: Engine, prefix: str) -> Self:
        """:raises NothingThere: there is no table of that prefix"""
        there = set(await engine.table_names())
        names = [name for name in NAMES if f"{prefix}.{name}" in there]
        if not names:
            known = sorted({name.rpartition(".")[0] for name in there} - {""})
            only = f"only {', '.join(map(repr, known))}" if known else "no table at all"
            raise NothingThere(f"there are no tables that begin with {prefix!r}, {only}")
        return cls({name: await _opened(engine, prefix, name) for name in names})

    def get(self, name: str) -> TableHandle | None:
        return self._handles.get(name)

    async def pages(self, name: str) -> AsyncIterator[list[Item]]:
        """Everything in a table."""
        if (handle := self.get(name)) is not None:
            async for items in everything(handle):
                yield items


async def _opened(engine: Engine, prefix: str, name: str) -> TableHandle:
    """A table as it was declared by whoever made it."""
    keys = dict.fromkeys(key for key in (_OLDER_KEYS.get(name), HASH_KEYS[name]) if key)
    indexes = ((), MESSAGE_INDEXES, _OLDER_INDEXES) if name == "Message" else ((),)
    *others, last = (
        Table(f"{prefix}.{name}", Key(key), indexes=some) for key in keys for some in indexes
    )
    for table in others:
        try:
            return await engine.open_table(table)
        except SchemaError:
            continue
    return await engine.open_table(last)
