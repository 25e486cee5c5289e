"""The check at start: does every operation of the service work on every table, with these rights?

Rule: it does with a UAID of its own what the service does for user agents, by the same code where
there is some, and leaves nothing behind. Its rows expire by themselves as well, in the tables that
have expiry, for when the right to delete is what is missing.
"""

import secrets
from contextlib import suppress
from typing import Final

from autopush.clock import Clock
from autopush.store import last_connect
from autopush.store.hasher import hasher
from autopush.store.messages import Messages
from autopush.store.rows import row_of
from autopush.store.tables import (
    CREATE,
    IS_NEWEST,
    TablePlan,
    message_table,
    router_table,
    storage_table,
)
from autopush.store.users import RECORD_VERSION, WEBPUSH, UserRecord, Users
from autopush.webpush.message_id import CHANNELS_ROW
from autopush.webpush.notification import Notification
from keytables import (
    AccessRefused,
    Attr,
    Engine,
    Item,
    KeytablesError,
    KeyTuple,
    Param,
    Range,
    Returning,
    TableHandle,
    Update,
)

UAID_START: Final = "deadbeef00000000deadbeef"
"""How the UAID of every check begins, so that what looks at the tables can tell it."""

NODE: Final = "mynode:2020"
CHANNEL: Final = "deadbeef-0000-0000-dead-beef00000000"
VERSION: Final = 12
LIFETIME: Final = 600

_REGISTER: Final = Update(set=(*CREATE.assigned, "expiry"))
_IS_NEWER: Final = Attr("version").absent() | (Attr("version") < Param("version"))
_IS_THAT_VERSION: Final = Attr("version") == Param("version")


class PreflightFailed(Exception):  # noqa: N818 - named for what happened
    """An operation does not work; the text is one line that names it, and the right it needs."""


async def preflight(
    engine: Engine, plan: TablePlan, *, current: str, key_hash: str, clock: Clock
) -> None:
    """Try every operation on router, storage and the message table `current`.

    :raises PreflightFailed: the first one that does not work
    """
    check = _Check(engine, plan, current, key_hash, clock)
    try:
        await check.open()
        await check.try_storage()
        await check.try_messages()
        await check.try_router()
        check.done()
    except AccessRefused as error:
        table = f"{error.table or check.table}{check.index}"
        right = f"the right dynamodb:{error.operation} on table {table} is needed"
        raise PreflightFailed(f"{check.doing}: {error.operation} is refused; {right}") from error
    except KeytablesError as error:
        call = f"{check.call} on table {check.table}"
        raise PreflightFailed(f"{check.doing}: {call} failed: {error}") from error
    finally:
        await check.clean()


class _Check:
    """One check, and where it is: what it is doing, by which call, on which table."""

    def __init__(
        self, engine: Engine, plan: TablePlan, current: str, key_hash: str, clock: Clock
    ) -> None:
        self.doing = self.call = self.table = self.index = ""
        self._engine = engine
        self._plan = plan
        self._current = current
        self._hash = hasher(key_hash)
        self._clock = clock
        self._uaid = f"{UAID_START}{secrets.token_hex(4)}"
        self._key = self._hash(self._uaid)
        self._tables: list[TableHandle] = []
        self._left: list[tuple[TableHandle, list[KeyTuple]]] = []

    async def open(self) -> None:
        """The tables are there."""
        for table in (
            storage_table(self._plan.storage),
            message_table(self._current),
            router_table(self._plan.router),
        ):
            self._now("open a table", "DescribeTable", table.name)
            self._tables.append(await self._engine.ensure_table(table))

    async def try_storage(self) -> None:
        """A version of a SimplePush channel is saved, read, and deleted."""
        table, _, _ = self._tables
        name, key = self._plan.storage, (self._key, CHANNEL)
        version = {"version": VERSION}
        row: Item = {"uaid": self._key, "chid": CHANNEL, "version": VERSION}
        self._left = [(table, [key])]
        self._now("save a version", "PutItem", name)
        await table.put(row, condition=_IS_NEWER, values=version)
        self._now("read versions", "Query", name)
        self._same((await table.query(self._key, sort=Range(gt=" "))).items, [row])
        self._now("delete a version", "DeleteItem", name)
        await table.delete(key, condition=_IS_THAT_VERSION, values=version)

    async def try_messages(self) -> None:
        """Channels are written and read; messages are stored, read, and deleted."""
        _, table, _ = self._tables
        messages, name = Messages(table, self._hash), self._current
        now = int(self._clock())
        topic, plain = (
            Notification(
                uaid=self._uaid,
                channel_id=CHANNEL,
                version="preflight",
                ttl=LIFETIME,
                timestamp=now,
                topic=topic,
                data="cHJlZmxpZ2h0",
                headers={"encoding": "aes128gcm"},
                sort_time=None if topic else now * 1_000_000,
            )
            for topic in ("preflight", None)
        )
        keys = [CHANNELS_ROW, topic.sort_key, plain.sort_key]
        self._left = [(table, [(self._key, key) for key in keys])]
        self._now("write the channels row", "PutItem", name)
        await table.put(
            {"uaid": self._key, "chidmessageid": CHANNELS_ROW, "expiry": now + LIFETIME}
        )
        self._now("add a channel", "UpdateItem", name)
        await messages.add_channel(self._uaid, CHANNEL)
        self._now("read the channels row", "GetItem", name)
        self._same(await messages.channels(self._uaid), {CHANNEL})
        self._now("store a message", "PutItem", name)
        await messages.store(plain)
        await messages.save(topic)
        self._now("read messages", "Query", name)
        found = (await messages.read(self._uaid, None)).messages
        self._same([stored.row for stored in found], [row_of(topic), row_of(plain)])
        self._now("delete a message", "DeleteItem", name)
        self._same(await messages.delete(self._uaid, row_of(topic)), True)
        self._now("delete messages", "BatchWriteItem", name)
        await table.batch_write(deletes=[(self._key, plain.sort_key)])
        self._now("remove a channel", "UpdateItem", name)
        self._same(await messages.remove_channel(self._uaid, CHANNEL), True)
        self._now("delete the channels row", "DeleteItem", name)
        await messages.drop_channels(self._uaid)

    async def try_router(self) -> None:
        """A user agent is registered, read, found by the index, disconnected, and dropped."""
        _, _, table = self._tables
        users, name = Users(table, self._hash, self._clock), self._plan.router
        now = self._clock()
        record = UserRecord(
            uaid=self._uaid,
            router_type=WEBPUSH,
            connected_at=0,
            node_id=NODE,
            current_month=self._current,
            last_connect=last_connect.make(now),
            record_version=RECORD_VERSION,
        )
        self._left = [(table, [(self._key,)])]
        self._now("register a user agent", "UpdateItem", name)
        await table.update(
            (self._key,),
            _REGISTER,
            {
                "node_id": record.node_id,
                "connected_at": record.connected_at,
                "router_type": record.router_type,
                "last_connect": record.last_connect,
                "record_version": record.record_version,
                "current_month": record.current_month,
                "expiry": int(now) + LIFETIME,
            },
            condition=IS_NEWEST,
            returning=Returning.OLD,
        )
        self._now("read a record", "GetItem", name)
        self._same(await users.get(self._uaid), record)
        self._now("read records", "BatchGetItem", name)
        self._same(len(await table.batch_get([(self._key,)])), 1)
        # It lags, so what it finds says nothing.
        self._now("look into the index", "Query", name, "/index/AccessIndex")
        await table.query_index("AccessIndex", last_connect.make(now), limit=1)
        self._now("clear the node", "UpdateItem", name)
        self._same(await users.clear_node(record), True)
        self._now("drop a user agent", "DeleteItem", name)
        await users.drop(self._uaid)

    def done(self) -> None:
        """Nothing is left to clean."""
        self._left = []

    async def clean(self) -> None:
        """Delete what the steps that were not reached would have deleted."""
        for table, keys in self._left:
            try:
                await table.batch_write(deletes=keys)
            except KeytablesError:
                for key in keys:
                    with suppress(KeytablesError):
                        await table.delete(key)

    def _now(self, doing: str, call: str, table: str, index: str = "") -> None:
        self.doing = f"preflight: cannot {doing}"
        self.call, self.table, self.index = call, table, index

    def _same(self, found: object, expected: object) -> None:
        if found != expected:
            call = f"{self.call} on table {self.table}"
            raise PreflightFailed(f"{self.doing}: {call} does not answer with what was written")
