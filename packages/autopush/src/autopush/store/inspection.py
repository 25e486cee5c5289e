"""What the tables hold for one user, and how many messages for all, for operators.

Rule: it only reads. What the service would repair or drop (an incomplete record, a user whose table
is gone) stays as it is.
"""

import asyncio
from typing import Final

from msgspec import Struct

from autopush.store.messages import Messages
from autopush.store.tables import (
    Hasher,
    Month,
    TablePlan,
    live_tables,
    message_table,
    router_table,
    storage_table,
    uaid_hasher,
)
from autopush.store.users import SIMPLEPUSH, UserRecord, parse_record
from autopush.store.versions import UserMessages, Versions, unread_pages
from autopush.webpush.notification import Notification
from keytables import Engine, Item, TableNotFound

MAX_COUNTED: Final = 10_000
"""Rows counted for a user, at most."""
MAX_MESSAGES: Final = 100
"""Messages listed for a user, at most."""
MAX_SAMPLED: Final = 5_000
"""Rows of a table that are read to count the messages of all users."""
SAMPLE_PAGE: Final = 50
"""Rows read at once: some milliseconds at most in an embedded store."""


class PendingMessage(Struct, frozen=True):
    """`size`: bytes of payload; `stored_at`: epoch seconds, 0 for versions; `ttl`: seconds."""

    channel: str
    size: int
    stored_at: int
    ttl: int
    topic: str | None
    urgency: str


class PendingMessages(Struct, kw_only=True):
    """A user's pending messages in one table.

    `count`: deliverable ones of all channels, without `expired` ones and those of channels it has
    left; `of_channel`: of the inspected one; `size`: bytes of payload; `oldest` and `newest`: when
    they were stored, epoch seconds, None for versions; `has_more`: only `MAX_COUNTED` were read;
    `messages`: the first `MAX_MESSAGES` of the deliverable ones, in the order of delivery.
    """

    count: int = 0
    of_channel: int = 0
    size: int = 0
    oldest: int | None = None
    newest: int | None = None
    expired: int = 0
    has_more: bool = False
    messages: list[PendingMessage] = []


class StoredMessages(Struct, frozen=True):
    """Messages of all users. `oldest`: when it was stored, epoch seconds, None without one; with
    `is_estimate` they are more than were read, and `oldest` is that of those.
    """

    count: int
    oldest: int | None
    is_estimate: bool = False


class UserTable(Struct, frozen=True):
    """A table with messages of the user. `channels`: None if not stored (versions)."""

    name: str
    channels: frozenset[str] | None
    pending: PendingMessages


class UserInspection(Struct, frozen=True):
    """What was found. `record`: None if the row lacks a required attribute.

    `tables`: that of the record first, then the one it is being moved from. `missing_table`: the
    name in the record if no such table is in use, empty if the record names none.
    """

    row: Item
    record: UserRecord | None
    tables: tuple[UserTable, ...] = ()
    missing_table: str | None = None


async def inspect_user(
    engine: Engine, plan: TablePlan, uaid: str, channel_id: str, *, key_hash: str, now: float
) -> UserInspection | None:
    """What the tables hold for that user, None without a record. `now`: epoch seconds.

    :raises TableNotFound: there is no router table
    """
    hash_uaid = uaid_hasher(key_hash)
    router = await engine.open_table(router_table(plan.router))
    row = await router.get((hash_uaid(uaid),))
    if row is None:
        return None
    record = parse_record(uaid, row)
    if record is None:
        return UserInspection(row, None)
    if record.router_type == SIMPLEPUSH:
        names = [plan.storage]
    else:
        names = [record.current_month or "", *filter(None, [record.moved_from])]
    tables = []
    missing: str | None = None
    for name in names:
        messages = await _open(engine, plan, name, record.router_type, hash_uaid, now)
        if messages is not None:
            tables.append(await _read(messages, uaid, channel_id, now))
        elif name == names[0]:
            missing = name
    return UserInspection(row, record, tuple(tables), missing)


async def count_messages(
    engine: Engine, plan: TablePlan, now: float, max_rows: int = MAX_SAMPLED
) -> StoredMessages:
    """The deliverable messages of all users. Of each table at most `max_rows` rows are read: as
    rows come in the order of UAIDs, which are random, the number of the rest follows from where
    that ends. `now`: epoch seconds.
    """
    this = Month.at(now) if plan.rotating else None
    names = live_tables(plan.message, await engine.table_names(), this)
    total, times, is_estimate = 0.0, list[int](), False
    for name in names:
        table = await engine.open_table(message_table(name))
        count = rows = 0
        page = await table.scan(limit=SAMPLE_PAGE)
        while True:
            rows += len(page.items)
            stored = [at for item in page.items if (at := _stored_at(item, now)) is not None]
            count += len(stored)
            times += [min(stored)] if stored else []
            if page.cursor is None or rows >= max_rows:
                break
            await asyncio.sleep(0)  # an embedded store does not suspend
            page = await table.scan(limit=SAMPLE_PAGE, after=page.cursor)
        share = 1.0 if page.cursor is None else _share_before(engine, page.cursor.position[0])
        is_estimate |= page.cursor is not None
        total += count / share
    return StoredMessages(round(total), min(times, default=None), is_estimate)


def _stored_at(item: Item, now: float) -> int | None:
    """None for a row that is no message, or one that is not delivered any more."""
    at, ttl = item.get("timestamp"), item.get("ttl")
    if "updateid" not in item or not isinstance(at, int) or not isinstance(ttl, int):
        return None
    return at if at + ttl > now else None


def _share_before(engine: Engine, key: object) -> float:
    """The share of users whose keys come before that one in a scan: part by part, and in each in
    the order of their hex digits.
    """
    try:
        share = (int(str(key)[:8], 16) + 1) / 16**8
    except ValueError:  # no UAID
        return 1.0
    return (engine.part_of(str(key)) + share) / engine.parts


async def _open(
    engine: Engine, plan: TablePlan, name: str, router_type: str, hash_uaid: Hasher, now: float
) -> UserMessages | None:
    try:
        if router_type == SIMPLEPUSH:
            return Versions(await engine.open_table(storage_table(name)), hash_uaid)
        this = Month.at(now) if plan.rotating else None
        if name not in live_tables(plan.message, await engine.table_names(), this):
            return None
        return Messages(await engine.open_table(message_table(name)), hash_uaid, lambda: now)
    except TableNotFound:
        return None


async def _read(messages: UserMessages, uaid: str, channel_id: str, now: float) -> UserTable:
    channels = await messages.channels(uaid)
    pending, rows = PendingMessages(), 0
    async for page in unread_pages(messages, uaid):
        if rows >= MAX_COUNTED:
            pending.has_more = True
            break
        rows += len(page)
        for stored in page:
            message = stored.notification
            if message.channel_id not in channels:
                continue
            if message.expired(now):
                pending.expired += 1
                continue
            if pending.count < MAX_MESSAGES:
                pending.messages.append(_listed(message))
            pending.count += 1
            pending.of_channel += message.channel_id == channel_id
            pending.size += _size(message)
            if messages.router_type != SIMPLEPUSH:
                pending.oldest = min(message.timestamp, pending.oldest or message.timestamp)
                pending.newest = max(message.timestamp, pending.newest or message.timestamp)
    known = channels if isinstance(channels, frozenset) else None
    return UserTable(messages.name, known, pending)


def _size(message: Notification) -> int:
    return len(message.data or "") * 3 // 4


def _listed(message: Notification) -> PendingMessage:
    return PendingMessage(
        message.channel_id,
        _size(message),
        message.timestamp,
        message.ttl,
        message.topic,
        message.urgency,
    )
