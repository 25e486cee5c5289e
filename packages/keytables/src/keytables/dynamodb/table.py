"""A table in DynamoDB.

Rule: what can be refused without the database is refused before anything is sent. A read of the
table is strongly consistent and waits for this process's writes to what it reads; a read of an
index is eventually consistent.
"""

import time
from collections.abc import Awaitable, Collection, Iterable, Sequence
from functools import lru_cache, partial
from typing import Final

from keytables.checks import check_batch, check_limit, expiry_time, key_check, key_checks
from keytables.dynamodb.codec import check_sizes, decode_item, dump_item, dumps, encode_item
from keytables.dynamodb.queries import QueryPlan, read_page, scan_request
from keytables.dynamodb.table_client import TableClient
from keytables.dynamodb.writes import (
    DeleteItem,
    PutItem,
    UpdateItem,
    ValueCheck,
    WriteSequencer,
    WriteTemplate,
)
from keytables.engine import Clock, Query, TableHandle, WriteOptions
from keytables.errors import ConditionFailed, ItemTooLarge, SchemaError, Throttled
from keytables.expressions import MAX_COMPILED, Condition, Returning, Update
from keytables.schema import Cursor, Page
from keytables.values import MAX_SORT_KEY, Item, KeyTuple

_NOT_APPLIED: Final = (ConditionFailed, ItemTooLarge, SchemaError, Throttled)
"""Errors of a put whose last attempt was not applied."""


# --- puts that may take effect late ---------------------------------------------------------------

SIGNATURE_VALID: Final = 300.0
"""Seconds for which AWS accepts a signature (Signature Version 4)."""
SIGNATURE_VALID_IN_ALTERNATOR: Final = 900.0
MARGIN: Final = 30.0
"""Seconds by which the signing clock may be ahead."""

SETTLE_TIME: Final = SIGNATURE_VALID + MARGIN
SETTLE_TIME_OF_ALTERNATOR: Final = SIGNATURE_VALID_IN_ALTERNATOR + MARGIN

MAX_KEYS: Final = 100_000


class UnsettledPuts:
    """Keys whose puts may take effect for ``settle_time`` seconds after their result: the database
    may carry out an abandoned attempt while its signature is valid.

    With more than ``max_keys`` of them, every key counts as one for that time.
    """

    def __init__(
        self,
        settle_time: float = SETTLE_TIME,
        *,
        max_keys: int = MAX_KEYS,
        now: Clock = time.monotonic,
    ) -> None:
        self.settle_time = settle_time
        self._max_keys, self._now = max_keys, now
        self._until: dict[KeyTuple, float] = {}
        self._all_until = 0.0

    def add(self, key: KeyTuple) -> None:
        now = self._now()
        self._drop_settled(now)
        self._until.pop(key, None)  # keeps the dict ordered by time
        if len(self._until) >= self._max_keys:
            self._all_until = now + self.settle_time
            self._until.clear()
        self._until[key] = now + self.settle_time

    def among(self, keys: Iterable[KeyTuple]) -> frozenset[KeyTuple]:
        """Return those of the keys whose puts may take effect late."""
        if not self._until and not self._all_until:
            return frozenset()
        now = self._now()
        self._drop_settled(now)
        if now < self._all_until:
            return frozenset(keys)
        return frozenset(key for key in keys if key in self._until)

    def _drop_settled(self, now: float) -> None:
        settled = []
        for key, until in self._until.items():
            if until > now:
                break
            settled.append(key)
        for key in settled:
            del self._until[key]


# --- the table ------------------------------------------------------------------------------------


class DynamoTable(TableHandle):
    def __init__(
        self, client: TableClient, sequencer: WriteSequencer, late_puts: UnsettledPuts
    ) -> None:
        table = client.table
        super().__init__(table)
        self._client, self._sequencer, self._late_puts = client, sequencer, late_puts
        self.settle_time = late_puts.settle_time
        self._key_names = table.key_names
        self._key_checks = key_checks(table)
        # Of the other attributes with a fixed type: keys of indexes, and the expiry.
        self._value_checks: dict[str, ValueCheck] = {}
        if table.expiry is not None:
            self._value_checks[table.expiry] = partial(expiry_time, name=table.expiry)
        for key in table.key_attributes:
            if key.name not in self._key_names:
                self._value_checks[key.name] = key_check(key, MAX_SORT_KEY)
        self._template = lru_cache(maxsize=MAX_COMPILED)(self._new_template)
        self._plans = {"": QueryPlan(client)}
        self._plans |= {index.name: QueryPlan(client, index) for index in table.indexes}

    # --- reads --------------------------------------------------------------------------------

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._check_key(key)
        await self._sequencer.wait_for_item(checked)
        client = self._client
        now = client.clock()
        encoded = await client.get(self._key_member(checked))
        item = None if encoded is None else decode_item(encoded)
        return item if item is not None and client.is_live(item, now) else None

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        wanted = list({self._check_key(key): None for key in keys})
        for key in wanted:
            await self._sequencer.wait_for_item(key)
        client = self._client
        now = client.clock()
        encoded = await client.get_all([client.encode_key(key) for key in wanted])
        return [item for item in map(decode_item, encoded) if client.is_live(item, now)]

    async def _query(self, query: Query) -> Page:
        plan = self._plans["" if query.index is None else query.index.name]
        checked = plan.check_partition(query.partition)
        check_limit(query.limit)
        request = plan.request(checked, query)
        if request is None:
            return Page([], None)
        if query.index is None:
            await self._sequencer.wait_for_partition(checked)
        else:
            await self._sequencer.wait_for_all()
        return await read_page(self._client, request, query.limit)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        check_limit(limit)
        request = scan_request(self._client, after)
        await self._sequencer.wait_for_all()
        return await read_page(self._client, request, limit)

    # --- writes -------------------------------------------------------------------------------

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        key = self._key_of(item)
        if options is None:
            body = dumps({"TableName": self._client.name, "Item": encode_item(item)})
            check_sizes(body, (item,))
            return self._sequencer.submit((key,), len(body), partial(self._send_put, key, body))
        template, member = self._template(options.condition), self._key_member(key)
        write = PutItem(self._client, template, options.values, member, item=dump_item(item))
        return self._sequencer.submit((key,), write.size, partial(self._put_if, key, write))

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        template = self._template(options.condition, update, options.returning)
        write = UpdateItem(self._client, template, options.values, self._key_member(key))
        return self._sequencer.submit((key,), write.size, write)

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        if options is None:
            body = dumps({"TableName": self._client.name, "Key": self._client.encode_key(key)})
            call = partial(self._call, "DeleteItem", body)
            return self._sequencer.submit((key,), len(body), call)
        template = self._template(options.condition, None, options.returning)
        write = DeleteItem(self._client, template, options.values, self._key_member(key))
        return self._sequencer.submit((key,), write.size, write)

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        client, put_keys = self._client, [self._key_of(item) for item in puts]
        check_batch(put_keys, deletes)
        writes: list[object] = [{"PutRequest": {"Item": encode_item(item)}} for item in puts]
        writes += ({"DeleteRequest": {"Key": client.encode_key(key)}} for key in deletes)
        requests = client.write_requests(writes)
        check_sizes(max(requests, key=len, default=b""), puts)
        write = partial(client.write_all, requests)
        return self._sequencer.submit((*put_keys, *deletes), sum(map(len, requests)), write)

    # --- checks and requests ------------------------------------------------------------------

    async def unsettled(self, keys: Sequence[KeyTuple]) -> frozenset[KeyTuple]:
        checked = [self._check_key(key) for key in keys]
        for key in checked:
            await self._sequencer.wait_for_item(key)
        return self._late_puts.among(checked)

    def note_unsettled(self, key: KeyTuple) -> None:
        self._late_puts.add(self._check_key(key))

    async def _send_put(self, key: KeyTuple, body: bytes) -> None:
        maybe_late = True
        try:
            maybe_late = (await self._client.call("PutItem", body)).maybe_applied
        except _NOT_APPLIED:
            maybe_late = False
            raise
        finally:
            if maybe_late:
                self._late_puts.add(key)

    async def _put_if(self, key: KeyTuple, write: PutItem) -> None:
        maybe_late = True
        try:
            await write()
            maybe_late = write.maybe_applied
        except _NOT_APPLIED:
            maybe_late = write.maybe_applied
            raise
        finally:
            if maybe_late:
                self._late_puts.add(key)

    async def _call(self, operation: str, body: bytes) -> None:
        await self._client.call(operation, body)

    def _key_of(self, item: Item) -> KeyTuple:
        """Return the checked key of an item; its keys of indexes and its expiry are checked too."""
        names, checks = self._key_names, self._key_checks
        key: KeyTuple = (checks[0](item.get(names[0])),)
        if len(names) > 1:
            key = (key[0], checks[1](item.get(names[1])))
        for name, check in self._value_checks.items():
            if name in item:
                check(item[name])
        return key

    def _key_member(self, key: KeyTuple) -> bytes:
        return b'"Key":' + dumps(self._client.encode_key(key))

    def _new_template(
        self,
        condition: Condition | None,
        update: Update | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> WriteTemplate:
        name, checks = self._client.name, self._value_checks
        return WriteTemplate(self.table, name, condition, update, returning, checks=checks)
