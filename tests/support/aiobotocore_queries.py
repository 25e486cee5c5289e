"""Queries of the reference engine: their keys and pages."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from keytables import (
    Cursor,
    Index,
    Item,
    Page,
    Range,
    Scalar,
    SchemaError,
    Table,
)
from keytables.checks import index_checks, key_checks
from support.aiobotocore_expressions import Expressions, decode_item, encode_item


class QueriedKeys:
    """The keys of a table or of one of its indexes, and those of its cursors."""

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
            raise SchemaError("a cursor of another query")
        return {
            "ExclusiveStartKey": encode_item(dict(zip(self._position, after.position, strict=True)))
        }


async def read_page(
    read: Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]],
    only_live: Callable[[list[Item], QueriedKeys], Awaitable[list[Item]]],
    keys: QueriedKeys,
    sort: Range,
    limit: int | None,
    after: Cursor | None,
) -> Page:
    """Read to the end, or up to one item more than the limit, which tells that there is more."""
    if limit is not None and limit < 1:
        raise SchemaError("a limit is at least 1")
    found: list[Item] = []
    start = keys.start(after)
    while True:
        response = await read(start)
        items = await only_live([decode_item(item) for item in response["Items"]], keys)
        found += [item for item in items if keys.within(item, sort)]
        if limit is not None and len(found) > limit:
            return Page(found[:limit], keys.cursor(found[limit - 1]))
        if not response.get("LastEvaluatedKey"):
            return Page(found, None)
        start = {"ExclusiveStartKey": response["LastEvaluatedKey"]}
