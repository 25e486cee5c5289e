"""Queries and scans: their requests, and one page from as many responses as it takes.

Rule: ``limit`` counts the items that the caller gets, not those that were read. DynamoDB takes at
most one comparison of the sort key: a bound that it includes and the range excludes is filtered
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from keytables.bounds import sort_bounds
from keytables.checks import (
    KeyCheck,
    check_position,
    key_checks,
    position_checks,
)
from keytables.dynamodb.codec import AttributeMap, AttributeValue, decode_item, dumps
from keytables.dynamodb.table_client import TableClient, encode_key_value, request_head
from keytables.engine import Query
from keytables.errors import SchemaError
from keytables.schema import Cursor, Index, Key, Page, Range, Table
from keytables.values import Item, Scalar

MAX_REQUESTS: Final = 20
"""Requests for one page at most; it may then be short."""

LARGE_LIMIT: Final = 500
"""Items requested where the first request found too few live ones, or where each is looked up."""

_PARTITION: Final = ":p"
_BOUNDS: Final = (":a", ":b")


# --- ranges of sort keys --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A comparison of the sort key, with ``{0}`` for its name and ``:a``, ``:b`` for ``values``.

    ``excluded``: keys that it includes and that are not in the range.
    """

    text: str = ""
    values: tuple[Scalar, ...] = ()
    excluded: tuple[Scalar, ...] = ()


ALL_KEYS: Final = KeyRange()


def key_range(sort: Range | None, key: Key | None, check: KeyCheck) -> KeyRange | None:
    """Return the comparison of a range of keys that pass ``check``, ``None`` if it has no key.

    Raises SchemaError.
    """
    bounds = sort_bounds(sort, key, check)
    if sort is not None and sort.prefix:
        return KeyRange("begins_with({0}, :a)", (bounds.low,))
    low, high = bounds.low, bounds.high
    # No key is empty, but every key comes after the empty text.
    if high in ("", b""):
        return None
    has_low = bounds.lower and low not in ("", b"")
    if has_low and bounds.upper:
        is_open = bounds.lower == ">" or bounds.upper == "<"
        if _is_less(high, low) or (low == high and is_open):
            return None
        excluded = (low,) * (bounds.lower == ">") + (high,) * (bounds.upper == "<")
        return KeyRange("{0} BETWEEN :a AND :b", (low, high), excluded)
    if has_low:
        return KeyRange(f"{{0}} {bounds.lower} :a", (low,))
    return KeyRange(f"{{0}} {bounds.upper} :a", (high,)) if bounds.upper else ALL_KEYS


def _is_less(left: Scalar, right: Scalar) -> bool:
    # DynamoDB orders text by its UTF-8 bytes: by code points, as Python does.
    return left < right  # type: ignore[operator]


# --- requests -------------------------------------------------------------------------------------


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``head``: the JSON of a request without its closing brace. ``start``: the key to begin after.

    ``position``: the attributes of a cursor; ``excluded``: values of the first that are left out.
    ``lacks_expiry``: the response does not show which items have expired, so they are looked up.
    """

    operation: str
    head: bytes
    position: Sequence[str]
    start: AttributeMap | None = None
    excluded: Sequence[Scalar] = ()
    lacks_expiry: bool = False


class QueryPlan:
    def __init__(self, client: TableClient, index: Index | None = None) -> None:
        table = client.table
        keyed: Table | Index = table if index is None else index
        checks = key_checks(keyed)
        self._table, self._index = table, index
        self._partition, self._sort = keyed.partition, keyed.sort
        self.check_partition, self._checks = checks[0], checks
        self._position = position_checks(table, index)
        options: dict[str, object] = {"ConsistentRead": True}  # which indexes do not know
        if index is not None:
            options = {"IndexName": index.name}
        self._options = {"TableName": client.name, **options}
        self._heads: dict[tuple[str, bool], bytes] = {}

    def request(self, partition: Scalar, query: Query) -> PageRequest | None:
        """Return the request for a checked partition, ``None`` if no key is in the range.

        Raises SchemaError for a bad range, or the cursor of another query.
        """
        keys, after = key_range(query.sort, self._sort, self._checks[-1]), query.after
        start: dict[str, AttributeValue] | None = None
        if after is not None:
            if not self._position:
                raise SchemaError(f"table {self._table.name!r} has one item in a partition")
            values = check_position(after, tuple(self._position.values()))
            start = {self._partition.name: encode_key_value(partition)}
            for name, value in zip(self._position, values, strict=True):
                start[name] = encode_key_value(value)
        if keys is None:
            return None
        index = self._index
        return PageRequest(
            operation="Query",
            head=self._render(partition, keys, descending=query.descending),
            position=tuple(self._position),
            start=start,
            excluded=keys.excluded,
            lacks_expiry=(index is not None and index.keys_only and self._table.expiry is not None),
        )

    def _render(self, partition: Scalar, keys: KeyRange, *, descending: bool) -> bytes:
        head = self._heads.get((keys.text, descending))
        if head is None:
            names = {"#p": self._partition.name}
            text = f"#p = {_PARTITION}"
            if keys.text and self._sort is not None:
                names["#s"] = self._sort.name
                text += f" AND {keys.text.format('#s')}"
            head = self._heads[keys.text, descending] = dumps(
                {
                    **self._options,
                    "KeyConditionExpression": text,
                    "ExpressionAttributeNames": names,
                    "ScanIndexForward": not descending,
                }
            )[:-1]
        values = {_PARTITION: encode_key_value(partition)}
        for placeholder, bound in zip(_BOUNDS, keys.values, strict=False):
            values[placeholder] = encode_key_value(bound)
        return b'%b,"ExpressionAttributeValues":%b' % (head, dumps(values))


def scan_request(client: TableClient, after: Cursor | None) -> PageRequest:
    """Return the request for a scan. Raises SchemaError for the cursor of a query."""
    table, start = client.table, None
    if after is not None:
        start = client.encode_key(check_position(after, key_checks(table)))
    head = request_head(client.name, ConsistentRead=True)
    return PageRequest(operation="Scan", head=head, position=table.key_names, start=start)


# --- pages ----------------------------------------------------------------------------------------


async def read_page(client: TableClient, request: PageRequest, limit: int | None) -> Page:
    """Return the live items that a request finds, at most ``limit``."""
    has_expiry = client.table.expiry is not None
    live_items: list[Item] = []
    start = request.start
    # One more than wanted: it tells whether there is more.
    ask = (LARGE_LIMIT if request.lacks_expiry else None) if limit is None else limit + 1
    for _ in range(MAX_REQUESTS):
        body = request.head
        if ask is not None:
            body += b',"Limit":%d' % ask
        if start is not None:
            body += b',"ExclusiveStartKey":' + dumps(start)
        now = client.clock()
        response = await client.request(request.operation, body + b"}")
        items = [decode_item(item) for item in response.get("Items", ())]
        start = response.get("LastEvaluatedKey")
        if request.excluded:
            sort_key = request.position[0]
            items = [item for item in items if item[sort_key] not in request.excluded]
        if request.lacks_expiry:
            items = await _look_up_live(client, items)
        elif has_expiry:
            items = [item for item in items if client.is_live(item, now)]
        live_items += items
        if limit is None or start is None or len(live_items) > limit:
            break
        ask = max(limit + 1, LARGE_LIMIT)
    last = None if start is None else decode_item(start)
    if limit is not None and len(live_items) > limit:
        live_items = live_items[:limit]
        last = live_items[-1]
    return Page(live_items, None if last is None else Cursor(_key_values(last, request.position)))


async def _look_up_live(client: TableClient, items: list[Item]) -> list[Item]:
    """Return those that are in the table itself and have not expired."""
    names, expiry = client.table.key_names, client.table.expiry
    assert expiry is not None
    keys = [client.encode_key(_key_values(item, names)) for item in items]
    now = client.clock()
    stored = map(decode_item, await client.get_all(keys, (*names, expiry)))
    live = {_key_values(item, names) for item in stored if client.is_live(item, now)}
    return [item for item in items if _key_values(item, names) in live]


def _key_values(item: Item, names: Sequence[str]) -> tuple[Scalar, ...]:
    return tuple(cast(Scalar, item[name]) for name in names)
