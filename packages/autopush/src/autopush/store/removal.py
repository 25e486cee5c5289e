"""Taking user agents out of the tables: the router record together with the channels row.

Rule: a removal that is cut short anywhere is completed by the next one, and two at once do no harm;
all that is known about how far one came stands in the tables.

A user agent that was not seen for months goes only if it is not seen meanwhile either: the index
lags, so each delete has the condition that `last_connect` is still the one found there. Where its
message table lives on, the channels row has to go too, which is a second write. So first the record
is marked: it loses what makes it a record (to everyone else it is gone) and keeps its place in the
index, where the next run finds it if this one gets no further.

Messages are left to their expiry.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Self

from msgspec import Struct

from autopush.store.hasher import Hasher, hasher
from autopush.store.months import Month
from autopush.store.pace import Pace
from autopush.store.tables import TablePlan, message_table, router_table
from autopush.store.users import CONNECTING, WEBPUSH
from autopush.webpush.message_id import CHANNELS_ROW
from keytables import (
    Attr,
    ConditionFailed,
    Engine,
    Item,
    Param,
    TableHandle,
    TableNotFound,
    Throttled,
    Update,
)

BATCH: Final = 25
"""User agents of one step: what the database takes in one call."""

IS_UNSEEN: Final = Attr("last_connect") == Param("last_connect")
MARK: Final = Update(remove=("router_type", "node_id"))


class Batch(NamedTuple):
    """One step: how many user agents it looked at, and how many of them it dropped."""

    looked_at: int
    dropped: int


class Described(Struct, frozen=True):
    """What is on record about a user agent."""

    router_type: str
    table: str | None
    channels: int
    last_connect: int | None


class Removal:
    """The tables that exist, for taking user agents out of them."""

    def __init__(
        self, engine: Engine, hash_uaid: Hasher, router: TableHandle, names: frozenset[str]
    ) -> None:
        self._engine = engine
        self._hash = hash_uaid
        self._names = names
        self._messages: dict[str, TableHandle] = {}
        self.router = router
        self.dropped = 0
        """How many user agents it has dropped."""

    @classmethod
    async def open(cls, engine: Engine, plan: TablePlan, *, key_hash: str) -> Self | None:
        """Open what there is; None when there is no router table. No table is made or changed."""
        names = await engine.table_names()
        if plan.router not in names:
            return None
        router = await engine.open_table(router_table(plan.router))
        messages = frozenset(
            name for name in names if name == plan.message or Month.parse(plan.message, name)
        )
        return cls(engine, hasher(key_hash), router, messages)

    async def drop_unseen(self, found: Sequence[Item]) -> None:
        """Drop the user agents of these items of the index, unless they were seen since."""
        expected = {item["uaid"]: item["last_connect"] for item in found}
        records = await self.router.batch_get([_key(item) for item in found])
        unseen = [
            (record, await self._messages_of(record))
            for record in records
            if record.get("last_connect") == expected[record["uaid"]]
            # Of those that never connect (bridges) it says nothing.
            and str(record.get("router_type", WEBPUSH)) in CONNECTING
        ]
        await _all(self._drop_unseen(record, messages) for record, messages in unseen)

    async def _drop_unseen(self, record: Item, messages: TableHandle | None) -> None:
        key, seen = _key(record), {"last_connect": record["last_connect"]}
        try:
            if messages is not None:
                await self.router.update(key, MARK, seen, condition=IS_UNSEEN)
                await _drop_channels(messages, [record])
            await self.router.delete(key, condition=IS_UNSEEN, values=seen)
        except ConditionFailed:
            return
        self.dropped += 1

    async def find(self, uaids: Iterable[str]) -> list[Item]:
        """The records of those of these user agents that have one."""
        return await self.router.batch_get([(self._hash(uaid),) for uaid in uaids])

    async def drop(self, records: Sequence[Item]) -> None:
        """Drop the user agents of these records, whatever they are doing."""
        of_table: dict[TableHandle, list[Item]] = {}
        for record in records:
            messages = await self._messages_of(record)
            if messages is not None:
                of_table.setdefault(messages, []).append(record)
        # The records last: they name the tables of the channels rows.
        await _all(_drop_channels(table, users) for table, users in of_table.items())
        await self.router.batch_write(deletes=[_key(record) for record in records])
        self.dropped += len(records)

    async def describe(self, uaid: str) -> Described | None:
        """What is on record about that user agent, None when it has no record."""
        for record in await self.find([uaid]):
            messages = await self._messages_of(record)
            row = await messages.get((*_key(record), CHANNELS_ROW)) if messages else None
            chids, seen = (row or {}).get("chids"), record.get("last_connect")
            return Described(
                str(record.get("router_type", "unknown")),
                messages.table.name if messages else None,
                len(chids) if isinstance(chids, frozenset) else 0,
                seen if isinstance(seen, int) else None,
            )
        return None

    async def _messages_of(self, record: Item) -> TableHandle | None:
        """The message table of that user agent, None when there is no such table (any more)."""
        name = record.get("current_month", record.get("curmonth"))
        if not isinstance(name, str) or name not in self._names:
            return None
        if name not in self._messages:
            try:
                self._messages[name] = await self._engine.open_table(message_table(name))
            except TableNotFound:  # dropped since the names were asked for
                return None
        return self._messages[name]


async def delete_uaids(
    removal: Removal,
    uaids: Iterable[str],
    *,
    pace: Pace,
    batch_size: int = BATCH,
    dry_run: bool = False,
) -> AsyncGenerator[Batch, None]:
    """Drop these user agents, a batch with each step.

    :raises Throttled: the store was too busy for too long; run it again later
    """
    rest = iter(uaids)
    while batch := list(islice(rest, batch_size)):
        await pace.wait_for(len(batch))
        records = await pace.patiently(partial(removal.find, batch))
        if records and not dry_run:
            await pace.patiently(partial(removal.drop, records))
        yield Batch(len(batch), len(records))


def _key(item: Item) -> tuple[str]:
    return (str(item["uaid"]),)


async def _drop_channels(messages: TableHandle, records: Sequence[Item]) -> None:
    with suppress(TableNotFound):  # an old table may be dropped at any time, rows and all
        await messages.batch_write(deletes=[(*_key(record), CHANNELS_ROW) for record in records])


async def _all(calls: Iterable[Awaitable[None]]) -> None:
    """Let all of them end, then raise what one raised: Throttled only where there is no worse."""
    ends = await asyncio.gather(*calls, return_exceptions=True)
    errors = [end for end in ends if end is not None]
    errors.sort(key=lambda error: isinstance(error, Throttled))
    for error in errors:
        raise error
