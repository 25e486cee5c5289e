"""A DynamoDB server with prepared answers.

It reads no more of a request than which operation on which table is asked for, so that a measured
client never waits for it.
"""

import asyncio
import zlib
from collections import Counter
from typing import cast

import orjson

from autopush.store.tables import message_table, router_table
from keytables import Index, Table

USER = "5f1c2c1b7d6e4f0c9a8b7c6d5e4f3a2b"
CHANNEL = "2b1f6c1e-90ab-4cde-8f01-23456789abcd"
ROUTER = router_table("router")
MESSAGES = message_table("message")
BODY = 4096
"""Characters of a body of 3 KiB in base64url."""
PAGE = 10

WireItem = dict[str, dict[str, object]]


def user_item() -> WireItem:
    return {
        "uaid": {"S": USER},
        "router_type": {"S": "webpush"},
        "node_id": {"S": "http://10.0.0.17:8081"},
        "connected_at": {"N": "1795000000123"},
        "last_connect": {"N": "202611150007"},
        "record_version": {"N": "1"},
        "current_month": {"S": "message"},
    }


def sort_key(number: int) -> str:
    return f"02:17950000001{number:05}:{CHANNEL}"


def message_item(number: int) -> WireItem:
    return {
        "uaid": {"S": USER},
        "chidmessageid": {"S": sort_key(number)},
        "ttl": {"N": "86400"},
        "timestamp": {"N": "1795000000"},
        "updateid": {"S": "gAAAAABpIFqQ" + "x" * 188},
        "expiry": {"N": "4102444800"},
        "data": {"S": "d" * BODY},
        "headers": {"M": {"encoding": {"S": "aes128gcm"}}},
    }


def description(table: Table) -> dict[str, object]:
    def schema(keyed: Table | Index) -> list[dict[str, str]]:
        keys = [{"AttributeName": keyed.partition.name, "KeyType": "HASH"}]
        if keyed.sort is not None:
            keys.append({"AttributeName": keyed.sort.name, "KeyType": "RANGE"})
        return keys

    kinds = {key.name: key.kind.value for key in table.key_attributes}
    return {
        "TableName": table.name,
        "TableStatus": "ACTIVE",
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "KeySchema": schema(table),
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index.name,
                "IndexStatus": "ACTIVE",
                "KeySchema": schema(index),
                "Projection": {"ProjectionType": "KEYS_ONLY" if index.keys_only else "ALL"},
            }
            for index in table.indexes
        ],
    }


def _answers() -> dict[bytes, object]:
    items = [message_item(number) for number in range(PAGE)]
    tables = {f"DescribeTable {t.name}".encode(): {"Table": description(t)} for t in TABLES}
    expiry = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expiry"}
    return {
        **tables,
        b"DescribeTimeToLive": {"TimeToLiveDescription": expiry},
        b"GetItem": {"Item": user_item()},
        b"PutItem": {},
        b"UpdateItem": {"Attributes": user_item()},
        b"DeleteItem": {},
        b"Query": {"Items": items, "Count": PAGE, "ScannedCount": PAGE},
        b"BatchWriteItem": {"UnprocessedItems": {}},
    }


TABLES = (ROUTER, MESSAGES)


def _rendered(content: object) -> bytes:
    body = orjson.dumps(content)
    head = (
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Sun, 15 Nov 2026 12:00:00 GMT\r\n"
        "Content-Type: application/x-amz-json-1.0\r\nConnection: keep-alive\r\n"
        "x-amzn-RequestId: TQVJ5EJG3PBBNKPGV7SB0AK4TNVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class CannedServer:
    """Listens on `port` of this machine. `calls` counts what was asked, by operation."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.port = 0
        self.answers = {asked: _rendered(content) for asked, content in _answers().items()}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()


class _Connection(asyncio.Protocol):
    def __init__(self, server: CannedServer) -> None:
        self._server = server
        self._received = bytearray()
        self._missing = 0  # bytes of the request that have not come
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._missing -= len(data)
        while self._missing <= 0 and (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            self._missing = end + 4 + length - len(self._received)
            if self._missing > 0:
                return
            self._answer(bytes(self._received[: end + 4 + length]))
            del self._received[: end + 4 + length]

    def _answer(self, request: bytes) -> None:
        operation = request.partition(b"DynamoDB_20120810.")[2].partition(b"\r\n")[0]
        self._server.calls[operation.decode()] += 1
        answer = self._server.answers.get(operation)
        if answer is None:
            body = request.partition(b"\r\n\r\n")[2]
            table = orjson.loads(body)["TableName"].encode()
            answer = self._server.answers[b"%b %b" % (operation, table)]
        self._transport.write(answer)
