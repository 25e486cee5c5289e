"""Removal of user agents: by UAID, or of all that have not connected for months.

A removal deletes the router record and the channels row, or all versions of a SimplePush user;
messages expire.

Rule: an interrupted removal is completed by the next one, and concurrent ones do no harm: all
progress is in the tables.

Old user agents are found by the index of the router table, whose key is the hour of the month's
first connect, with or without its day; nothing is scanned. The index lags, so each delete has the
condition that `last_connect` is unchanged. The channels row or versions need a second write, so the
record is marked first: it loses the attributes that make it valid (everyone else treats it as
absent, and leaves it) and stays in the index, where the next run finds it if this one gets no
further.
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
from autopush.store.users import CONNECTING, REMOVAL, SIMPLEPUSH, WEBPUSH, month_of_connect_key
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
"""A user agent that connected last so many calendar months ago or earlier counts as gone."""
OLDEST_MONTHS: Final = 12
"""How many months back the search goes."""
ORPHAN_MONTHS: Final = 6
"""A bridge's user without subscriptions is dropped so many calendar months after it was registered
or changed its registration.
"""

BATCH: Final = 25
"""User agents of one step: what DynamoDB takes in one call."""

INDEX: Final = "AccessIndex"
PAGE: Final = 250
"""Index items in one response, about 30 KB."""
CONCURRENT_KEYS: Final = 11
"""Index keys read concurrently: those of an hour."""

HAS_NOT_CONNECTED: Final = Attr("last_connect") == Param("last_connect")
MARK: Final = Update(set=(REMOVAL,), remove=("router_type", "node_id"))


class RemovalStep(NamedTuple):
    checked: int
    dropped: int


class UserSummary(Struct, frozen=True):
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

    @classmethod
    async def open(cls, engine: Engine, plan: TablePlan, *, key_hash: str) -> Self | None:
        """Open the existing tables, creating none; None without a router table."""
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

    async def drop_unless_connected(self, items: Sequence[Item], now: float) -> None:
        """Drop the user agents of these index items, unless they have connected since.

        Users of bridges do not connect: they are dropped if they have had no subscription for
        months.
        """
        expected = {item["uaid"]: item["last_connect"] for item in items}
        records = await self.router.batch_get([_key(item) for item in items])
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
        """Whether that bridge's user has had no subscription for months.

        One that subscribes now is not dropped: it changes `last_connect` first
        (`Users.refresh_registration`).
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
                marked = {**seen, REMOVAL: 1}
                await self.router.update(key, MARK, marked, condition=HAS_NOT_CONNECTED)
            if messages is not None:
                await _drop_channels(messages, [record])
            await self._drop_versions(record)
            await self.router.delete(key, condition=HAS_NOT_CONNECTED, values=seen)
        except ConditionFailed:
            return
        self.dropped += 1

    async def find(self, uaids: Iterable[str]) -> list[Item]:
        """The existing records of these user agents."""
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
        """A summary of that user agent, None without a record."""
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

    :raises Throttled: the store was overloaded for too long; run it again later
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
    month, months = Month.at(now), []
    for number in range(most + 1):
        if number >= fewest:
            months.append(month)
        month = month.previous
    return months


async def find_old_users(
    remover: UserRemover, keys: Iterable[int], *, limiter: RateLimiter
) -> dict[int, int]:
    """The number of user agents under each of these index keys, without empty ones. Reads only."""
    rest = iter(keys)
    counts_by_key: dict[int, int] = {}
    while some := list(islice(rest, CONCURRENT_KEYS)):
        counts = await asyncio.gather(*(_count(remover, key, limiter) for key in some))
        counts_by_key |= {key: count for key, count in zip(some, counts, strict=True) if count}
    return counts_by_key


async def drop_old_users(
    remover: UserRemover,
    keys: Iterable[int],
    *,
    now: float,
    limiter: RateLimiter,
    batch_size: int = BATCH,
) -> AsyncGenerator[RemovalStep, None]:
    """Drop the user agents under these index keys, a batch with each step.

    :raises Throttled: the store was overloaded for too long; run it again later
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
    """Whether this is a SimplePush user agent, or was before it was marked."""
    has_table = "current_month" in record or "curmonth" in record
    return record.get("router_type", WEBPUSH if has_table else SIMPLEPUSH) == SIMPLEPUSH


async def _drop_channels(messages: TableHandle, records: Sequence[Item]) -> None:
    with suppress(TableNotFound):  # an old table may be dropped at any time, rows and all
        await messages.batch_write(deletes=[(*_key(record), CHANNELS_ROW) for record in records])


async def _settle_all(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all, then raise the worst error: Throttled only if there is no other."""
    ends = await asyncio.gather(*calls, return_exceptions=True)
    errors = [end for end in ends if end is not None]
    errors.sort(key=lambda error: isinstance(error, Throttled))
    for error in errors:
        raise error
