"""Removal of user agents: by UAID, or of all that have not connected for months.

A removal deletes the router record and the channels row, or all versions of a user of SimplePush;
messages are left to their expiry.

Rule: a removal that is interrupted anywhere is completed by the next one, and two at once do no
harm: all progress is in the tables.

Old user agents are found by the index of the router table, whose key is the hour of the month's
first connect, with or without its day; nothing is scanned. The index lags, so each delete has the
condition that `last_connect` is still the one found there. Where the channels row or versions have
to be deleted too, that is a second write. So first the record is marked: it loses the attributes
that make it valid (everyone else treats it as absent) and keeps its place in the index, where the
next run finds it if this one gets no further.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Self

from msgspec import Struct

from autopush.jobs import RateLimiter
from autopush.store.tables import (
    Hasher,
    Month,
    TablePlan,
    message_table,
    router_table,
    storage_table,
    uaid_hasher,
)
from autopush.store.users import CONNECTING, SIMPLEPUSH, WEBPUSH, month_of_connect_key
from autopush.store.versions import delete_versions
from autopush.webpush.identifiers import CHANNELS_ROW
from keytables import (
    Attr,
    ConditionFailed,
    Cursor,
    Engine,
    Item,
    Param,
    TableHandle,
    TableNotFound,
    Throttled,
    Update,
)

UNSEEN_MONTHS: Final = 2
"""A user agent that connected last so many calendar months ago or earlier is not expected back."""
OLDEST_MONTHS: Final = 12
"""How many months back they are searched for."""
ORPHAN_MONTHS: Final = 6
"""A user of a bridge is dropped that has no subscription and was registered, or changed its
registration, so many calendar months ago or earlier.
"""

BATCH: Final = 25
"""User agents of one step: what DynamoDB takes in one call."""

INDEX: Final = "AccessIndex"
PAGE: Final = 250
"""Items of the index in one response, about 30 KB."""
CONCURRENT_KEYS: Final = 11
"""Keys of the index that are read at the same time: those of an hour."""

HAS_NOT_CONNECTED: Final = Attr("last_connect") == Param("last_connect")
MARK: Final = Update(remove=("router_type", "node_id"))


class RemovalStep(NamedTuple):
    """How many user agents a step checked, and how many of them it dropped."""

    checked: int
    dropped: int


class UserSummary(Struct, frozen=True):
    """What the tables hold about a user agent."""

    router_type: str
    table: str | None
    channels: int
    last_connect: int | None


class UserRemover:
    """Removes user agents from the tables that exist."""

    def __init__(
        self,
        engine: Engine,
        hash_uaid: Hasher,
        router: TableHandle,
        versions: TableHandle | None,
        names: frozenset[str],
    ) -> None:
        self._engine = engine
        self._hash = hash_uaid
        self._names = names
        self._versions = versions
        self._messages: dict[str, TableHandle] = {}
        self.router = router
        self.dropped = 0
        """How many user agents it has dropped."""

    @classmethod
    async def open(cls, engine: Engine, plan: TablePlan, *, key_hash: str) -> Self | None:
        """Open the existing tables; None without a router table. No table is created or changed."""
        names = await engine.table_names()
        if plan.router not in names:
            return None
        router = await engine.open_table(router_table(plan.router))
        messages = frozenset(
            name for name in names if name == plan.message or Month.parse(plan.message, name)
        )
        versions = None
        if plan.storage in names:
            versions = await engine.open_table(storage_table(plan.storage))
        return cls(engine, uaid_hasher(key_hash), router, versions, messages)

    async def drop_unless_connected(self, found: Sequence[Item], now: float) -> None:
        """Drop the user agents of these items of the index, unless they have connected since.

        When users of bridges connect is not known: those alone are dropped that have had no
        subscription for months, which a device has that can be reached.
        """
        expected = {item["uaid"]: item["last_connect"] for item in found}
        records = await self.router.batch_get([_key(item) for item in found])
        old = [
            (record, await self._messages_of(record))
            for record in records
            if record.get("last_connect") == expected[record["uaid"]]
        ]
        dropped = [
            (record, messages)
            for record, messages in old
            if str(record.get("router_type", WEBPUSH)) in CONNECTING
            or await self._is_orphan(record, messages, now)
        ]
        await _settle_all(self._drop_old(record, messages) for record, messages in dropped)

    async def _is_orphan(self, record: Item, messages: TableHandle | None, now: float) -> bool:
        """Whether that user of a bridge has had no subscription for months.

        A user that subscribes changes `last_connect` before (`Users.refresh_registration`), so that
        it is not dropped on the strength of what was read here.
        """
        [latest] = months_ago(now, ORPHAN_MONTHS, ORPHAN_MONTHS)
        seen = record["last_connect"]
        if not isinstance(seen, int) or month_of_connect_key(seen) > latest:
            return False
        try:
            row = await messages.get((*_key(record), CHANNELS_ROW)) if messages else None
        except TableNotFound:
            row = None
        return not (row or {}).get("chids")

    async def _drop_old(self, record: Item, messages: TableHandle | None) -> None:
        key, seen = _key(record), {"last_connect": record["last_connect"]}
        try:
            if messages is not None or _may_have_versions(record):
                await self.router.update(key, MARK, seen, condition=HAS_NOT_CONNECTED)
            if messages is not None:
                await _drop_channels(messages, [record])
            await self._drop_versions(record)
            await self.router.delete(key, condition=HAS_NOT_CONNECTED, values=seen)
        except ConditionFailed:
            return
        self.dropped += 1

    async def find(self, uaids: Iterable[str]) -> list[Item]:
        """The records of these user agents, as far as they have one."""
        return await self.router.batch_get([(self._hash(uaid),) for uaid in uaids])

    async def drop(self, records: Sequence[Item]) -> None:
        """Drop the user agents of these records, connected or not."""
        of_table: dict[TableHandle, list[Item]] = {}
        for record in records:
            messages = await self._messages_of(record)
            if messages is not None:
                of_table.setdefault(messages, []).append(record)
        # The records last: they name the tables of the channels rows.
        await _settle_all(_drop_channels(table, users) for table, users in of_table.items())
        await _settle_all(self._drop_versions(record) for record in records)
        await self.router.batch_write(deletes=[_key(record) for record in records])
        self.dropped += len(records)

    async def describe(self, uaid: str) -> UserSummary | None:
        """A summary of that user agent, None when it has no record."""
        for record in await self.find([uaid]):
            messages = await self._messages_of(record)
            row = await messages.get((*_key(record), CHANNELS_ROW)) if messages else None
            chids, seen = (row or {}).get("chids"), record.get("last_connect")
            return UserSummary(
                str(record.get("router_type", "unknown")),
                messages.table.name if messages else None,
                len(chids) if isinstance(chids, frozenset) else 0,
                seen if isinstance(seen, int) else None,
            )
        return None

    async def _drop_versions(self, record: Item) -> None:
        if self._versions is not None and _may_have_versions(record):
            with suppress(TableNotFound):
                await delete_versions(self._versions, *_key(record))

    async def _messages_of(self, record: Item) -> TableHandle | None:
        """The message table of that user agent, None when it does not exist."""
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
    remover: UserRemover,
    uaids: Iterable[str],
    *,
    limiter: RateLimiter,
    batch_size: int = BATCH,
    dry_run: bool = False,
) -> AsyncGenerator[RemovalStep, None]:
    """Drop these user agents, a batch with each step.

    :raises Throttled: the store was too busy for too long; run it again later
    """
    rest = iter(uaids)
    while batch := list(islice(rest, batch_size)):
        await limiter.acquire(len(batch))
        records = await limiter.with_retries(partial(remover.find, batch))
        if records and not dry_run:
            await limiter.with_retries(partial(remover.drop, records))
        yield RemovalStep(len(batch), len(records))


def months_ago(now: float, fewest: int, most: int) -> list[Month]:
    """The months from `fewest` to `most` months before that of `now`, latest first."""
    month, found = Month.at(now), []
    for number in range(most + 1):
        if number >= fewest:
            found.append(month)
        month = month.previous
    return found


async def find_old_users(
    remover: UserRemover, keys: Iterable[int], *, limiter: RateLimiter
) -> dict[int, int]:
    """How many user agents the index has under each of these keys; keys without any are left out.
    Reads only.
    """
    rest = iter(keys)
    found: dict[int, int] = {}
    while some := list(islice(rest, CONCURRENT_KEYS)):
        counts = await asyncio.gather(*(_count(remover, key, limiter) for key in some))
        found |= {key: count for key, count in zip(some, counts, strict=True) if count}
    return found


async def drop_old_users(
    remover: UserRemover,
    keys: Iterable[int],
    *,
    now: float,
    limiter: RateLimiter,
    batch_size: int = BATCH,
) -> AsyncGenerator[RemovalStep, None]:
    """Drop the user agents that the index has under these keys, a batch with each step.

    :raises Throttled: the store was too busy for too long; run it again later
    """
    waiting: list[Item] = []
    for key in keys:
        async for page in _index_pages(remover, key, limiter):
            waiting += page
            while len(waiting) >= batch_size:
                yield await _drop(remover, waiting[:batch_size], now, limiter)
                del waiting[:batch_size]
    if waiting:
        yield await _drop(remover, waiting, now, limiter)


async def _drop(
    remover: UserRemover, batch: list[Item], now: float, limiter: RateLimiter
) -> RemovalStep:
    before = remover.dropped
    await limiter.acquire(len(batch))
    await limiter.with_retries(partial(remover.drop_unless_connected, batch, now))
    return RemovalStep(len(batch), remover.dropped - before)


async def _count(remover: UserRemover, key: int, limiter: RateLimiter) -> int:
    return sum([len(page) async for page in _index_pages(remover, key, limiter)])


async def _index_pages(
    remover: UserRemover, key: int, limiter: RateLimiter
) -> AsyncGenerator[list[Item], None]:
    cursor: Cursor | None = None
    while True:
        read = partial(remover.router.query_index, INDEX, key, limit=PAGE, after=cursor)
        page = await limiter.with_retries(read)
        yield page.items
        cursor = page.cursor
        if cursor is None:
            break


def _key(item: Item) -> tuple[str]:
    return (str(item["uaid"]),)


def _may_have_versions(record: Item) -> bool:
    """Whether the user agent is, or was before it was marked, one of SimplePush."""
    has_table = "current_month" in record or "curmonth" in record
    return record.get("router_type", WEBPUSH if has_table else SIMPLEPUSH) == SIMPLEPUSH


async def _drop_channels(messages: TableHandle, records: Sequence[Item]) -> None:
    with suppress(TableNotFound):  # an old table may be dropped at any time, rows and all
        await messages.batch_write(deletes=[(*_key(record), CHANNELS_ROW) for record in records])


async def _settle_all(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all, then raise the worst error of any: Throttled only if there is no other."""
    ends = await asyncio.gather(*calls, return_exceptions=True)
    errors = [end for end in ends if end is not None]
    errors.sort(key=lambda error: isinstance(error, Throttled))
    for error in errors:
        raise error
