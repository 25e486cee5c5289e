"""The checks at start: does every operation of the service work on every table, with these rights?
Is the store used with the crypto keys that its endpoints were made with?

The first check runs the operations of the service for a UAID of its own, by the same code where
there is some, and deletes what it wrote. In tables with expiry its rows also expire, in case the
right to delete is missing.

The second keeps a row in the router table, under a key that is no UAID. Without `last_connect` it
is not in the index. It holds fingerprints, from which no key can be derived.
"""

import secrets
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from autopush.clock import Clock
from autopush.store.messages import Messages, row_of
from autopush.store.tables import (
    KEYS_ROW,
    SERVICE_ROWS,
    TablePlan,
    message_table,
    router_table,
    storage_table,
    uaid_hasher,
)
from autopush.store.users import (
    IS_NEWEST,
    RECORD_VERSION,
    WEBPUSH,
    UserRecord,
    Users,
    make_connect_key,
)
from autopush.store.versions import Versions
from autopush.webpush.identifiers import CHANNELS_ROW
from autopush.webpush.notification import Notification, VersionUpdate
from keytables import (
    AccessRefused,
    Attr,
    ConditionFailed,
    Cursor,
    Engine,
    KeytablesError,
    KeyTuple,
    Param,
    Returning,
    StorageFull,
    TableHandle,
    Update,
)

UAID_PREFIX: Final = "deadbeef00000000deadbeef"
"""Prefix of the UAIDs of checks, by which their rows can be recognised."""

NODE: Final = "mynode:2020"
CHANNEL: Final = "deadbeef-0000-0000-dead-beef00000000"
VERSION: Final = 12
LIFETIME: Final = 600


class PreflightFailed(Exception):  # noqa: N818 - named for what happened
    """An operation does not work; the text is one line that names it, and a right it lacks."""


async def preflight(
    engine: Engine, plan: TablePlan, *, current: str, key_hash: str, clock: Clock
) -> None:
    """Try every operation on router, storage and the message table `current`.

    :raises PreflightFailed: the first one that does not work
    :raises StorageFull: there is no space to try them; rights and tables may be fine
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
        right = f"the right {error.right} on table {table} is needed"
        raise PreflightFailed(f"{check.doing}: {error.operation} is refused; {right}") from error
    except StorageFull:
        raise
    except KeytablesError as error:
        call = f"{check.call} on table {check.table}"
        raise PreflightFailed(f"{check.doing}: {call} failed: {error}") from error
    finally:
        await check.clean()


class _Check:
    def __init__(
        self, engine: Engine, plan: TablePlan, current: str, key_hash: str, clock: Clock
    ) -> None:
        self.doing = self.call = self.table = self.index = ""
        self._engine = engine
        self._plan = plan
        self._current = current
        self._hash = uaid_hasher(key_hash)
        self._clock = clock
        self._uaid = f"{UAID_PREFIX}{secrets.token_hex(4)}"
        self._key = self._hash(self._uaid)
        self._tables: list[TableHandle] = []
        self._written: list[tuple[TableHandle, list[KeyTuple]]] = []

    async def open(self) -> None:
        for table in (
            storage_table(self._plan.storage),
            message_table(self._current),
            router_table(self._plan.router),
        ):
            self._step("open a table", "DescribeTable", table.name)
            self._tables.append(await self._engine.ensure_table(table))

    async def try_storage(self) -> None:
        table, _, _ = self._tables
        versions, name = Versions(table, self._hash), self._plan.storage
        update = VersionUpdate.of(self._uaid, CHANNEL, VERSION)
        self._written = [(table, [(self._key, CHANNEL)])]
        self._step("save a version", "PutItem", name)
        await versions.store(update)
        self._step("read versions", "Query", name)
        stored_messages = (await versions.read(self._uaid, None)).messages
        self._expect([stored.row for stored in stored_messages], [row_of(update)])
        self._step("read a version", "GetItem", name)
        self._expect(await versions.find(self._uaid, row_of(update)), update)
        self._step("delete a version", "DeleteItem", name)
        self._expect(await versions.delete(self._uaid, row_of(update)), True)
        self._step("delete versions", "BatchWriteItem", name)
        await table.batch_write(deletes=[(self._key, CHANNEL)])

    async def try_messages(self) -> None:
        _, table, _ = self._tables
        messages, name = Messages(table, self._hash, self._clock), self._current
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
        self._written = [(table, [(self._key, key) for key in keys])]
        self._step("write the channels row", "PutItem", name)
        await table.put(
            {"uaid": self._key, "chidmessageid": CHANNELS_ROW, "expiry": now + LIFETIME}
        )
        self._step("add a channel", "UpdateItem", name)
        await messages.add_channel(self._uaid, CHANNEL)
        self._step("read the channels row", "GetItem", name)
        self._expect(await messages.channels(self._uaid), {CHANNEL})
        self._step("store a message", "PutItem", name)
        await messages.store(plain)
        await messages.save(topic)
        self._step("read messages", "Query", name)
        stored_messages = (await messages.read(self._uaid, None)).messages
        self._expect([stored.row for stored in stored_messages], [row_of(topic), row_of(plain)])
        self._step("delete a message", "DeleteItem", name)
        self._expect(await messages.delete(self._uaid, row_of(topic)), True)
        self._step("delete messages", "BatchWriteItem", name)
        await table.batch_write(deletes=[(self._key, topic.sort_key), (self._key, plain.sort_key)])
        self._step("remove a channel", "UpdateItem", name)
        self._expect(await messages.remove_channel(self._uaid, CHANNEL), True)
        self._step("delete the channels row", "DeleteItem", name)
        await messages.drop_channels(self._uaid)

    async def try_router(self) -> None:
        _, _, table = self._tables
        users, name = Users(table, self._hash, self._clock), self._plan.router
        now = self._clock()
        record = UserRecord(
            uaid=self._uaid,
            router_type=WEBPUSH,
            connected_at=0,
            node_id=NODE,
            current_month=self._current,
            last_connect=make_connect_key(now),
            record_version=RECORD_VERSION,
        )
        self._written = [(table, [(self._key,)])]
        self._step("register a user agent", "UpdateItem", name)
        values = {
            "node_id": record.node_id,
            "connected_at": record.connected_at,
            "router_type": record.router_type,
            "last_connect": record.last_connect,
            "record_version": record.record_version,
            "current_month": record.current_month,
            "expiry": int(now) + LIFETIME,
        }
        register = Update(set=tuple(values))
        await table.update(
            (self._key,), register, values, condition=IS_NEWEST, returning=Returning.OLD
        )
        self._step("read a record", "GetItem", name)
        self._expect(await users.get(self._uaid), record)
        self._step("read records", "BatchGetItem", name)
        self._expect(len(await table.batch_get([(self._key,)])), 1)
        # The index lags, so the result is not checked.
        self._step("look into the index", "Query", name, "/index/AccessIndex")
        await table.query_index("AccessIndex", make_connect_key(now), limit=1)
        self._step("clear the node", "UpdateItem", name)
        self._expect(await users.clear_node(record), True)
        self._step("drop a user agent", "DeleteItem", name)
        await users.drop(self._uaid)

    def done(self) -> None:
        self._written = []

    async def clean(self) -> None:
        for table, keys in self._written:
            try:
                await table.batch_write(deletes=keys)
            except KeytablesError:
                for key in keys:
                    with suppress(KeytablesError):
                        await table.delete(key)

    def _step(self, doing: str, call: str, table: str, index: str = "") -> None:
        self.doing = f"preflight: cannot {doing}"
        self.call, self.table, self.index = call, table, index

    def _expect(self, actual: object, expected: object) -> None:
        if actual != expected:
            call = f"{self.call} on table {self.table}"
            raise PreflightFailed(f"{self.doing}: {call} does not return what was written")


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────

FINGERPRINTS: Final = "fingerprints"
ADD: Final = Update(add_to={FINGERPRINTS: Param(FINGERPRINTS)})
IS_NEW: Final = Attr(FINGERPRINTS).absent()


async def are_keys_known(engine: Engine, plan: TablePlan, fingerprints: Collection[str]) -> bool:
    """Whether the users of that store can have endpoints of these keys: it was used with one of
    them, has no users, or has no fingerprints. If so, all are noted.

    Of processes that start at the same time with different keys on a new store, one is refused.
    """
    table = await engine.ensure_table(router_table(plan.router))
    known = await _read_fingerprints(table)
    if not known:
        try:
            values = {FINGERPRINTS: frozenset(fingerprints)}
            await table.update((KEYS_ROW,), ADD, values, condition=IS_NEW)
        except ConditionFailed:
            known = await _read_fingerprints(table)
        else:
            return True
    if await _are_lost(table, known, fingerprints):
        return False
    if new := frozenset(fingerprints) - known:
        await table.update((KEYS_ROW,), ADD, {FINGERPRINTS: new})
    return True


async def are_keys_lost(engine: Engine, plan: TablePlan, fingerprints: Collection[str]) -> bool:
    """Whether a start with these keys would be refused. The store is not changed."""
    table = await engine.open_table(router_table(plan.router))
    return await _are_lost(table, await _read_fingerprints(table), fingerprints)


async def accept_keys(
    engine: Engine, plan: TablePlan, fingerprints: Collection[str], *, dry_run: bool = False
) -> int:
    """Note these keys unconditionally; returns how many were new."""
    table = await engine.ensure_table(router_table(plan.router))
    new = frozenset(fingerprints) - await _read_fingerprints(table)
    if new and not dry_run:
        await table.update((KEYS_ROW,), ADD, {FINGERPRINTS: new})
    return len(new)


async def _read_fingerprints(table: TableHandle) -> frozenset[object]:
    row = await table.get((KEYS_ROW,))
    fingerprints = (row or {}).get(FINGERPRINTS)
    return fingerprints if isinstance(fingerprints, frozenset) else frozenset()


async def _are_lost(
    table: TableHandle, known: frozenset[object], fingerprints: Collection[str]
) -> bool:
    return bool(known) and known.isdisjoint(fingerprints) and await _has_users(table)


async def _has_users(table: TableHandle) -> bool:
    cursor: Cursor | None = None
    while True:
        try:
            page = await table.scan(limit=10, after=cursor)
        except AccessRefused:  # the service needs no right to scan
            return True
        if any(item["uaid"] not in SERVICE_ROWS for item in page.items):
            return True
        cursor = page.cursor
        if cursor is None:
            return False
