"""The SimplePush table: the newest pending version of each channel.

Rule: a version is replaced by a higher one only, and deleted only if it is still the one that was
acked.

Attribute names and types are the original's: `version`, a number. Subscriptions are not stored, so
every channel counts as subscribed. Rows do not expire, and the table belongs to no month.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Container, Sequence
from typing import Final

from autopush.store.messages import (
    NEARLY_FULL,
    Messages,
    Stored,
    condition_held,
    measure_rows,
    row_of,
)
from autopush.store.tables import Hasher, Month
from autopush.store.users import SIMPLEPUSH
from autopush.webpush.identifiers import (
    CHANNELS_ROW,
    TIMESTAMPED_ROWS,
    is_channel_id,
    sort_key_after,
)
from autopush.webpush.notification import Notification, VersionUpdate, number_of
from autopush.webpush.stored import ANY_CHANNEL, Row, StoredMessage, StoredPage
from keytables import Attr, Engine, Item, Param, Range, StorageFull, TableHandle

PAGE: Final = 500
"""Versions read at once and sent in one message, which so stays below 64 KiB."""

IS_LOWER_VERSION: Final = Attr("version").absent() | (Attr("version") < Param("version"))
IS_THAT_VERSION: Final = Attr("version") == Param("version")


class Versions:
    """The table of versions. A row is identified by channel and version."""

    router_type: Final = SIMPLEPUSH
    month: Final = Month(9999, 12)

    def __init__(self, table: TableHandle, hasher: Hasher, engine: Engine | None = None) -> None:
        self._table = table
        self._engine = engine
        self._hash = hasher
        self.name = table.table.name

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    async def channels(self, uaid: str) -> Container[str]:  # noqa: ARG002 - as of message tables
        """Every channel: subscriptions are not stored."""
        return ANY_CHANNEL

    async def add_channel(self, uaid: str, channel_id: str) -> None:
        """Does nothing: a channel has no row before it has a version."""

    async def remove_channel(self, uaid: str, channel_id: str) -> bool:
        """Delete the channel's pending version. True, as every channel counts as subscribed."""
        await self._table.delete((self._hash(uaid), channel_id))
        return True

    async def drop_channels(self, uaid: str) -> None:
        """Delete all versions of a dropped user, as they do not expire."""
        await delete_versions(self._table, self._hash(uaid))

    # ── versions ─────────────────────────────────────────────────────────────────────────────────

    def store(self, notification: Notification) -> Awaitable[None]:
        """Write a new version, unless it or a higher one is stored.

        :raises StorageFull: at once, if the disk is nearly full
        """
        if self._engine is not None and self._engine.is_nearly_full:
            raise StorageFull(NEARLY_FULL)
        return self.save(notification)

    async def save(self, notification: Notification) -> None:
        """Write a sent and unacked version, unless it or a higher one is stored."""
        number = number_of(notification.version)
        row: Item = {
            "uaid": self._hash(notification.uaid),
            "chid": notification.channel_id,
            "version": number,
        }
        put = self._table.put(row, condition=IS_LOWER_VERSION, values={"version": number})
        await condition_held(put)

    async def find(self, uaid: str, row: Row) -> Notification | None:
        """That version; None if it is not the one stored."""
        item = await self._table.get((self._hash(uaid), row.sort_key))
        stored = _stored(uaid, item) if item is not None else None
        if stored is None or row.update_id not in (None, stored.row.update_id):
            return None
        return stored.notification

    async def has(self, uaid: str, row: Row) -> bool:
        return await self.find(uaid, row) is not None

    async def delete(self, uaid: str, row: Row) -> bool:
        """Delete one version; False if another one is stored by now."""
        return await condition_held(self._delete(self._hash(uaid), row))

    def delete_all(self, uaid: str, acked: Sequence[Row]) -> Awaitable[object]:
        """Delete these versions of one user; submitted at once, done when the future is."""
        user = self._hash(uaid)
        return asyncio.gather(*(condition_held(self._delete(user, row)) for row in acked))

    def _delete(self, user: str, row: Row) -> Awaitable[object]:
        values = {"version": number_of(row.update_id or "")}
        return self._table.delete((user, row.sort_key), condition=IS_THAT_VERSION, values=values)

    async def is_settled(self, notification: Notification) -> bool:  # noqa: ARG002
        """Always: a version may be delivered twice, as it only says that something is new."""
        return True

    def note_unsettled(self, uaid: str, row: Row) -> None:
        """Does nothing: see `is_settled`."""

    async def read(self, uaid: str, after: str | None) -> StoredPage:
        """The next page of versions after the channel `after`, None for the first page."""
        user, sort = self._hash(uaid), Range(gt=after or CHANNELS_ROW)
        page = await self._table.query(user, sort=sort, limit=PAGE)
        while page.cursor is not None and not page.items:
            page = await self._table.query(user, sort=sort, limit=PAGE, after=page.cursor)
        stored = [message for item in page.items if (message := _stored(uaid, item)) is not None]
        last = str(page.items[-1]["chid"]) if page.cursor is not None else None
        return StoredPage(stored, last)

    async def measure(self, uaid: str, enough: Stored) -> Stored:
        """How many of the user's channels have a pending version."""
        return await measure_rows(self._table, self._hash(uaid), enough)


UserMessages = Messages | Versions
"""A table of pending messages or versions: both have the same interface."""


async def unread_pages(messages: UserMessages, uaid: str) -> AsyncIterator[list[StoredMessage]]:
    """All stored messages, page by page, but those before the read pointer of the original."""
    after: str | None = None
    read_to = 0
    while True:
        page = await messages.read(uaid, after)
        read_to = max(read_to, page.read_to)
        yield [each for each in page.messages if _is_after(each, read_to)]
        if page.last is None:
            return
        after = page.last
        if after >= TIMESTAMPED_ROWS:
            after = max(after, sort_key_after(read_to))


async def delete_versions(table: TableHandle, user: str) -> None:
    """Delete all versions of a user. `user`: its storage key."""
    while items := (await table.query(user, sort=Range(gt=CHANNELS_ROW), limit=PAGE)).items:
        await table.batch_write(deletes=[(user, str(item["chid"])) for item in items])


def _is_after(stored: StoredMessage, read_to: int) -> bool:
    sort_time = stored.notification.sort_time
    return sort_time is None or sort_time > read_to


def _stored(uaid: str, item: Item) -> StoredMessage | None:
    channel_id, number = item.get("chid"), item.get("version")
    if not is_channel_id(channel_id) or not isinstance(number, int):
        return None
    update = VersionUpdate.of(uaid, channel_id, number)
    return StoredMessage(row_of(update), update)
