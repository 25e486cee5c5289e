"""The measured process of `dynamodb`: what a store operation costs a client, for ours and
aiobotocore alternately.

Both do the same against the same server, and only this process's CPU time counts. A store
operation takes and returns Python values; for aiobotocore boto3 converts them to attributes and
back.

    python -m bench.dynamodb_costs URL ROUNDS OPERATIONS
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import cycle
from typing import Any

import uvloop
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from autopush.store.users import IS_NEWEST
from bench.dynamodb_server import (
    BODY,
    MESSAGES,
    PAGE,
    ROUTER,
    USER,
    sort_key,
)
from keytables import Item, Range, Returning, TableHandle, Update, Values
from keytables.stores import open_engine

LANES = 16
"""Operations under way at a time."""
BATCH = 25
REGION = "us-east-1"

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize

Operation = Callable[[], Awaitable[object]]


def ours(users: TableHandle, messages: TableHandle) -> dict[str, Operation]:
    batches = [[_plain(lane * BATCH + number) for number in range(BATCH)] for lane in range(LANES)]
    keys = [[(USER, sort_key(lane * BATCH + n)) for n in range(BATCH)] for lane in range(LANES)]
    values: Values = {
        "node_id": "http://10.0.0.18:8081",
        "connected_at": 1795000000456,
        "router_type": "webpush",
    }
    connect = Update(set=tuple(values))
    after = Range(gt=sort_key(0))
    lane = cycle(range(LANES))  # writes of one item wait for each other
    return {
        "get": lambda: users.get((USER,)),
        "put": lambda: messages.put(batches[next(lane)][0]),
        "conditional update": lambda: users.update(
            (f"{USER}{next(lane)}",),
            connect,
            values,
            condition=IS_NEWEST,
            returning=Returning.OLD,
        ),
        "delete": lambda: messages.delete((USER, sort_key(next(lane)))),
        "query of 10": lambda: messages.query(USER, sort=after, limit=PAGE),
        "batch put of 25": lambda: messages.batch_write(puts=batches[next(lane)]),
        "batch delete of 25": lambda: messages.batch_write(deletes=keys[next(lane)]),
    }


def _plain(number: int) -> Item:
    return {
        "uaid": USER,
        "chidmessageid": sort_key(number),
        "ttl": 86400,
        "timestamp": 1795000000,
        "updateid": "gAAAAABpIFqQ" + "x" * 188,
        "expiry": 4102444800,
        "data": "d" * BODY,
        "headers": {"encoding": "aes128gcm"},
    }


def theirs(client: Any) -> dict[str, Operation]:
    items = [_plain(number) for number in range(BATCH)]
    keys: list[Item] = [{name: item[name] for name in MESSAGES.key_names} for item in items]
    user: Item = {"uaid": USER}

    async def get() -> Item:
        answer = await client.get_item(
            TableName=ROUTER.name, Key=_to_wire(user), ConsistentRead=True
        )
        return _from_wire(answer["Item"])

    async def conditional_update() -> Item:
        answer = await client.update_item(
            TableName=ROUTER.name,
            Key=_to_wire(user),
            UpdateExpression="SET node_id = :n, connected_at = :c, router_type = :r",
            ConditionExpression="(attribute_not_exists(router_type) OR router_type = :r) AND "
            "(attribute_not_exists(node_id) OR connected_at < :c)",
            ExpressionAttributeValues=_to_wire(
                {":n": "http://10.0.0.18:8081", ":c": 1795000000456, ":r": "webpush"}
            ),
            ReturnValues="ALL_OLD",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
        return _from_wire(answer["Attributes"])

    async def query() -> list[Item]:
        answer = await client.query(
            TableName=MESSAGES.name,
            KeyConditionExpression="uaid = :u AND chidmessageid > :c",
            ExpressionAttributeValues=_to_wire({":u": USER, ":c": sort_key(0)}),
            ConsistentRead=True,
            Limit=PAGE,
        )
        return [_from_wire(item) for item in answer["Items"]]

    def batch(kind: str, member: str, parts: list[Item]) -> Awaitable[object]:
        requests = [{kind: {member: _to_wire(part)}} for part in parts]
        found: Awaitable[object] = client.batch_write_item(RequestItems={MESSAGES.name: requests})
        return found

    return {
        "get": get,
        "put": lambda: client.put_item(TableName=MESSAGES.name, Item=_to_wire(items[0])),
        "conditional update": conditional_update,
        "delete": lambda: client.delete_item(TableName=MESSAGES.name, Key=_to_wire(keys[0])),
        "query of 10": query,
        "batch put of 25": lambda: batch("PutRequest", "Item", items),
        "batch delete of 25": lambda: batch("DeleteRequest", "Key", keys),
    }


def _to_wire(item: Item) -> dict[str, Any]:
    return {name: _serialize(value) for name, value in item.items()}


def _from_wire(item: Any) -> Item:
    return {name: _deserialize(value) for name, value in item.items()}


async def cost(operation: Operation, count: int) -> float:
    """CPU nanoseconds of one operation."""

    async def lane() -> None:
        for _ in range(count // LANES):
            await operation()

    gc.collect()
    before = time.process_time_ns()
    await asyncio.gather(*(lane() for _ in range(LANES)))
    return (time.process_time_ns() - before) / (count // LANES * LANES)


async def measure(url: str, rounds: int, count: int) -> dict[str, dict[str, list[float]]]:
    engine = await open_engine(
        f"dynamodb://{REGION}?endpoint={url}&connections={LANES}", clock=time.time
    )
    config = AioConfig(max_pool_connections=LANES)
    async with get_session().create_client(
        "dynamodb", region_name=REGION, endpoint_url=url, config=config
    ) as client:
        clients = {
            "ours": ours(await engine.ensure_table(ROUTER), await engine.ensure_table(MESSAGES)),
            "aiobotocore": theirs(client),
        }
        costs: dict[str, dict[str, list[float]]] = {
            who: {what: [] for what in operations} for who, operations in clients.items()
        }
        for warm in (False, *[True] * rounds):
            for what in clients["ours"]:
                for who, operations in clients.items():
                    found = await cost(operations[what], count)
                    if warm:
                        costs[who][what].append(found)
    await engine.close()
    return costs


if __name__ == "__main__":
    _url, _rounds, _count = sys.argv[1:]
    print(json.dumps(uvloop.run(measure(_url, int(_rounds), int(_count)))))
