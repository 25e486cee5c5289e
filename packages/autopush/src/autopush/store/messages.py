"""One message table: the subscriptions of its users and the messages that wait for them.

Rule: a message is deleted when it was acked, and only then; a row that may have been replaced
meanwhile (a topic) is deleted only if it still holds the version that was acked.

Attribute names and types are the original's: `data` text, `headers` map, `ttl` and `timestamp`
seconds, `updateid` the message id, `expiry` epoch seconds. A row that cannot be read is skipped, as
tombstones are.
"""

import asyncio
from collections.abc import Awaitable, Container, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from autopush.clock import Clock
from autopush.protocol.effects import Row, StoredMessage, StoredPage
from autopush.store.message_writes import MessageWrites, is_tombstone
from autopush.store.tables import (
    ADD_CHANNELS,
    IS_NO_NEWER_COPY,
    NO_MONTH,
    REMOVE_CHANNELS,
    Hasher,
    Month,
)
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
from keytables import (
    ConditionFailed,
    Engine,
    Item,
    Range,
    Returning,
    StorageFull,
    TableHandle,
)

NEARLY_FULL: Final = "the disk is nearly full: new messages are refused"
PROBE_ROW: Final = "probe"
"""A sort key that no message has."""
PAGE: Final = 10
"""Messages read at once."""
MEASURED_PAGE: Final = 20
"""Rows read at once to be counted, which takes an embedded store about a millisecond at most."""


class Stored(NamedTuple):
    """What is stored for a user: how many messages, or versions, and the bytes of their data and
    headers.
    """

    messages: int
    size: int


def size_of(data: object, headers: object) -> int:
    """The bytes that count of one message. What is stored of both is ASCII."""
    size = len(data) if isinstance(data, str) else 0
    if isinstance(headers, Mapping):
        size += sum(len(name) + len(str(value)) for name, value in headers.items())
    return size


async def measured(table: TableHandle, user: str, enough: Stored) -> Stored:
    """As `UserMessages.measure`, of the user with that storage key. It lets other work have its
    turn between two pages.
    """
    messages = size = 0
    page = await table.query(user, sort=Range(gt=CHANNELS_ROW), limit=MEASURED_PAGE)
    while True:
        for item in page.items:
            if is_tombstone(item):
                continue
            messages += 1
            size += size_of(item.get("data"), item.get("headers"))
        if page.cursor is None or messages >= enough.messages or size >= enough.size:
            return Stored(messages, size)
        await asyncio.sleep(0)
        page = await table.query(
            user, sort=Range(gt=CHANNELS_ROW), limit=MEASURED_PAGE, after=page.cursor
        )


def row_of(notification: Notification) -> Row:
    """Where the message is stored. A topic's row names the version it holds."""
    return Row(notification.sort_key, notification.version if notification.topic else None)


def _channels(item: Item | None) -> frozenset[str]:
    chids = item.get("chids") if item else None
    return chids if isinstance(chids, frozenset) else frozenset()


class UserMessages(Protocol):
    """What waits for the users of one router type, in a message table or in that of versions."""

    name: str

    @property
    def router_type(self) -> str:
        """The router type of these users."""

    @property
    def month(self) -> Month:
        """The month of the table."""

    async def channels(self, uaid: str) -> Container[str]:
        """The user's subscriptions."""

    def add_channel(self, uaid: str, channel_id: str) -> Awaitable[object]:
        """Subscribe."""

    async def remove_channel(self, uaid: str, channel_id: str) -> bool:
        """Unsubscribe. True only if the channel was subscribed."""

    def drop_channels(self, uaid: str) -> Awaitable[object]:
        """Delete what would otherwise stay of a user that is dropped."""

    def store(self, notification: Notification) -> Awaitable[None]:
        """Write a new notification.

        :raises StorageFull: at once; what space is left is for everything else
        """

    async def save(self, notification: Notification) -> None:
        """Write a notification that was sent and not acked, unless a newer one replaces it."""

    async def find(self, uaid: str, row: Row) -> Notification | None:
        """What that row stands for, None when it is not stored or was replaced."""

    async def has(self, uaid: str, row: Row) -> bool:
        """Whether that row is stored, and was not replaced."""

    async def delete(self, uaid: str, row: Row) -> bool:
        """Delete one row. False when it was replaced."""

    def delete_all(self, uaid: str, acked: Sequence[Row]) -> Awaitable[object]:
        """Delete these rows of one user; submitted at once, done when the future is."""

    async def is_settled(self, notification: Notification) -> bool:
        """Whether the put that stored this notification here may not take effect once more."""

    def note_unsettled(self, notification: Notification) -> None:
        """Another process stored this notification, and its put may take effect once more."""

    async def read(self, uaid: str, after: str | None) -> StoredPage:
        """The next page behind the sort key `after`, None for the first one."""

    async def measure(self, uaid: str, enough: Stored) -> Stored:
        """How much is stored for that user; counting ends when there are so many, or so many
        bytes.
        """


class MessageMetrics:
    """What message tables record. Topics are counted apart."""

    __slots__ = ("deleted", "retrieved", "retrieved_topics", "stored", "stored_topics")

    def __init__(self, metrics: Metrics) -> None:
        self.stored = metrics.counter(MESSAGE_STORED, topic="false")
        self.stored_topics = metrics.counter(MESSAGE_STORED, topic="true")
        self.retrieved = metrics.counter(MESSAGE_RETRIEVED, topic="false")
        self.retrieved_topics = metrics.counter(MESSAGE_RETRIEVED, topic="true")
        self.deleted = metrics.counter(MESSAGE_DELETED)


class Messages:
    """One message table. `name` is what a router record's `current_month` says.

    `month`: that of the table; `NO_MONTH` where tables do not rotate. `metrics`: None for commands,
    whose reads and writes nobody counts. `engine`: None for what is to be written to a disk that is
    nearly full too.
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
        self._writes = MessageWrites(table, clock)
        self._hash = hasher
        self._engine = engine
        self.name = table.table.name
        self.month = month
        self._metrics = MessageMetrics(metrics or unshared_metrics(METRICS))

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    async def channels(self, uaid: str) -> frozenset[str]:
        """The user's subscriptions."""
        return _channels(await self._table.get((self._hash(uaid), CHANNELS_ROW)))

    def add_channel(self, uaid: str, channel_id: str) -> Awaitable[object]:
        """Subscribe; adding a channel twice changes nothing."""
        return self.add_channels(uaid, frozenset((channel_id,)))

    def add_channels(self, uaid: str, channels: frozenset[str]) -> Awaitable[object]:
        """Subscribe to all of these, at least one; channels that are there stay."""
        return self._table.update(
            (self._hash(uaid), CHANNELS_ROW), ADD_CHANNELS, {"chids": channels}
        )

    async def remove_channel(self, uaid: str, channel_id: str) -> bool:
        """Unsubscribe. True only if the channel was subscribed."""
        old = await self._table.update(
            (self._hash(uaid), CHANNELS_ROW),
            REMOVE_CHANNELS,
            {"chids": frozenset((channel_id,))},
            returning=Returning.OLD,
        )
        return channel_id in _channels(old)

    async def copy_channels(self, uaid: str, channels: frozenset[str], connected_at: int) -> bool:
        """Copy the subscriptions of a user whom that connection (ms) moves to this table.

        False when a newer connection has copied them: its copy may have changed since.
        """
        # Also without any: the row then says which connection it was.
        row: Item = {
            "uaid": self._hash(uaid),
            "chidmessageid": CHANNELS_ROW,
            "copied_at": connected_at,
        }
        if channels:
            row["chids"] = channels
        values = {"copied_at": connected_at}
        try:
            await self._table.put(row, condition=IS_NO_NEWER_COPY, values=values)
        except ConditionFailed:
            return False
        return True

    def drop_channels(self, uaid: str) -> Awaitable[object]:
        """Delete all subscriptions of a user that is dropped; its messages expire by themselves."""
        return self._table.delete((self._hash(uaid), CHANNELS_ROW))

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def store(self, notification: Notification) -> Awaitable[None]:
        """Write a new message. An older one of its topic is replaced, and a newer one stays."""
        if self._engine is not None and self._engine.is_nearly_full:
            raise StorageFull(NEARLY_FULL)
        metrics = self._metrics
        (metrics.stored if notification.topic is None else metrics.stored_topics).add()
        return self._writes.put(self._hash(notification.uaid), notification)

    async def save(self, notification: Notification) -> None:
        """Write a message that was sent and not acked. A newer one of its topic stays."""
        if await self._writes.save(self._hash(notification.uaid), notification):
            metrics = self._metrics
            (metrics.stored if notification.topic is None else metrics.stored_topics).add()

    async def is_settled(self, notification: Notification) -> bool:
        """Whether the put that stored this message here may not take effect once more."""
        return await self._writes.is_settled(self._hash(notification.uaid), row_of(notification))

    def note_unsettled(self, notification: Notification) -> None:
        """Another process stored this message, and its put may take effect once more."""
        self._writes.note_unsettled(self._hash(notification.uaid), notification)

    async def find(self, uaid: str, row: Row) -> Notification | None:
        """That message, None when it is not stored or was replaced by another one."""
        item = await self._table.get((self._hash(uaid), row.sort_key))
        if item is None or row.update_id not in (None, item.get("updateid")):
            return None
        self._writes.note_read(item)
        stored = _message(uaid, item)
        return stored.notification if stored else None

    async def has(self, uaid: str, row: Row) -> bool:
        """Whether that message is stored and was not replaced. Who asks knows of its put already:
        the row is not noted as one that was read.
        """
        item = await self._table.get((self._hash(uaid), row.sort_key))
        if item is None or is_tombstone(item):
            return False
        return row.update_id in (None, item.get("updateid"))

    async def delete(self, uaid: str, row: Row) -> bool:
        """Delete one message. False when another version of it is stored by now."""
        is_deleted = await self._writes.delete(self._hash(uaid), row)
        if is_deleted:
            self._metrics.deleted.add()
        return is_deleted

    def delete_all(self, uaid: str, acked: Sequence[Row]) -> Awaitable[object]:
        """Delete these messages of one user; submitted at once, done when the future is."""
        self._metrics.deleted.add(len(acked))
        return self._writes.delete_all(self._hash(uaid), acked)

    def probe(self, uaid: str, expiry: int) -> Awaitable[None]:
        """Write a row of that user that is no message, to see whether the table can be written."""
        row: Item = {"uaid": self._hash(uaid), "chidmessageid": PROBE_ROW, "expiry": expiry}
        return self._table.put(row)

    async def read(self, uaid: str, after: str | None) -> StoredPage:
        """The next page of messages behind the sort key `after`, None for the first one.

        The order of the sort keys is the order of delivery: topics, then by storing time.
        """
        user = self._hash(uaid)
        sort = Range(gt=after) if after is not None else None
        limit = PAGE if after is not None else PAGE + 1  # the first row is that of the channels
        page = await self._table.query(user, sort=sort, limit=limit)
        while page.cursor is not None and not page.items:
            page = await self._table.query(user, sort=sort, limit=limit, after=page.cursor)
        items = page.items
        channels, read_to = None, 0
        if after is None:
            head = items[0] if items and items[0]["chidmessageid"] == CHANNELS_ROW else None
            channels = _channels(head)
            if head is not None:
                items = items[1:]
                pointer = head.get("current_timestamp")
                read_to = pointer if isinstance(pointer, int) else 0
        for item in items:
            self._writes.note_read(item)
        messages = [m for item in items if (m := _message(uaid, item)) is not None]
        topics = sum(message.notification.topic is not None for message in messages)
        self._metrics.retrieved_topics.add(topics)
        self._metrics.retrieved.add(len(messages) - topics)
        last = str(page.items[-1]["chidmessageid"]) if page.cursor is not None else None
        return StoredPage(messages, last, channels, read_to)

    async def measure(self, uaid: str, enough: Stored) -> Stored:
        """How many messages wait for that user, and their bytes; see `UserMessages`."""
        return await measured(self._table, self._hash(uaid), enough)


def _message(uaid: str, item: Item) -> StoredMessage | None:
    """The message of a row, None when it cannot be read (unknown sort key, wrong types)."""
    sort_key, version = item.get("chidmessageid"), item.get("updateid")
    if not isinstance(sort_key, str):
        return None
    try:
        key = parse_sort_key(sort_key)
    except ValueError:
        return None
    version = key.version or version
    ttl, timestamp, data = item.get("ttl"), item.get("timestamp"), item.get("data")
    headers = item.get("headers")
    if not isinstance(version, str):
        return None
    notification = Notification(
        uaid=uaid,
        channel_id=key.channel_id,
        version=version,
        ttl=ttl if isinstance(ttl, int) else 0,
        timestamp=timestamp if isinstance(timestamp, int) else 0,
        topic=key.topic,
        data=data if isinstance(data, str) else None,
        headers={k: v for k, v in headers.items() if isinstance(v, str)}
        if isinstance(headers, dict)
        else None,
        sort_time=key.sort_time,
        topic_order=order if isinstance(order := item.get("topic_order"), int) else 0,
    )
    return StoredMessage(Row(sort_key, version if key.topic else None), notification)
