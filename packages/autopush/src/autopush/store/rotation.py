"""Rotation of monthly message tables, and how a user is moved to the next one.

Tables: the next month's is created, the capacity of old ones lowered, older ones dropped. The steps
depend on names, capacities and the clock only, so that a dry run shows exactly what would be done.
Nodes create the current month's table themselves: if it is missing, no node has seen this month and
the clock may be wrong, so nothing is lowered or dropped.

A user is moved when its user agent connects; the page Storage has the steps, and what may happen
between them. A node that stores a message reads the record afterwards: if that names another table
by then, the message is moved at once (`move_if_user_moved`). A bridge's user never connects and has
only subscriptions there, which are copied at its next request or push (`table_of_bridged_user`).

Rule: a message is put into the new table before it is deleted from the old one, and every step may
be repeated: the next connection, on whichever node, completes an interrupted move. Concurrent moves
do no harm; the older connection is refused when it changes the record, at the latest.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from autopush.store.messages import Messages
from autopush.store.push_store import PushStore
from autopush.store.tables import Month, TablePlan, message_table
from autopush.store.users import SIMPLEPUSH, UserRecord
from autopush.store.versions import UserMessages, unread_pages
from autopush.webpush.stored import Row
from keytables import Capacity, Engine, TableNotFound, Throttled

# ── tables ───────────────────────────────────────────────────────────────────────────────────────

QUIET_FROM_DAY: Final = 4
"""Day of the month from which last month's table is hardly used, and earlier ones not at all."""

MIN_KEEP: Final = 2
"""The fewest months to keep: the current and the previous one are in use."""

IDLE: Final = Capacity(5, 5)
"""Enough capacity for the table of another month."""


class CreateTable(NamedTuple):
    """Without a capacity the table is billed on demand."""

    table: str
    capacity: Capacity | None


class SetCapacity(NamedTuple):
    table: str
    capacity: Capacity


class DropTable(NamedTuple):
    table: str


RotationStep = CreateTable | SetCapacity | DropTable
MessageTables = Mapping[str, Capacity | None]
"""The existing message tables and their provisioned capacity."""


async def find_tables(engine: Engine, plan: TablePlan) -> MessageTables:
    tables = {}
    for name in await engine.table_names():
        if Month.parse(plan.message, name):
            with suppress(TableNotFound):  # dropped by another run
                tables[name] = await engine.capacity(name)
    return tables


def plan_rotation(
    tables: MessageTables, plan: TablePlan, now: float, *, keep: int, idle: Capacity
) -> list[RotationStep]:
    """The steps that are due at `now` (epoch seconds).

    `keep`: months to keep, this one included, at least two; `idle`: see `IDLE`.
    """
    if not plan.rotating:
        return []
    this = Month.at(now)
    name, following = this.table(plan.message), this.next.table(plan.message)
    capacity = tables.get(name, plan.message_capacity)
    steps: list[RotationStep] = []
    if following not in tables:
        steps.append(CreateTable(following, capacity))
    elif capacity is not None and tables[following] not in (None, capacity):
        steps.append(SetCapacity(following, capacity))
    if name not in tables:
        return steps
    oldest = this
    for _ in range(max(keep, MIN_KEEP) - 1):
        oldest = oldest.previous
    quiet = datetime.fromtimestamp(now, UTC).day >= QUIET_FROM_DAY
    # Users that connected in the last hours of a month may still be moved from its table.
    too_old = oldest if quiet else oldest.previous
    for table in sorted(tables, reverse=True):
        month = Month.parse(plan.message, table)
        if month is None or month >= this:
            continue
        if month < too_old:
            steps.append(DropTable(table))
        elif month < this.previous or quiet:
            steps += _lowered(table, tables[table], idle)
    return steps


def _lowered(table: str, capacity: Capacity | None, idle: Capacity) -> list[SetCapacity]:
    if capacity is None:
        return []
    lower = Capacity(min(capacity.read, idle.read), min(capacity.write, idle.write))
    return [] if lower == capacity else [SetCapacity(table, lower)]


async def apply_step(engine: Engine, step: RotationStep) -> None:
    """Carry out one step; repeating it changes nothing."""
    match step:
        case CreateTable(table, capacity):
            await engine.ensure_table(message_table(table), capacity=capacity)
        case SetCapacity(table, capacity):
            with suppress(TableNotFound):
                await engine.set_capacity(table, capacity)
        case DropTable(table):
            await engine.drop_table(table)


# ── users ────────────────────────────────────────────────────────────────────────────────────────


async def move_user(
    store: PushStore, uaid: str, old: Messages, *, node_id: str, connected_at: int
) -> Messages | None:
    """Steps 1 and 2, by a connection that has read all of the old table and has no message in
    flight. Returns the new table, None if another connection has the user.
    """
    new = store.current
    if not await new.copy_channels(uaid, await old.channels(uaid), connected_at):
        return None
    moved = await store.users.move(uaid, node_id, connected_at, old=old.name, new=new.name)
    return new if moved else None


async def move_late_messages(
    uaid: str, old: UserMessages, new: UserMessages, acked: Collection[Row] = ()
) -> None:
    """Step 3: move the unread messages of the old table. `acked`: rows about to be deleted."""
    try:
        async for page in unread_pages(old, uaid):
            unread = [stored.row for stored in page if stored.row not in acked]
            await move_messages(uaid, unread, old, new)
    except TableNotFound as error:
        if error.table != old.name:
            raise
        # Its messages were dropped with it.


async def end_move(
    store: PushStore,
    record: UserRecord,
    node_id: str,
    connected_at: int,
    acked: Collection[Row] = (),
) -> None:
    """Step 4, by a connection that is on record and has read nothing yet."""
    if record.moved_from is None:
        return
    old, new = await store.table(record.moved_from), await store.messages_of(record)
    if old is not None and new is not None and old is not new:
        await move_late_messages(record.uaid, old, new, acked)
    await store.users.end_move(record.uaid, node_id, connected_at, record.moved_from)


async def move_if_user_moved(
    store: PushStore, record: UserRecord, rows: Iterable[Row], stored_in: UserMessages
) -> None:
    """Move stored messages if the record, read afterwards, names another table."""
    if record.current_month == stored_in.name or record.router_type == SIMPLEPUSH:
        return
    new = await store.messages_of(record)
    if new is not None:
        await move_messages(record.uaid, rows, stored_in, new)


async def move_messages(
    uaid: str, rows: Iterable[Row], old: UserMessages, new: UserMessages
) -> None:
    """Move those messages that are still in the old table."""
    await asyncio.gather(*(_move_message(uaid, row, old, new) for row in rows))


async def _move_message(uaid: str, row: Row, old: UserMessages, new: UserMessages) -> None:
    message = await old.find(uaid, row)
    if message is not None:
        await new.save(message)
        await old.delete(uaid, row)


# ── users that never connect ─────────────────────────────────────────────────────────────────────

MOVE_ATTEMPTS: Final = 3


async def table_of_bridged_user(store: PushStore, record: UserRecord) -> Messages | None:
    """The message table of a user that never connects, after a move to the current one if its own
    is older or gone. None if the user was dropped meanwhile. Concurrent moves do no harm.

    :raises Throttled: its table keeps changing
    """
    latest: UserRecord | None = record
    for _ in range(MOVE_ATTEMPTS):
        if latest is None:
            return None
        old = await store.table(latest.current_month)
        if old is not None and not store.is_behind(old):
            return old
        new = store.current
        channels = await _channels_of(store, latest.uaid, old)
        if channels:  # added, not replaced: another move may have come first
            await new.add_channels(latest.uaid, channels)
        if await store.users.set_table(latest, new.name):
            return new
        latest = await store.users.get(latest.uaid)
    raise Throttled("the message table of the user keeps changing")


async def channels_of_bridged_user(store: PushStore, record: UserRecord) -> frozenset[str] | None:
    """The subscriptions of a user that never connects, which a push takes to the current table, so
    that they outlive their table. None: they are unknown, as it was dropped already.

    :raises Throttled: its table keeps changing
    """
    messages = await store.table(record.current_month)
    channels = await _channels_of(store, record.uaid, messages)
    if messages is not None and channels is not None and store.is_behind(messages):
        await table_of_bridged_user(store, record)
    return channels


async def _channels_of(
    store: PushStore, uaid: str, messages: Messages | None
) -> frozenset[str] | None:
    """None: the table is gone."""
    if messages is None:
        return None
    try:
        return await messages.channels(uaid)
    except TableNotFound as error:
        if error.table != messages.name or not await store.is_gone(messages.name):
            raise
        return None
