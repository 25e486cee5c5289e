"""The reads of one table in DynamoDB.

The one rule: a read of the table is strongly consistent, and waits for the writes of this process
to what it reads. (Indexes know only eventual consistency.)
"""

from collections.abc import Iterable
from typing import Final

from keytables.checks import KeyCheck, index_checks, key_checks
from keytables.dynamodb.batches import get_all
from keytables.dynamodb.codec import Wire, dumps, item_of
from keytables.dynamodb.order import Order
from keytables.dynamodb.pages import check_limit, read_page
from keytables.dynamodb.ranges import EVERYTHING, KeyRange, key_range
from keytables.dynamodb.remote import Remote, key_wire
from keytables.dynamodb.templates import head
from keytables.engine import TableHandle
from keytables.errors import SchemaError
from keytables.schema import Cursor, Index, Key, Kind, Page, Range
from keytables.values import Item, KeyTuple, Scalar

__all__ = ["DynamoReads"]

_PARTITION: Final = ":p"
_BOUNDS: Final = (":a", ":b")


class DynamoReads(TableHandle):
    """The reading half of a table in DynamoDB."""

    def __init__(self, remote: Remote, order: Order) -> None:
        self.table = remote.table
        self._remote, self._order = remote, order
        self._names = self.table.key_names
        self._checks = key_checks(self.table)
        self._heads: dict[tuple[str | None, str, bool], bytes] = {}

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._key(key)
        await self._order.settled(checked)
        remote = self._remote
        now = remote.clock()
        sent = await remote.get(self._key_member(checked))
        item = None if sent is None else item_of(sent)
        return item if item is not None and remote.alive(item, now) else None

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        wanted = list({self._key(key): None for key in keys})
        for key in wanted:
            await self._order.settled(key)
        remote = self._remote
        now = remote.clock()
        found = await get_all(remote, [remote.key(key) for key in wanted])
        return [item for item in map(item_of, found) if remote.alive(item, now)]

    async def query(
        self,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        table, checks = self.table, self._checks
        checked = checks[0](partition)
        check_limit(limit)
        span = _span(sort, table.sort, checks[1:])
        start = None
        if after is not None:
            if table.sort is None:
                raise SchemaError(f"table {table.name!r} has one item in a partition")
            start = self._remote.key((checked, *_position(after, checks[1:])))
        if span is None:
            return Page([], None)
        await self._order.partition_settled(checked)
        return await read_page(
            self._remote,
            "Query",
            self._query(None, table.partition, table.sort, checked, span, descending=descending),
            place=self._names[1:],
            limit=limit,
            start=start,
            without=span.without,
        )

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
        index = self.table.index(index_name)
        checks = index_checks(index)
        checked = checks[0](partition)
        check_limit(limit)
        span = _span(sort, index.sort, checks[1:])
        place = _place(index, self._names)
        start = None
        if after is not None:
            every: dict[str, KeyCheck] = dict(zip(self._names, self._checks, strict=True))
            if index.sort is not None:
                every[index.sort.name] = checks[1]
            position = _position(after, tuple(every[name] for name in place))
            keys = {index.partition.name: checked, **dict(zip(place, position, strict=True))}
            start = {name: key_wire(value) for name, value in keys.items()}
        if span is None:
            return Page([], None)
        await self._order.all_settled()
        return await read_page(
            self._remote,
            "Query",
            self._query(
                index_name, index.partition, index.sort, checked, span, descending=descending
            ),
            place=place,
            limit=limit,
            start=start,
            without=span.without,
            keys_only=index.keys_only,
        )

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        check_limit(limit)
        start = None
        if after is not None:
            start = self._remote.key(_position(after, self._checks))
        await self._order.all_settled()
        request = head(self._remote.name, ConsistentRead=True)
        return await read_page(
            self._remote, "Scan", request, place=self._names, limit=limit, start=start
        )

    def _key(self, key: KeyTuple) -> KeyTuple:
        checks = self._checks
        if len(key) != len(checks):
            raise SchemaError(
                f"table {self.table.name!r}: expected a key of {len(checks)}, got {len(key)} values"
            )
        if len(checks) == 1:
            return (checks[0](key[0]),)
        return (checks[0](key[0]), checks[1](key[1]))

    def _key_member(self, key: KeyTuple) -> bytes:
        return b'"Key":' + dumps(self._remote.key(key))

    def _query(
        self,
        index: str | None,
        partition: Key,
        sort: Key | None,
        value: Scalar,
        span: KeyRange,
        *,
        descending: bool,
    ) -> bytes:
        """Return the request: JSON without its last brace."""
        begin = self._heads.get((index, span.text, descending))
        if begin is None:
            names = {"#p": partition.name}
            text = f"#p = {_PARTITION}"
            if span.text and sort is not None:
                names["#s"] = sort.name
                text += f" AND {span.text.format('#s')}"
            options: dict[str, object] = {"ConsistentRead": True}
            if index is not None:
                options = {"IndexName": index}
            begin = self._heads[index, span.text, descending] = head(
                self._remote.name,
                KeyConditionExpression=text,
                ExpressionAttributeNames=names,
                ScanIndexForward=not descending,
                **options,
            )
        values: dict[str, Wire] = {_PARTITION: key_wire(value)}
        if sort is not None:
            for placeholder, bound in zip(_BOUNDS, span.values, strict=False):
                values[placeholder] = key_wire(bound)
        return b'%b,"ExpressionAttributeValues":%b' % (begin, dumps(values))


def _span(sort: Range | None, key: Key | None, checks: tuple[KeyCheck, ...]) -> KeyRange | None:
    """Return a range in DynamoDB's words, ``None`` if no key is in it."""
    if sort is None:
        return EVERYTHING
    if key is None:
        raise SchemaError("a range needs a sort key")
    if sort.prefix is not None and key.kind is Kind.NUMBER:
        raise SchemaError(f"key {key.name!r}: a number has no prefix")
    return key_range(sort, checks[0])


def _place(index: Index, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the attributes that tell a place in an index, within one partition of it."""
    first = () if index.sort is None else (index.sort.name,)
    return tuple(dict.fromkeys((*first, *names)))


def _position(after: Cursor, checks: tuple[KeyCheck, ...]) -> KeyTuple:
    if len(after.position) != len(checks):
        raise SchemaError("the cursor belongs to another query")
    return tuple(check(value) for check, value in zip(checks, after.position, strict=True))
