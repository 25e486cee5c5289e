"""One message table: the subscriptions of its users and their pending messages.

Attribute names and types are the original's: `data` text, `headers` map, `ttl` and `timestamp`
seconds, `updateid` the message id, `expiry` epoch seconds. Unreadable rows are skipped, as
tombstones are. Of our own are `urgency`, unless it is normal, and `urgencies`: a set in the row of
the channels, of those that the user's messages have had.

A put whose response was lost is retried or given up; the database may still apply the first
attempt, after later writes (`TableHandle.settle_time`). So a row is deleted only when all its puts
are settled; otherwise it is replaced by a *tombstone*, a row without a message that expires when
they are. Each put has a condition that a tombstone fails.

For a put by another process the row's age says whether it may be unsettled: `timestamp`, or
`saved_at` (epoch seconds) of a message put long after it was accepted. A tombstone has no
`updateid`, and a `ttl` of 0, which the original reads as an expired message.

Rule: a message is deleted when it was acked, and only then, and an acked message does not come
back. Of a topic the message accepted last stays, whichever put comes last.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, NamedTuple

from autopush.clock import Clock
from autopush.recently_used import RecentlyUsed
from autopush.store.tables import NO_MONTH, Hasher, Month
from autopush.store.users import WEBPUSH
from autopush.telemetry.metric_table import (
    MESSAGE_DELETED,
    MESSAGE_RETRIEVED,
    MESSAGE_STORED,
    METRICS,
)
from autopush.telemetry.metrics import Metrics, unshared_metrics
from autopush.webpush.identifiers import CHANNELS_ROW, parse_sort_key
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row, StoredMessage, StoredPage
from autopush.webpush.tokens import MessageId
from autopush.webpush.urgency import LEVELS, NORMAL, known_urgency
from keytables import (
    Attr,
    ConditionFailed,
    Engine,
    Item,
    Param,
    Range,
    Returning,
    StorageFull,
    TableHandle,
    Update,
    Value,
    Values,
)

NEARLY_FULL: Final = "the disk is nearly full: new messages are refused"
PROBE_ROW: Final = "probe"
"""A sort key that no message has."""
PAGE: Final = 10
"""Messages read at once."""
MEASURED_PAGE: Final = 20
"""Rows read at once to be counted: about a millisecond at most in an embedded store."""
MAX_TOPIC_ORDERS: Final = 10_000
MAX_URGENCIES: Final = 10_000
"""Users and urgencies, about 200 bytes each."""
MICROSECONDS: Final = 1_000_000
TOPIC_SKEW: Final = 1.0
"""Seconds by which clocks of nodes may differ: a shorter gap does not tell the newer message."""

ADD_CHANNELS: Final = Update(add_to={"chids": Param("chids")})
ADD_URGENCIES: Final = Update(add_to={"urgencies": Param("urgencies")})
HAS_CHANNELS: Final = Attr("chids").exists()
REMOVE_CHANNELS: Final = Update(take_from={"chids": Param("chids")})
IS_NO_NEWER_COPY: Final = Attr("copied_at").absent() | (Attr("copied_at") <= Param("copied_at"))
"""Channels may overwrite a copy by the same connection or an older one."""

IS_THAT_UPDATE: Final = Attr("updateid") == Param("updateid")
IS_OLDER_TOPIC: Final = (
    Attr("topic_order").absent()
    & (Attr("timestamp").absent() | (Attr("timestamp") < Param("timestamp")))
) | (Attr("topic_order") < Param("topic_order"))
"""The message of a topic is older; rows of the original have no order: their second counts."""
IS_NEW_ROW: Final = Attr("chidmessageid").absent()
"""A message without a topic has a row of its own, which holds only it or its tombstone."""
BURY: Final = Update(set=("expiry", "ttl"), remove=("data", "headers", "updateid", "urgency"))
"""Turns a topic's row into a tombstone that keeps its order."""


class Stored(NamedTuple):
    """A user's stored messages or versions, and the bytes of their data and headers."""

    messages: int
    size: int


def size_of(data: object, headers: object) -> int:
    """Bytes counted for one message; stored data and headers are ASCII."""
    size = len(data) if isinstance(data, str) else 0
    if isinstance(headers, Mapping):
        size += sum(len(name) + len(str(value)) for name, value in headers.items())
    return size


def row_of(notification: Notification) -> Row:
    """The row of the message; that of a topic includes the version it holds."""
    return Row(notification.sort_key, notification.version if notification.topic else None)


def row_of_id(message: MessageId) -> Row:
    return Row(message.sort_key, message.text if message.topic else None)


class MessageMetrics:
    __slots__ = ("deleted", "retrieved", "retrieved_topics", "stored", "stored_topics")

    def __init__(self, metrics: Metrics) -> None:
        self.stored = metrics.counter(MESSAGE_STORED, topic="false")
        self.stored_topics = metrics.counter(MESSAGE_STORED, topic="true")
        self.retrieved = metrics.counter(MESSAGE_RETRIEVED, topic="false")
        self.retrieved_topics = metrics.counter(MESSAGE_RETRIEVED, topic="true")
        self.deleted = metrics.counter(MESSAGE_DELETED)


class Messages:
    """One message table. `name` is the `current_month` of router records.

    `month`: `NO_MONTH` where tables do not rotate. `metrics`: None for commands, which count
    nothing. `engine`: None to write to a nearly full disk too.
    """

    router_type: Final = WEBPUSH

    def __init__(
        self,
        table: TableHandle,
        hasher: Hasher,
        clock: Clock,
        month: Month = NO_MONTH,
        metrics: Metrics | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._table = table
        self._settle_time = table.settle_time
        self._hash = hasher
        self._clock = clock
        self._engine = engine
        self.name = table.table.name
        self.month = month
        self._metrics = MessageMetrics(metrics or unshared_metrics(METRICS))
        # Of the last topics put, as their rows may be missing when they are acked.
        self._topic_orders = RecentlyUsed[int](MAX_TOPIC_ORDERS)
        # Of topics, being put and not acked yet.
        self._topic_puts = set[tuple[str, str, str]]()
        # Those in the row of the user's channels.
        self._urgencies = RecentlyUsed[bool](MAX_URGENCIES)

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    async def channels(self, uaid: str) -> frozenset[str]:
        return _channels(await self._table.get((self._hash(uaid), CHANNELS_ROW)))

    def add_channel(self, uaid: str, channel_id: str) -> Awaitable[object]:
        return self.add_channels(uaid, frozenset((channel_id,)))

    def add_channels(self, uaid: str, channels: frozenset[str]) -> Awaitable[object]:
        """Subscribe to at least one channel; existing subscriptions stay."""
        return self._table.update(
            (self._hash(uaid), CHANNELS_ROW), ADD_CHANNELS, {"chids": channels}
        )

    async def remove_channel(self, uaid: str, channel_id: str) -> bool:
        """Unsubscribe; True only if the channel was subscribed."""
        old = await self._table.update(
            (self._hash(uaid), CHANNELS_ROW),
            REMOVE_CHANNELS,
            {"chids": frozenset((channel_id,))},
            returning=Returning.OLD,
        )
        return channel_id in _channels(old)

    async def copy_channels(self, uaid: str, channels: frozenset[str], connected_at: int) -> bool:
        """Copy subscriptions to this table for the connection of `connected_at` (ms); False if a
        newer one has copied them: its copy may have changed since.
        """
        # Also without channels: the row then says which connection it was.
        row: Item = {
            "uaid": self._hash(uaid),
            "chidmessageid": CHANNELS_ROW,
            "copied_at": connected_at,
        }
        if channels:
            row["chids"] = channels
        values = {"copied_at": connected_at}
        return await condition_held(self._table.put(row, condition=IS_NO_NEWER_COPY, values=values))

    def drop_channels(self, uaid: str) -> Awaitable[object]:
        """Delete the subscriptions of a dropped user; its messages expire."""
        return self._table.delete((self._hash(uaid), CHANNELS_ROW))

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def store(self, notification: Notification) -> Awaitable[None]:
        """Write a message that was accepted just now; submitted at once.

        If its topic has a newer message, it counts as stored and replaced. If the gap is within
        `TOPIC_SKEW`, it replaces that message instead, as it was put later.

        :raises StorageFull: at once; the space left is for other writes
        """
        if self._engine is not None and self._engine.is_nearly_full:
            raise StorageFull(NEARLY_FULL)
        put = self._put_new(notification)
        if notification.urgency == NORMAL or _is_refused(put):
            return put
        return self._with_urgency(put, notification)

    def _put_new(self, notification: Notification) -> Awaitable[None]:
        metrics = self._metrics
        item = _item(self._hash(notification.uaid), notification)
        if notification.topic is not None:
            metrics.stored_topics.add()
            order = _topic_order(item)
            put = self._put_topic(item, order, notification.timestamp + 1)
            if _is_refused(put):
                return put
            self._topic_puts.add(_identity(item))
            return self._after_topic(put, item, order)
        metrics.stored.value += 1
        if not self._settle_time:
            return self._table.put(item)
        put = self._table.put(item, condition=IS_NEW_ROW)
        return put if _is_refused(put) else self._after_first(put, item)

    async def save(self, notification: Notification) -> None:
        """Write a sent and unacked message. A newer one of its topic stays."""
        put = self._put_saved(notification)
        await (put if notification.urgency == NORMAL else self._with_urgency(put, notification))

    async def _put_saved(self, notification: Notification) -> None:
        item = _item(self._hash(notification.uaid), notification)
        if self._settle_time:
            item["saved_at"] = int(self._clock())
        if notification.topic is not None:
            # A row of the original in the same second may be this very message.
            before = notification.timestamp + bool(notification.topic_order)
            if await condition_held(self._put_topic(item, _topic_order(item), before)):
                self._metrics.stored_topics.add()
            return
        if self._settle_time:
            await self._after_first(self._table.put(item, condition=IS_NEW_ROW), item)
        else:
            await self._table.put(item)
        self._metrics.stored.value += 1

    async def _with_urgency(self, put: Awaitable[None], notification: Notification) -> None:
        """Also note in the row of the channels that not all messages of the user are normal."""
        user, urgency = self._hash(notification.uaid), notification.urgency
        if self._urgencies.find((user, urgency)):
            await put
            return
        values: Values = {"urgencies": frozenset((urgency,))}
        noted = self._table.update(
            (user, CHANNELS_ROW), ADD_URGENCIES, values, condition=HAS_CHANNELS
        )
        await asyncio.gather(condition_held(noted), put)
        self._urgencies.keep((user, urgency), value=True)

    async def _after_first(self, put: Awaitable[None], item: Item) -> None:
        try:
            await put
        except ConditionFailed as error:
            there = error.item or {}
            if there.get("updateid", item["updateid"]) != item["updateid"]:
                raise
            # An earlier attempt stored it; without `updateid` it is acked by now.

    def _put_topic(self, item: Item, order: int, before: int) -> Awaitable[None]:
        """Replace a row of a lower order, or one without order from before the second `before`."""
        if self._settle_time:
            self._topic_orders.keep((item["uaid"], item["chidmessageid"]), order)
        values = {"topic_order": order, "timestamp": before}
        return self._table.put(item, condition=IS_OLDER_TOPIC, values=values)

    async def _after_topic(self, put: Awaitable[None], item: Item, order: int) -> None:
        this = _identity(item)
        try:
            await put
        except ConditionFailed as error:
            if this not in self._topic_puts:
                return  # it was delivered and acked meanwhile
            there = error.item or {}
            stored_order = _topic_order(there)
            least = order + TOPIC_SKEW * MICROSECONDS
            # A clock set forward between the acceptance of a message and this line makes an older
            # row look newer. Only the wall clock tells the time since the acceptance.
            is_newer = least < stored_order <= self._clock() * MICROSECONDS
            version = item["updateid"]
            is_this = there.get("updateid") == version or (
                stored_order == order and "updateid" not in there  # its tombstone
            )
            if is_newer or is_this:
                return
            item["topic_order"] = order = max(order, stored_order + 1)
            before = max(_seconds(item, "timestamp"), _seconds(there, "timestamp")) + 1
            await condition_held(self._put_topic(item, order, before))
        finally:
            self._topic_puts.discard(this)

    def probe(self, uaid: str, expiry: int) -> Awaitable[None]:
        """Write a row that is no message, to test that the table can be written."""
        row: Item = {"uaid": self._hash(uaid), "chidmessageid": PROBE_ROW, "expiry": expiry}
        return self._table.put(row)

    # ── deleting ─────────────────────────────────────────────────────────────────────────────────

    async def delete(self, uaid: str, row: Row) -> bool:
        """Delete one message; False if another version of it is stored by now."""
        user = self._hash(uaid)
        if await self._table.unsettled([(user, row.sort_key)]):
            is_deleted = await self._bury(user, row)
        else:
            is_deleted = await condition_held(self._delete(user, row))
        if is_deleted:
            self._metrics.deleted.add()
        return is_deleted

    def delete_all(self, uaid: str, acked: Sequence[Row]) -> Awaitable[object]:
        """Delete these messages of one user; submitted at once, done when the future is."""
        self._metrics.deleted.value += len(acked)
        user = self._hash(uaid)
        if self._topic_puts:
            self._topic_puts.difference_update(
                (user, row.sort_key, row.update_id) for row in acked if row.update_id is not None
            )
        if not self._settle_time:
            return self._delete_settled(user, acked)
        return self._delete_or_bury(user, acked)

    async def is_settled(self, notification: Notification) -> bool:
        """Whether the put of this message cannot take effect again, as far as known here."""
        key = self._hash(notification.uaid), notification.sort_key
        return not await self._table.unsettled([key])

    def note_unsettled(self, uaid: str, row: Row) -> None:
        """Note that another process's put of this row may take effect again."""
        self._table.note_unsettled((self._hash(uaid), row.sort_key))

    def _note_read(self, items: Sequence[Item]) -> None:
        """Note that the puts of these rows may be unsettled, except of rows that are old enough."""
        if not self._settle_time:
            return
        now = self._clock()
        for item in items:
            put_at = max(_seconds(item, "timestamp"), _seconds(item, "saved_at"))
            if now < put_at + self._settle_time:
                self._table.note_unsettled((str(item["uaid"]), str(item["chidmessageid"])))

    async def _delete_or_bury(self, user: str, rows: Sequence[Row]) -> None:
        unsettled = await self._table.unsettled([(user, row.sort_key) for row in rows])
        if not unsettled:
            await self._delete_settled(user, rows)
            return
        settled = [row for row in rows if (user, row.sort_key) not in unsettled]
        buried = [self._bury(user, row) for row in rows if (user, row.sort_key) in unsettled]
        await asyncio.gather(self._delete_settled(user, settled), *buried)

    def _delete_settled(self, user: str, rows: Sequence[Row]) -> Awaitable[object]:
        plain = [(user, row.sort_key) for row in rows if row.update_id is None]
        if len(plain) == len(rows) == 1:
            return self._table.delete(plain[0])
        writes: list[Awaitable[object]] = [
            condition_held(self._delete(user, row)) for row in rows if row.update_id is not None
        ]
        if plain:
            writes.append(self._table.batch_write(deletes=plain))
        return asyncio.gather(*writes)

    def _delete(self, user: str, row: Row) -> Awaitable[object]:
        key = (user, row.sort_key)
        if row.update_id is None:
            return self._table.delete(key)
        values = {"updateid": row.update_id}
        return self._table.delete(key, condition=IS_THAT_UPDATE, values=values)

    async def _bury(self, user: str, row: Row) -> bool:
        """Replace a message by a tombstone; False if another one is stored by now."""
        key, now = (user, row.sort_key), int(self._clock())
        expiry = now + int(self._settle_time) + 1
        tombstone: Item = {
            "uaid": user,
            "chidmessageid": row.sort_key,
            "ttl": 0,
            "timestamp": now,
            "expiry": expiry,
        }
        if row.update_id is None:
            await self._table.put(tombstone)
            return True
        values: Values = {"expiry": expiry, "ttl": 0, "updateid": row.update_id}
        if await condition_held(self._table.update(key, BURY, values, condition=IS_THAT_UPDATE)):
            return True
        order = self._topic_orders.find(key)
        if order is None:
            return False
        # Its put may have been given up and still be applied later.
        tombstone["topic_order"] = order
        before = {"topic_order": order, "timestamp": now}
        return await condition_held(
            self._table.put(tombstone, condition=IS_OLDER_TOPIC, values=before)
        )

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def find(self, uaid: str, row: Row) -> Notification | None:
        """That message; None if it is not stored or was replaced."""
        item = await self._table.get((self._hash(uaid), row.sort_key))
        if item is None or row.update_id not in (None, item.get("updateid")):
            return None
        self._note_read([item])
        stored = _message(uaid, item)
        return stored.notification if stored else None

    async def has(self, uaid: str, row: Row) -> bool:
        """Whether that message is stored and was not replaced; the row is not noted as read."""
        item = await self._table.get((self._hash(uaid), row.sort_key))
        if item is None or _is_tombstone(item):
            return False
        return row.update_id in (None, item.get("updateid"))

    async def read(self, uaid: str, after: str | None) -> StoredPage:
        """The next page after the sort key `after` (None: the first), in the order of delivery."""
        user = self._hash(uaid)
        sort = Range(gt=after) if after is not None else None
        limit = PAGE if after is not None else PAGE + 1  # the first row is that of the channels
        page = await self._table.query(user, sort=sort, limit=limit)
        while page.cursor is not None and not page.items:
            page = await self._table.query(user, sort=sort, limit=limit, after=page.cursor)
        items = page.items
        channels, read_to, urgencies = None, 0, None
        if after is None:
            head = items[0] if items and items[0]["chidmessageid"] == CHANNELS_ROW else None
            channels = _channels(head)
            if head is not None:
                items = items[1:]
                pointer = head.get("current_timestamp")
                read_to = pointer if isinstance(pointer, int) else 0
                urgencies = head.get("urgencies")
        self._note_read(items)
        messages = [m for item in items if (m := _message(uaid, item)) is not None]
        topics = sum(message.notification.topic is not None for message in messages)
        self._metrics.retrieved_topics.value += topics
        self._metrics.retrieved.value += len(messages) - topics
        last = str(page.items[-1]["chidmessageid"]) if page.cursor is not None else None
        return StoredPage(messages, last, channels, read_to, _known(urgencies))

    async def measure(self, uaid: str, enough: Stored) -> Stored:
        """The user's pending messages and their bytes; counting stops at `enough` of either."""
        return await measure_rows(self._table, self._hash(uaid), enough)


async def measure_rows(table: TableHandle, user: str, enough: Stored) -> Stored:
    """What is stored for the storage key `user`; yields to the event loop between pages."""
    messages = size = 0
    page = await table.query(user, sort=Range(gt=CHANNELS_ROW), limit=MEASURED_PAGE)
    while True:
        for item in page.items:
            if _is_tombstone(item):
                continue
            messages += 1
            size += size_of(item.get("data"), item.get("headers"))
        if page.cursor is None or messages >= enough.messages or size >= enough.size:
            return Stored(messages, size)
        await asyncio.sleep(0)
        page = await table.query(
            user, sort=Range(gt=CHANNELS_ROW), limit=MEASURED_PAGE, after=page.cursor
        )


async def condition_held(written: Awaitable[object]) -> bool:
    """Wait for a submitted write; False if its condition failed."""
    try:
        await written
    except ConditionFailed:
        return False
    return True


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _channels(item: Item | None) -> frozenset[str]:
    chids = item.get("chids") if item else None
    return chids if isinstance(chids, frozenset) else frozenset()


def _known(urgencies: Value) -> frozenset[str]:
    """Those that this version knows."""
    return urgencies & LEVELS.keys() if isinstance(urgencies, frozenset) else frozenset()


def _is_tombstone(item: Item) -> bool:
    return item.get("ttl") == 0 and "updateid" not in item


def _identity(item: Item) -> tuple[str, str, str]:
    """User, sort key and version of a message."""
    return str(item["uaid"]), str(item["chidmessageid"]), str(item["updateid"])


def _topic_order(item: Item) -> int:
    """When a topic's message was accepted, in microseconds; rows of the original say the second."""
    order = item.get("topic_order")
    return order if isinstance(order, int) else _seconds(item, "timestamp") * MICROSECONDS


def _seconds(item: Item, name: str) -> int:
    value = item.get(name)
    return value if isinstance(value, int) else 0


def _is_refused(put: Awaitable[None]) -> bool:
    """Whether the engine refused a put at once."""
    return isinstance(put, asyncio.Future) and put.done()


def _item(user_key: str, notification: Notification) -> Item:
    """The item to put. Without a payload it has neither `data` nor `headers`."""
    item: Item = {
        "uaid": user_key,
        "chidmessageid": notification.sort_key,
        "ttl": notification.ttl,
        "timestamp": notification.timestamp,
        "updateid": notification.version,
        "expiry": notification.timestamp + notification.ttl,
    }
    if notification.topic_order:
        item["topic_order"] = notification.topic_order
    if notification.urgency != NORMAL:
        item["urgency"] = notification.urgency
    if notification.data:
        item["data"] = notification.data
        item["headers"] = dict(notification.headers or {})
    return item


def _message(uaid: str, item: Item) -> StoredMessage | None:
    """The message in a row, None if it is unreadable (unknown sort key, wrong types)."""
    sort_key, version = item.get("chidmessageid"), item.get("updateid")
    if not isinstance(sort_key, str):
        return None
    try:
        key = parse_sort_key(sort_key)
    except ValueError:
        return None
    version = key.version or version
    if not isinstance(version, str):
        return None
    data, headers = item.get("data"), item.get("headers")
    order = item.get("topic_order")
    notification = Notification(
        uaid=uaid,
        channel_id=key.channel_id,
        version=version,
        ttl=_seconds(item, "ttl"),
        timestamp=_seconds(item, "timestamp"),
        topic=key.topic,
        data=data if isinstance(data, str) else None,
        headers={k: v for k, v in headers.items() if isinstance(v, str)}
        if isinstance(headers, dict)
        else None,
        sort_time=key.sort_time,
        topic_order=order if isinstance(order, int) else 0,
        urgency=known_urgency(item.get("urgency")) or NORMAL,
    )
    return StoredMessage(Row(sort_key, version if key.topic else None), notification)
