"""One table of the reference engine: plain calls of aiobotocore."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar, cast

from keytables import (
    Condition,
    ConditionFailed,
    Cursor,
    Item,
    KeytablesError,
    KeyTuple,
    Page,
    Range,
    Returning,
    Scalar,
    SchemaError,
    Table,
    TableHandle,
    Update,
    Values,
)
from keytables.checks import (
    KeyCheck,
    check_names,
    check_size,
    index_checks,
    item_size,
    key_checks,
    snapshot,
)
from support.aiobotocore_calls import Calls, calling
from support.aiobotocore_expressions import (
    INT64,
    AttributeValue,
    Change,
    Expressions,
    decode_item,
    encode_item,
    holds_for_missing_item,
)
from support.aiobotocore_queries import QueriedKeys, read_page

T = TypeVar("T")

_BATCH = 25
_BATCH_BYTES = 900_000


class AiobotocoreTable(TableHandle):
    """One table. Made by the engine."""

    def __init__(self, calls: Calls, table: Table) -> None:
        self.table = table
        self._calls = calls
        self._client = calls.client
        self._name = calls.prefix + table.name
        self._target: dict[str, Any] = {"TableName": self._name}
        self._checks = key_checks(table)
        self._index_checks: dict[str, KeyCheck] = {}
        for index in table.indexes:
            names = [key.name for key in (index.partition, index.sort) if key is not None]
            self._index_checks |= dict(zip(names, index_checks(index), strict=True))

    # --- reads --------------------------------------------------------------------------------

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._key(key)

        async def work() -> Item | None:
            response = await self._client.get_item(
                **self._target, Key=encode_item(checked), ConsistentRead=True
            )
            return self._live(decode_item(response["Item"])) if "Item" in response else None

        return await self._calls.in_order(self.table.name, work)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        wanted = [encode_item(key) for key in {tuple(k): self._key(k) for k in keys}.values()]
        return await self._calls.in_order(self.table.name, lambda: self._batch_get(wanted))

    async def _batch_get(self, keys: list[dict[str, AttributeValue]]) -> list[Item]:
        found: list[Item] = []
        while keys:
            now, keys = keys[:100], keys[100:]
            response = await self._client.batch_get_item(
                RequestItems={self._name: {"Keys": now, "ConsistentRead": True}}
            )
            found += map(decode_item, response["Responses"].get(self._name, []))
            left = response["UnprocessedKeys"].get(self._name, {"Keys": []})
            keys += cast(list[dict[str, AttributeValue]], left["Keys"])
        return [item for item in found if self._live(item)]

    async def query(
        self,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        options = {"ScanIndexForward": not descending, "ConsistentRead": True}
        keys = QueriedKeys(self.table, self.table)
        return await self._range(keys, partition, sort or Range(), limit, after, options)

    async def query_index(
        self,
        index_name: str,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        options = {"ScanIndexForward": not descending, "IndexName": index_name}
        keys = QueriedKeys(self.table, self.table.index(index_name))
        return await self._range(keys, partition, sort or Range(), limit, after, options)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        async def read(start: dict[str, Any]) -> Any:
            return await self._client.scan(**self._target, ConsistentRead=True, **start)

        keys = QueriedKeys(self.table, self.table)
        return await self._calls.in_order(
            self.table.name, lambda: read_page(read, self._only_live, keys, Range(), limit, after)
        )

    async def _range(
        self,
        keys: QueriedKeys,
        partition: Scalar,
        sort: Range,
        limit: int | None,
        after: Cursor | None,
        options: dict[str, Any],
    ) -> Page:
        expressions = Expressions(None)
        condition = keys.condition(expressions, partition, sort)
        if condition is None:
            return Page([], None)
        options = options | expressions.arguments(KeyConditionExpression=condition)

        async def read(start: dict[str, Any]) -> Any:
            return await self._client.query(**self._target, **options, **start)

        return await self._calls.in_order(
            self.table.name, lambda: read_page(read, self._only_live, keys, sort, limit, after)
        )

    async def _only_live(self, items: list[Item], keys: QueriedKeys) -> list[Item]:
        if keys.knows_expiry:
            return [item for item in items if self._live(item)]
        live = await self._batch_get([encode_item(self._key_of(item)) for item in items])
        live_keys = [self._key_of(item) for item in live]
        return [item for item in items if self._key_of(item) in live_keys]

    # --- checks -------------------------------------------------------------------------------

    def _key(self, key: KeyTuple) -> dict[str, Scalar]:
        if len(key) != len(self._checks):
            raise SchemaError(f"a key of table {self.table.name!r} has {len(self._checks)} parts")
        checked = [check(part) for check, part in zip(self._checks, key, strict=True)]
        return dict(zip(self.table.key_names, checked, strict=True))

    def _key_of(self, item: Item) -> dict[str, Scalar]:
        return self._key(cast(KeyTuple, tuple(item.get(name) for name in self.table.key_names)))

    def _live(self, item: Item | None) -> Item | None:
        expiry = item.get(self.table.expiry) if item and self.table.expiry else None
        if isinstance(expiry, int | float) and 0 < expiry <= self._calls.clock():
            return None
        return item

    def _submit(self, check: Callable[[], Callable[[], Coroutine[Any, Any, T]]]) -> Awaitable[T]:
        """Check now, do it in turn; a refusal is answered like any other error."""
        try:
            work = check()
        except KeytablesError as error:
            refusal = error

            async def refuse() -> T:
                raise refusal

            work = refuse
        return self._calls.in_order(self.table.name, work)

    def _checked(self, attributes: Mapping[str, Any]) -> Item:
        """The attributes as they are now, fit to be stored; empty sets left out."""
        check_names(dict(attributes))
        taken = {name: snapshot(value, name) for name, value in attributes.items()}
        taken = {name: value for name, value in taken.items() if value != frozenset()}
        for name in taken.keys() & self._index_checks.keys():
            self._index_checks[name](taken[name])
        expiry = taken.get(self.table.expiry) if self.table.expiry else None
        if expiry is not None and (isinstance(expiry, bool) or not isinstance(expiry, int | float)):
            raise SchemaError("an expiry is a number")
        if isinstance(expiry, int | float) and expiry >= INT64:
            raise SchemaError("an expiry is out of range")
        encode_item(taken)
        return taken

    def _checked_item(self, item: Item) -> Item:
        taken = self._checked(item)
        self._key_of(taken)
        check_size(taken)
        return taken

    def _with_expiry(self, expressions: Expressions, condition: Condition | None) -> str:
        """The condition as it judges an expired item: like none at all."""
        if condition is None:
            return ""
        text = expressions.condition(condition)
        if self.table.expiry is None:
            return text
        expired = expressions.expired(self.table.expiry, self._calls.clock())
        live = f"((NOT {expired}) AND {text})"
        return f"({live} OR {expired})" if holds_for_missing_item(condition) else live

    async def _call_conditionally(self, call: Awaitable[T]) -> T:
        """The response of a conditional write; the item of a refusal is only a live one."""
        try:
            with calling(self.table.name):
                return await call
        except ConditionFailed as failure:
            raise ConditionFailed(self._live(failure.item)) from None

    # --- put and delete -----------------------------------------------------------------------

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        def check() -> Callable[[], Coroutine[Any, Any, None]]:
            taken, given = self._checked_item(item), _taken(values)
            self._with_expiry(Expressions(given), condition)
            return lambda: self._put(taken, condition, given)

        return self._submit(check)

    async def _put(self, item: Item, condition: Condition | None, values: Values) -> None:
        expressions = Expressions(values)
        text = self._with_expiry(expressions, condition)
        await self._call_conditionally(
            self._client.put_item(
                **self._target,
                Item=encode_item(item),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions.arguments(ConditionExpression=text),
            )
        )

    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        def check() -> Callable[[], Coroutine[Any, Any, Item | None]]:
            if returning is Returning.NEW:
                raise SchemaError("a delete can return nothing or the old item")
            checked, given = self._key(key), _taken(values)
            self._with_expiry(Expressions(given), condition)
            return lambda: self._delete(checked, condition, given, returning)

        return self._submit(check)

    async def _delete(
        self,
        key: dict[str, Scalar],
        condition: Condition | None,
        values: Values,
        returning: Returning,
    ) -> Item | None:
        expressions = Expressions(values)
        text = self._with_expiry(expressions, condition)
        response = await self._call_conditionally(
            self._client.delete_item(
                **self._target,
                Key=encode_item(key),
                ReturnValues="ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions.arguments(ConditionExpression=text),
            )
        )
        if returning is Returning.NOTHING or not response.get("Attributes"):
            return None
        return self._live(decode_item(response["Attributes"]))

    # --- update -------------------------------------------------------------------------------

    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        def check() -> Callable[[], Coroutine[Any, Any, Item | None]]:
            checked, change = self._key(key), Change(update, _taken(values))
            self._with_expiry(Expressions(change.values), condition)
            if not change.names.isdisjoint(self.table.key_names):
                raise SchemaError("a key cannot be changed")
            self._checked(change.assigned | change.added)
            return lambda: self._update(checked, change, condition, returning)

        return self._submit(check)

    async def _update(
        self,
        key: dict[str, Scalar],
        change: Change,
        condition: Condition | None,
        returning: Returning,
    ) -> Item | None:
        while True:
            try:
                return await self._update_live(key, change, condition, returning)
            except ConditionFailed as failure:
                if failure.item is not None:
                    raise
                if condition is not None and not holds_for_missing_item(condition):
                    raise
            if not change.creates:
                return None
            # An expired item is in the place: what the update makes of none takes it.
            new = {**key, **change.new_attributes}
            place = Expressions(None)
            expired = place.expired(cast(str, self.table.expiry), self._calls.clock())
            try:
                await self._call_conditionally(
                    self._client.put_item(
                        **self._target,
                        Item=encode_item(new),
                        **place.arguments(ConditionExpression=expired),
                    )
                )
            except ConditionFailed:
                continue  # another process was first
            return new if returning is Returning.NEW else None

    async def _update_live(
        self,
        key: dict[str, Scalar],
        change: Change,
        condition: Condition | None,
        returning: Returning,
    ) -> Item | None:
        expressions = Expressions(change.values)
        terms = [expressions.condition(condition)] if condition is not None else []
        if self.table.expiry is not None:
            expired = expressions.expired(self.table.expiry, self._calls.clock())
            terms.append(f"(NOT {expired})")
        if not change.creates:
            terms.append(f"attribute_exists({expressions.name(self.table.partition.name)})")
        response = await self._call_conditionally(
            self._client.update_item(
                **self._target,
                Key=encode_item(key),
                ReturnValues="ALL_NEW" if returning is Returning.NEW else "ALL_OLD",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions.arguments(
                    UpdateExpression=change.expression(expressions),
                    ConditionExpression=" AND ".join(terms),
                ),
            )
        )
        if returning is Returning.NOTHING or not response.get("Attributes"):
            return None
        return decode_item(response["Attributes"])

    # --- batches ------------------------------------------------------------------------------

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        def check() -> Callable[[], Coroutine[Any, Any, None]]:
            items = [self._checked_item(item) for item in puts]
            new = {tuple(self._key_of(item).values()) for item in items}
            deleted = {tuple(key): self._key(key) for key in deletes}
            if len(new) < len(items) or not new.isdisjoint(deleted):
                raise SchemaError("a batch puts a key twice, or puts and deletes it")
            requests: list[tuple[int, dict[str, Any]]] = [
                *((item_size(item), {"PutRequest": {"Item": encode_item(item)}}) for item in items),
                *((0, {"DeleteRequest": {"Key": encode_item(key)}}) for key in deleted.values()),
            ]
            return lambda: self._batch_write(requests)

        return self._submit(check)

    async def _batch_write(self, requests: list[tuple[int, dict[str, Any]]]) -> None:
        while requests:
            now: list[dict[str, Any]] = []
            left_bytes = _BATCH_BYTES
            while requests and len(now) < _BATCH and (requests[0][0] <= left_bytes or not now):
                size, request = requests.pop(0)
                now.append(request)
                left_bytes -= size
            response = await self._client.batch_write_item(
                RequestItems={self._name: cast(Any, now)}
            )
            left = response["UnprocessedItems"].get(self._name, [])
            requests += [(0, cast(dict[str, Any], request)) for request in left]


def _taken(values: Values | None) -> Values:
    return {name: snapshot(value, name) for name, value in (values or {}).items()}
