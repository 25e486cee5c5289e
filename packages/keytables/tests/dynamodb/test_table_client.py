"""Batches: as large as the database takes, and repeated until nothing is unprocessed."""

import itertools
from typing import Any

import orjson
import pytest

from keytables import Key, Table, Throttled
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.table_client import MAX_BATCH_BYTES, StoreClient, TableClient
from keytables.failures import FailureReports
from keytables.retries import Backoff
from support.clocks import ManualClock
from support.fake_api_client import FakeApiClient

TABLE = Table("things", Key("a"))


IMMEDIATELY = RetryPolicy(backoff=Backoff(0.0, 0.0))
NO_TIME = RetryPolicy(batch_timeout=0.0)


def table(client: FakeApiClient, retries: RetryPolicy = IMMEDIATELY) -> TableClient:
    return TableClient(StoreClient(client, FailureReports(), "x."), TABLE, ManualClock(), retries)


def put(number: int) -> dict[str, Any]:
    return {"PutRequest": {"Item": {"a": {"S": str(number)}}}}


def requests(*numbers: int) -> list[bytes]:
    return table(FakeApiClient()).write_requests([put(number) for number in numbers])


def key(number: int) -> dict[str, Any]:
    return {"a": {"S": str(number)}}


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (25, [25]), (26, [25, 1]), (60, [25, 25, 10])]
)
async def test_writes_are_sent_25_at_a_time(count: int, sizes: list[int]) -> None:
    client = FakeApiClient()
    await table(client).write_all(requests(*range(count)))
    sent = [request["RequestItems"]["x.things"] for _, request in client.calls]
    assert [len(writes) for writes in sent] == sizes
    assert list(itertools.chain(*sent)) == [put(number) for number in range(count)]


def test_a_request_is_limited_in_bytes() -> None:
    writes = [put(number) for number in range(5)]
    for number in (1, 2, 4):
        writes[number]["PutRequest"]["Item"]["x"] = {"S": "x" * (MAX_BATCH_BYTES // 3)}
    found = table(FakeApiClient()).write_requests(writes)
    assert [
        each for request in found for each in orjson.loads(request)["RequestItems"]["x.things"]
    ] == writes
    assert len(found) == 2
    assert all(len(request) <= MAX_BATCH_BYTES for request in found)


async def test_unprocessed_writes_are_sent_again() -> None:
    client = FakeApiClient(
        {"UnprocessedItems": {"x.things": [put(2), put(3)]}},
        {"UnprocessedItems": {"x.things": [put(3)]}},
        {"UnprocessedItems": {}},
    )
    await table(client).write_all(requests(1, 2, 3))
    assert [r["RequestItems"]["x.things"] for _, r in client.calls] == [
        [put(1), put(2), put(3)],
        [put(2), put(3)],
        [put(3)],
    ]


async def test_writes_that_stay_unprocessed_are_throttled() -> None:
    client = FakeApiClient({"UnprocessedItems": {"x.things": [put(1)]}})
    with pytest.raises(Throttled, match="things"):
        await table(client, NO_TIME).write_all(requests(1))


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (100, [100]), (101, [100, 1])])
async def test_keys_are_sent_100_at_a_time(count: int, sizes: list[int]) -> None:
    def respond(request: dict[str, Any]) -> dict[str, Any]:
        return {"Responses": {"x.things": request["RequestItems"]["x.things"]["Keys"]}}

    client = FakeApiClient(respond, respond)
    wanted = [key(number) for number in range(count)]
    assert await table(client).get_all(wanted) == wanted
    sent = [request["RequestItems"]["x.things"] for _, request in client.calls]
    assert [len(one["Keys"]) for one in sent] == sizes
    assert all(one["ConsistentRead"] is True for one in sent)


async def test_unprocessed_keys_are_sent_again() -> None:
    left = {"UnprocessedKeys": {"x.things": {"Keys": [key(2)], "ConsistentRead": True}}}
    client = FakeApiClient(
        {"Responses": {"x.things": [key(1)]}, **left},
        {"Responses": {"x.things": []}, **left},
        {"Responses": {"x.things": [key(2)]}, "UnprocessedKeys": {}},
    )
    assert await table(client).get_all([key(1), key(2)]) == [key(1), key(2)]
    assert [r["RequestItems"]["x.things"]["Keys"] for _, r in client.calls] == [
        [key(1), key(2)],
        [key(2)],
        [key(2)],
    ]


async def test_keys_that_stay_unprocessed_are_throttled() -> None:
    client = FakeApiClient({"UnprocessedKeys": {"x.things": {"Keys": [key(1)]}}})
    with pytest.raises(Throttled):
        await table(client, NO_TIME).get_all([key(1)])


async def test_only_the_named_attributes_are_read() -> None:
    client = FakeApiClient()
    await table(client).get_all([key(1)], ("a", "end"))
    sent = client.calls[0][1]["RequestItems"]["x.things"]
    assert sent["ProjectionExpression"] == "#0, #1"
    assert sent["ExpressionAttributeNames"] == {"#0": "a", "#1": "end"}
