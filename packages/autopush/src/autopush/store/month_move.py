"""Moving a user to the message table of another month.

    1  the subscriptions are copied
    2  the router record names the new table, and in `moved_from` the old one
    3  the old table is looked into once more: what came meanwhile is carried over, before anything
       is read from the new one
    4  at the next connect it is looked into a last time, and `moved_from` goes

Whoever stores a message reads the record afterwards (`carry`). Before step 2 it finds the old table
there, and step 3 finds the message. After step 2 it finds the new one, and carries the message over
itself.

Rule: a message is put into the new table before it is deleted from the old one, and nothing is done
that may not be done twice: so a move that ends anywhere, with its node, is completed by the next
connection, on whichever node. Two at once do no harm; the older connection is refused, at the
latest in step 2.
"""

import asyncio
from collections.abc import Collection, Iterable

from autopush.protocol.drain import Drain
from autopush.protocol.effects import Row
from autopush.store.messages import Messages
from autopush.store.push_store import PushStore
from autopush.store.users import UserRecord
from keytables import TableNotFound


async def move_user(
    store: PushStore, uaid: str, old: Messages, *, node_id: str, connected_at: int
) -> Messages | None:
    """Steps 1 and 2, by the connection that has read all of the old table and has no message on
    its way. Returns the table the user has now, None when another connection has the user.
    """
    new = store.current
    if not await new.copy_channels(uaid, await old.channels(uaid), connected_at):
        return None
    moved = await store.users.move(uaid, node_id, connected_at, old=old.name, new=new.name)
    return new if moved else None


async def look_again(uaid: str, old: Messages, new: Messages, acked: Collection[Row] = ()) -> None:
    """Step 3: carry over what is in the old table, but for what is read already; `acked` are rows
    that are about to be deleted there.
    """
    drain = Drain()
    while (question := drain.next_page()) is not None:
        try:
            batch = await old.read(uaid, question.after)
        except TableNotFound:
            return  # and with it whatever was there
        drain.page_read(batch)
        unread = [
            stored.row
            for stored in batch.messages
            if stored.row not in acked and not drain.is_read(stored.notification.sort_time)
        ]
        await carry(uaid, unread, old, new)


async def end_move(
    store: PushStore,
    record: UserRecord,
    node_id: str,
    connected_at: int,
    acked: Collection[Row] = (),
) -> None:
    """Step 4, by a connection that is on record and has not read anything yet."""
    if record.moved_from is None:
        return
    old, new = await store.table(record.moved_from), await store.messages_of(record)
    if old is not None and new is not None and old is not new:
        await look_again(record.uaid, old, new, acked)
    await store.users.end_move(record.uaid, node_id, connected_at, record.moved_from)


async def follow(
    store: PushStore, record: UserRecord, rows: Iterable[Row], stored_in: Messages
) -> None:
    """The record was read after these messages were stored: if their user has another table, they
    have to be there too.
    """
    if record.current_month == stored_in.name:
        return
    new = await store.messages_of(record)
    if new is not None:
        await carry(record.uaid, rows, stored_in, new)


async def carry(uaid: str, rows: Iterable[Row], old: Messages, new: Messages) -> None:
    """Bring messages from one table to the other, as far as they are still in the old one."""
    await asyncio.gather(*(_carry(uaid, row, old, new) for row in rows))


async def _carry(uaid: str, row: Row, old: Messages, new: Messages) -> None:
    message = await old.find(uaid, row)
    if message is not None:
        await new.save(message)
        await old.delete(uaid, row)
