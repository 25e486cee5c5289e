"""Reads of the reference engine: pages that are followed to their end, or to one item too many."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, cast

from keytables import (
    Cursor,
    Index,
    Item,
    KeyTuple,
    Page,
    Range,
    Scalar,
    SchemaError,
    Table,
    TableHandle,
)
from keytables.checks import index_checks, key_checks
from support.aiobotocore_calls import Calls
from support.aiobotocore_expressions import Expressions, Wire, item_of, wire_item


class Reading:
    """How a table or one of its indexes is read: its keys, and those of a cursor."""

    def __init__(self, table: Table, read: Table | Index) -> None:
        self._partition = read.partition.name
        self._sort = read.sort.name if read.sort is not None else None
        names = [self._partition, *([self._sort] if self._sort else []), *table.key_names]
        self._position = tuple(dict.fromkeys(names))
        self._checks = index_checks(read) if isinstance(read, Index) else key_checks(read)
        self.knows_expiry = not (isinstance(read, Index) and read.keys_only)

    def condition(self, expressions: Expressions, partition: Scalar, sort: Range) -> str | None:
        """The key condition, whose bounds are inclusive; None: nothing can be in the range."""
        partition = self._checks[0](partition)
        same = f"{expressions.name(self._partition)} = {expressions.value(partition)}"
        if self._sort is None:
            if sort != Range():
                raise SchemaError("there is no sort key")
            return same
        if sort.prefix is not None:
            self._bound(sort.prefix)
            if not sort.prefix:
                return same
            name = expressions.name(self._sort)
            return f"{same} AND begins_with({name}, {expressions.value(sort.prefix)})"
        low = self._bound(sort.gt if sort.ge is None else sort.ge)
        high = self._bound(sort.lt if sort.le is None else sort.le)
        low = None if low in ("", b"") else low
        if high in ("", b""):
            return None
        if low is None and high is None:
            return same
        name = expressions.name(self._sort)
        if low is None:
            return f"{same} AND {name} <= {expressions.value(high)}"
        if high is None:
            return f"{same} AND {name} >= {expressions.value(low)}"
        if cast(Any, low) > high:
            return None
        between = f"{name} BETWEEN {expressions.value(low)} AND {expressions.value(high)}"
        return f"{same} AND {between}"

    def _bound(self, value: Scalar | None) -> Scalar | None:
        if value is None:
            return None
        if value in ("", b""):  # comes before every key, and is none
            self._checks[1]("-" if value == "" else b"-")
            return value
        return self._checks[1](value)

    def within(self, item: Item, sort: Range) -> bool:
        """Whether it is inside the bounds that are not inclusive."""
        if self._sort is None:
            return True
        return item[self._sort] not in [bound for bound in (sort.gt, sort.lt) if bound is not None]

    def cursor(self, item: Item) -> Cursor:
        return Cursor(tuple(cast(Scalar, item[name]) for name in self._position))

    def start(self, after: Cursor | None) -> dict[str, Any]:
        if after is None:
            return {}
        if len(after.position) != len(self._position):
            raise SchemaError("a cursor of another table")
        return {
            "ExclusiveStartKey": wire_item(dict(zip(self._position, after.position, strict=True)))
        }


class AiobotocoreReads(TableHandle):
    """The reads of one table."""

    def __init__(self, calls: Calls, table: Table) -> None:
        self.table = table
        self._calls = calls
        self._client = calls.client
        self._name = calls.prefix + table.name
        self._place: dict[str, Any] = {"TableName": self._name}
        self._checks = key_checks(table)

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

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._key(key)

        async def work() -> Item | None:
            answer = await self._client.get_item(
                **self._place, Key=wire_item(checked), ConsistentRead=True
            )
            return self._live(item_of(answer["Item"])) if "Item" in answer else None

        return await self._calls.in_turn(self.table.name, work)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        wanted = [wire_item(key) for key in {tuple(k): self._key(k) for k in keys}.values()]
        return await self._calls.in_turn(self.table.name, lambda: self._batch_get(wanted))

    async def _batch_get(self, keys: list[dict[str, Wire]]) -> list[Item]:
        found: list[Item] = []
        while keys:
            now, keys = keys[:100], keys[100:]
            answer = await self._client.batch_get_item(
                RequestItems={self._name: {"Keys": now, "ConsistentRead": True}}
            )
            found += map(item_of, answer["Responses"].get(self._name, []))
            left = answer["UnprocessedKeys"].get(self._name, {"Keys": []})
            keys += cast(list[dict[str, Wire]], left["Keys"])
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
        reading = Reading(self.table, self.table)
        return await self._range(reading, partition, sort or Range(), limit, after, options)

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
        reading = Reading(self.table, self.table.index(index_name))
        return await self._range(reading, partition, sort or Range(), limit, after, options)

    async def _range(
        self,
        reading: Reading,
        partition: Scalar,
        sort: Range,
        limit: int | None,
        after: Cursor | None,
        options: dict[str, Any],
    ) -> Page:
        expressions = Expressions(None)
        condition = reading.condition(expressions, partition, sort)
        if condition is None:
            return Page([], None)
        options = options | expressions.arguments(KeyConditionExpression=condition)

        async def read(start: dict[str, Any]) -> Any:
            return await self._client.query(**self._place, **options, **start)

        return await self._pages(read, reading, sort, limit, after)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        async def read(start: dict[str, Any]) -> Any:
            return await self._client.scan(**self._place, ConsistentRead=True, **start)

        return await self._pages(read, Reading(self.table, self.table), Range(), limit, after)

    async def _pages(
        self,
        read: Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]],
        reading: Reading,
        sort: Range,
        limit: int | None,
        after: Cursor | None,
    ) -> Page:
        """Everything from there on, or one item more than the limit, which tells of a next page."""
        if limit is not None and limit < 1:
            raise SchemaError("a limit is at least 1")
        first = reading.start(after)

        async def work() -> Page:
            found: list[Item] = []
            start = first
            while True:
                answer = await read(start)
                items = [item_of(wired) for wired in answer["Items"]]
                if not reading.knows_expiry:
                    items = await self._not_expired(items)
                items = [item for item in items if self._live(item)]
                found += [item for item in items if reading.within(item, sort)]
                if limit is not None and len(found) > limit:
                    return Page(found[:limit], reading.cursor(found[limit - 1]))
                if not answer.get("LastEvaluatedKey"):
                    return Page(found, None)
                start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

        return await self._calls.in_turn(self.table.name, work)

    async def _not_expired(self, found: list[Item]) -> list[Item]:
        keys = [self._key_of(item) for item in found]
        live = await self._batch_get([wire_item(key) for key in keys])
        there = [self._key_of(item) for item in live]
        return [item for item, key in zip(found, keys, strict=True) if key in there]
