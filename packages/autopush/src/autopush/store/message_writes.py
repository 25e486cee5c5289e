"""The puts and deletes of messages, in an order that no put which takes effect late can disturb.

A put whose response was lost is repeated, or given up; the database may still carry out the first
attempt, after everything that was written since (`TableHandle.settle_time`).

Rule: of a topic the newer message stays, by the time it was taken, whichever put comes last.

Rule: an acked message does not come back. A row is deleted only when every put of it is settled;
any other is replaced by a *tombstone*: a row without a message, which expires when they are. Each
put has a condition that a tombstone does not meet.

Where the put was another process's, its age says whether it may be unsettled: `timestamp`, or
`saved_at` (epoch seconds) of a message that was put long after it was taken. A tombstone has no
`updateid`, and a `ttl` of 0 for the original, which takes it for an expired message.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from autopush.clock import Clock
from autopush.protocol.effects import Row
from autopush.store.tables import BURY, IS_NEW_ROW, IS_OLDER_TOPIC, IS_THAT_UPDATE
from autopush.webpush.notification import Notification
from keytables import ConditionFailed, Item, KeyTuple, TableHandle

MAX_TOPIC_ORDERS: Final = 10_000
MICROSECONDS: Final = 1_000_000
CLOCKS_AGREE: Final = 1.0
"""Seconds by which the clocks of two nodes may differ, without a doubt which message is newer."""


class MessageWrites:
    """Of one message table. Users are named by their storage keys."""

    def __init__(self, table: TableHandle, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._settle_time = table.settle_time
        # Of the topics that were put last, as their rows may not be there when they are acked.
        self._topic_orders: dict[KeyTuple, int] = {}

    # ── puts ─────────────────────────────────────────────────────────────────────────────────────

    def put(self, user: str, notification: Notification) -> Awaitable[None]:
        """Store a message that was taken just now; submitted at once.

        One of a topic that has a newer message counts as stored, and replaced. Where clocks that
        differ would explain that other one, this one replaces it: it comes later.
        """
        item = _item(user, notification)
        if notification.topic is not None:
            order = topic_order(item)
            put = self._put_topic(item, order, notification.timestamp + 1)
            return put if _is_refused(put) else self._after_topic(put, item, order)
        if not self._settle_time:
            return self._table.put(item)
        put = self._table.put(item, condition=IS_NEW_ROW)
        return put if _is_refused(put) else self._after_first(put, item)

    async def save(self, user: str, notification: Notification) -> bool:
        """Store a message that was taken some time ago. False if it is replaced already."""
        item = _item(user, notification)
        if self._settle_time:
            item["saved_at"] = int(self._clock())
        if notification.topic is not None:
            # A row of the original in the same second may be this very message.
            before = notification.timestamp + bool(notification.topic_order)
            return await condition_held(self._put_topic(item, topic_order(item), before))
        if self._settle_time:
            await self._after_first(self._table.put(item, condition=IS_NEW_ROW), item)
        else:
            await self._table.put(item)
        return True

    async def _after_first(self, put: Awaitable[None], item: Item) -> None:
        """Wait for the put of a row that only this message can have."""
        try:
            await put
        except ConditionFailed as error:
            there = error.item or {}
            if there.get("updateid", item["updateid"]) != item["updateid"]:
                raise
            # An attempt before this one stored it; without `updateid` it is acked by now.

    def _put_topic(self, item: Item, order: int, before: int) -> Awaitable[None]:
        """Replace a row of a lower order; one that has none, if it is from before that second."""
        if self._settle_time:
            key = (str(item["uaid"]), str(item["chidmessageid"]))
            self._topic_orders.pop(key, None)
            if len(self._topic_orders) >= MAX_TOPIC_ORDERS:
                del self._topic_orders[next(iter(self._topic_orders))]
            self._topic_orders[key] = order
        values = {"topic_order": order, "timestamp": before}
        return self._table.put(item, condition=IS_OLDER_TOPIC, values=values)

    async def _after_topic(self, put: Awaitable[None], item: Item, order: int) -> None:
        try:
            await put
        except ConditionFailed as error:
            there = error.item or {}
            found = topic_order(there)
            least = order + CLOCKS_AGREE * MICROSECONDS
            # A clock that is set forward between the taking of a message and this line makes an
            # older row look newer. The time since it was taken is known by the wall clock alone.
            is_newer = least < found <= self._clock() * MICROSECONDS
            version = item["updateid"]
            is_this = there.get("updateid") == version or (
                found == order and "updateid" not in there  # its tombstone
            )
            if is_newer or is_this:
                return
            item["topic_order"] = order = max(order, found + 1)
            before = max(_seconds(item, "timestamp"), _seconds(there, "timestamp")) + 1
            await condition_held(self._put_topic(item, order, before))

    # ── deletes ──────────────────────────────────────────────────────────────────────────────────

    async def delete(self, user: str, row: Row) -> bool:
        """Delete one message. False when another version of it is stored by now."""
        if not await self.is_settled(user, row):
            return await self._bury(user, row)
        return await condition_held(self._delete(user, row))

    def delete_all(self, user: str, rows: Sequence[Row]) -> Awaitable[object]:
        """Delete these messages of one user; done when the result is."""
        if not self._settle_time:
            return self._delete_settled(user, rows)
        return self._delete_or_bury(user, rows)

    async def is_settled(self, user: str, row: Row) -> bool:
        """Whether no put of that row may take effect any more, as far as this process knows."""
        return not await self._table.unsettled([(user, row.sort_key)])

    def note_unsettled(self, user: str, notification: Notification) -> None:
        """Another process put this message, and the put is not settled."""
        self._table.note_unsettled((user, notification.sort_key))

    def note_read(self, item: Item) -> None:
        """A row was read: whether its put is settled is known only if it is old enough."""
        if not self._settle_time:
            return
        put_at = max(_seconds(item, "timestamp"), _seconds(item, "saved_at"))
        if self._clock() < put_at + self._settle_time:
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
        """Put a tombstone in place of a message. False when another one is stored by now."""
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
        buried = self._table.update(
            key,
            BURY,
            {"expiry": expiry, "ttl": 0, "updateid": row.update_id},
            condition=IS_THAT_UPDATE,
        )
        if await condition_held(buried):
            return True
        order = self._topic_orders.get(key)
        if order is None:
            return False
        # Its put may have been given up, and not be carried out yet.
        tombstone["topic_order"] = order
        values = {"topic_order": order, "timestamp": now}
        return await condition_held(
            self._table.put(tombstone, condition=IS_OLDER_TOPIC, values=values)
        )


async def condition_held(written: Awaitable[object]) -> bool:
    """Wait for a submitted write; False when its condition did not hold."""
    try:
        await written
    except ConditionFailed:
        return False
    return True


def is_tombstone(item: Item) -> bool:
    """Whether a row is that of an acked message."""
    return item.get("ttl") == 0 and "updateid" not in item


def topic_order(item: Item) -> int:
    """When the message of a topic was taken, microseconds; of the original's rows the second."""
    order = item.get("topic_order")
    return order if isinstance(order, int) else _seconds(item, "timestamp") * MICROSECONDS


def _seconds(item: Item, name: str) -> int:
    value = item.get(name)
    return value if isinstance(value, int) else 0


def _is_refused(put: Awaitable[None]) -> bool:
    """Whether the engine has refused a put at once."""
    return isinstance(put, asyncio.Future) and put.done()


def _item(user_key: str, notification: Notification) -> Item:
    """The item to put. Without a payload it has no `data` and no `headers`."""
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
    if notification.data:
        item["data"] = notification.data
        item["headers"] = dict(notification.headers or {})
    return item
