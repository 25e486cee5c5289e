"""The writes of one table in DynamoDB; its reads are in `reads`.

The one rule: what can be refused is refused here, before anything is sent.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import Any, Final, cast

from keytables.checks import key_check
from keytables.dynamodb.batches import write_all, write_requests
from keytables.dynamodb.codec import check_sizes, dumps, encode, wire_item
from keytables.dynamodb.order import Order
from keytables.dynamodb.reads import DynamoReads
from keytables.dynamodb.remote import Remote
from keytables.dynamodb.templates import Check, Template
from keytables.dynamodb.writes import JudgedDelete, JudgedPut, JudgedUpdate
from keytables.errors import KeytablesError, SchemaError
from keytables.expressions import Condition, Returning, Update
from keytables.values import MAX_SORT_KEY, Item, KeyTuple, Values

__all__ = ["DynamoTable"]

_MEMO: Final = 1000
"""Templates kept. Declared expressions are few; this bounds those made for each call."""

_INT64: Final = 2**63


class DynamoTable(DynamoReads):
    """A table in DynamoDB. Made by the engine."""

    def __init__(self, remote: Remote, order: Order) -> None:
        super().__init__(remote, order)
        table = self.table
        self._loop = asyncio.get_running_loop()
        # Attributes whose values are not free, besides the table's own key.
        self._watched: dict[str, Check] = {}
        if table.expiry is not None:
            self._watched[table.expiry] = _expiry_check(table.expiry)
        for key in table.key_attributes:
            if key.name not in self._names:
                self._watched[key.name] = key_check(key, MAX_SORT_KEY)
        self._templates: dict[tuple[Condition | Update | Returning | None, ...], Template] = {}

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        try:
            key = self._key_of(item)
            if condition is None:
                body = dumps({"TableName": self._remote.name, "Item": wire_item(item)})
                check_sizes(body, (item,))
                plain = partial(self._plain, "PutItem", body)
                return self._order.submit((key,), len(body), plain)
            template = self._template(condition)
            judged = JudgedPut(
                self._remote,
                template.bind(values),
                self._key_member(key),
                item=encode(item),
                stated=True,
                on_nothing=template.on_nothing,
            )
            return cast("Awaitable[None]", self._order.submit((key,), judged.size, judged))
        except KeytablesError as error:
            return self._refused(error)

    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        try:
            checked = self._key(key)
            template = self._template(condition, update, returning)
            write = JudgedUpdate(
                self._remote,
                template.bind(values),
                self._key_member(checked),
                stated=condition is not None,
                on_nothing=template.on_nothing,
                returning=returning,
            )
            write.creates = update.creates
            return self._order.submit((checked,), write.size, write)
        except KeytablesError as error:
            return self._refused(error)

    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        try:
            checked = self._key(key)
            if returning is Returning.NEW:
                raise SchemaError("a delete can return nothing or the old item")
            if condition is None and returning is Returning.NOTHING:
                body = dumps({"TableName": self._remote.name, "Key": self._remote.key(checked)})
                plain = partial(self._plain, "DeleteItem", body)
                return self._order.submit((checked,), len(body), plain)
            template = self._template(condition, None, returning)
            judged = JudgedDelete(
                self._remote,
                template.bind(values),
                self._key_member(checked),
                stated=condition is not None,
                on_nothing=template.on_nothing,
                returning=returning,
            )
            return self._order.submit((checked,), judged.size, judged)
        except KeytablesError as error:
            return self._refused(error)

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        remote, items = self._remote, list(puts)
        try:
            keys = {self._key_of(item) for item in items}
            gone = dict.fromkeys(map(self._key, deletes))
            if len(keys) < len(items) or not keys.isdisjoint(gone):
                raise SchemaError("a batch puts a key twice, or puts and deletes it")
            writes: list[object] = [{"PutRequest": {"Item": wire_item(item)}} for item in items]
            writes += ({"DeleteRequest": {"Key": remote.key(key)}} for key in gone)
            requests = write_requests(remote.name, writes)
            check_sizes(max(requests, key=len, default=b""), items)
            work = partial(write_all, remote, requests)
            return self._order.submit((*keys, *gone), sum(map(len, requests)), work)
        except KeytablesError as error:
            return self._refused(error)

    async def _plain(self, operation: str, body: bytes) -> None:
        """Do a write that looks at nothing."""
        await self._remote.call(operation, body)

    def _refused(self, error: KeytablesError) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        future.set_exception(error)
        return future

    def _key_of(self, item: Item) -> KeyTuple:
        """Return the key of an item whose attributes fit what the table knows of them."""
        names, checks = self._names, self._checks
        key: KeyTuple = (checks[0](item.get(names[0])),)
        if len(names) > 1:
            key = (key[0], checks[1](item.get(names[1])))
        for name, check in self._watched.items():
            if name in item:
                check(item[name])
        return key

    def _template(
        self,
        condition: Condition | None,
        update: Update | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Template:
        which = (condition, update, returning)
        found = self._templates.get(which)
        if found is None:
            if len(self._templates) >= _MEMO:
                self._templates.clear()
            found = self._templates[which] = Template(
                self.table,
                self._remote.name,
                condition,
                update,
                returning,
                checks=self._watched,
            )
        return found


def _expiry_check(name: str) -> Check:
    def check(value: object) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"expiry {name!r}: expected a number, got {type(value).__name__}")
        if value >= _INT64:
            raise SchemaError(f"expiry {name!r} is out of range")

    return check
