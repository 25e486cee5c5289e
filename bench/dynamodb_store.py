"""A DynamoDB server that holds items and answers a while later, as a database in the same region
does: `python -m bench.dynamodb_store MILLISECONDS` prints its port and ends with its input.

Every condition counts as fulfilled, so it serves load that has no races, and nothing else.
"""

import asyncio
import re
import sys
from collections import Counter, defaultdict
from typing import Any, cast

import orjson

from bench.dynamodb_server import description
from keytables import Index, Key, Kind, Table

_TERMS = re.compile(r"\b(SET|REMOVE|ADD|DELETE) (.*?)(?= (?:SET|REMOVE|ADD|DELETE) |$)")

Item = dict[str, dict[str, Any]]


class Tables:
    """The items by table, partition and sort key; `calls` counts them by operation."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._tables: dict[str, Table] = {}
        self._items: defaultdict[str, defaultdict[str, dict[str, Item]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def answer(self, operation: str, request: dict[str, Any]) -> object:
        """The body of the response."""
        self.calls[operation] += 1
        match operation:
            case "BatchWriteItem":
                for table, writes in request["RequestItems"].items():
                    for write in writes:
                        for kind, what in write.items():
                            if kind == "PutRequest":
                                self._put(table, what["Item"])
                            else:
                                self._drop(table, what["Key"])
                return {"UnprocessedItems": {}}
            case "BatchGetItem":
                [(table, wanted)] = request["RequestItems"].items()
                items = [self._find(table, key) for key in wanted["Keys"]]
                return {"Responses": {table: [item for item in items if item]}}
            case "ListTables":
                return {"TableNames": [*self._tables]}
        name = request["TableName"]
        match operation:
            case "CreateTable":
                self._tables[name] = _table(request)
                return {"TableDescription": description(self._tables[name])}
            case "DescribeTable":
                found = self._tables.get(name)
                return {"Table": description(found)} if found else None
            case "DescribeTimeToLive":
                return {
                    "TimeToLiveDescription": {
                        "TimeToLiveStatus": "ENABLED",
                        "AttributeName": "expiry",
                    }
                }
            case "PutItem":
                self._put(name, request["Item"])
                return {}
            case "GetItem":
                item = self._find(name, request["Key"])
                return {"Item": item} if item else {}
            case "DeleteItem":
                old = self._drop(name, request["Key"])
                return {"Attributes": old} if old and "ReturnValues" in request else {}
            case "UpdateItem":
                return self._update(name, request)
            case "Query":
                return self._query(name, request)
        return {}

    def _key(self, table: str, item: Item) -> tuple[str, str]:
        declared = self._tables[table]
        sort = item[declared.sort.name]["S"] if declared.sort else ""
        return item[declared.partition.name]["S"], sort

    def _find(self, table: str, key: Item) -> Item | None:
        partition, sort = self._key(table, key)
        return self._items[table][partition].get(sort)

    def _put(self, table: str, item: Item) -> None:
        partition, sort = self._key(table, item)
        self._items[table][partition][sort] = item

    def _drop(self, table: str, key: Item) -> Item | None:
        partition, sort = self._key(table, key)
        return self._items[table][partition].pop(sort, None)

    def _update(self, table: str, request: dict[str, Any]) -> object:
        old = self._find(table, request["Key"])
        new = {**(old or request["Key"])}
        names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
        for word, terms in _TERMS.findall(request["UpdateExpression"]):
            for term in terms.split(", "):
                name, *rest = term.replace(" = ", " ").split(" ")
                attribute = names[name]
                if word == "REMOVE":
                    new.pop(attribute, None)
                elif word == "SET":
                    new[attribute] = values[rest[0]]
                else:
                    had = set(new.get(attribute, {}).get("SS", ()))
                    given = set(values[rest[0]]["SS"])
                    new[attribute] = {"SS": [*(had | given if word == "ADD" else had - given)]}
        self._put(table, new)
        returned = {"ALL_OLD": old, "ALL_NEW": new}.get(request.get("ReturnValues", ""))
        return {"Attributes": returned} if returned else {}

    def _query(self, table: str, request: dict[str, Any]) -> object:
        values = request["ExpressionAttributeValues"]
        if "IndexName" in request:  # a command's, or preflight's: they read few users
            items = [row for users in self._items[table].values() for row in users.values()]
            (wanted,) = values.values()
            return {"Items": [item for item in items if wanted in item.values()]}
        partition, *bounds = (value["S"] for value in values.values())
        declared, after = self._tables[table], bounds[0] if bounds else ""
        rows = self._items[table].get(partition, {})
        found = [rows[sort] for sort in sorted(rows) if not after or sort > after]
        limit = request.get("Limit", len(found))
        page: dict[str, object] = {"Items": found[:limit], "Count": len(found[:limit])}
        if len(found) > limit and declared.sort is not None:
            last = found[limit - 1]
            names = (declared.partition.name, declared.sort.name)
            page["LastEvaluatedKey"] = {name: last[name] for name in names}
        return page


def _table(request: dict[str, Any]) -> Table:
    defined = request["AttributeDefinitions"]
    kinds = {each["AttributeName"]: each["AttributeType"] for each in defined}

    def keys(schema: list[dict[str, str]]) -> list[Key]:
        return [Key(each["AttributeName"], Kind(kinds[each["AttributeName"]])) for each in schema]

    indexes = tuple(
        Index(each["IndexName"], keys(each["KeySchema"])[0], keys_only=True)
        for each in request.get("GlobalSecondaryIndexes", ())
    )
    partition, *sort = keys(request["KeySchema"])
    return Table(
        request["TableName"], partition=partition, sort=sort[0] if sort else None, indexes=indexes
    )


class _Connection(asyncio.Protocol):
    def __init__(self, tables: Tables, delay: float) -> None:
        self._tables, self._delay = tables, delay
        self._received = bytearray()
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end])
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._received) < end + 4 + length:
                return
            body = bytes(self._received[end + 4 : end + 4 + length])
            del self._received[: end + 4 + length]
            operation = head.partition(b"DynamoDB_20120810.")[2].partition(b"\r\n")[0]
            answer = self._tables.answer(operation.decode(), orjson.loads(body))
            loop = asyncio.get_running_loop()
            loop.call_later(self._delay, self._transport.write, _rendered(answer))


def _rendered(answer: object) -> bytes:
    status = b"200 OK"
    if answer is None:
        status, answer = b"400 Bad Request", {"__type": "x#ResourceNotFoundException"}
    body = orjson.dumps(answer)
    head = b"HTTP/1.1 %b\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n"
    return head % (status, len(body)) + body


async def serve(milliseconds: float) -> None:
    """Serve until the standard input ends; then print what was called."""
    tables, loop = Tables(), asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(tables, milliseconds / 1000), "127.0.0.1", 0
    )
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    sys.stdout.write(f"{dict(tables.calls)}\n")


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(float(sys.argv[1])))
