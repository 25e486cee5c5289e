"""What is stored in DynamoDB is what the original's tools read there, checked with plain boto3."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from boto3.dynamodb.conditions import Key

from autopush.store import PushStore, TablePlan
from autopush.store.users import UserRecord
from autopush.webpush.notification import Notification
from keytables import Capacity
from support import dynamo_servers
from support.clocks import ManualClock
from support.table_engines import DynamoStore

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient, DynamoDBServiceResource

UAID = "5f1c2c1b7d6e4f0c9a8b7c6d5e4f3a2b"
CHANNEL = "2b1f6c1e-90ab-4cde-8f01-23456789abcd"
OTHER_CHANNEL = "3c1f6c1e-90ab-4cde-8f01-23456789abcd"
NODE = "http://10.0.0.17:8081"
FIVE = Capacity(5, 5)
PLAN = TablePlan(rotating=True, router_capacity=FIVE, storage_capacity=FIVE, message_capacity=FIVE)
UAID_KEY = {"AttributeName": "uaid", "KeyType": "HASH"}


@pytest.fixture
def clock() -> ManualClock:
    # So late that no database takes anything for expired.
    return ManualClock(datetime(2090, 7, 12, 15, 30, tzinfo=UTC).timestamp())


@pytest.fixture
async def database(clock: ManualClock) -> AsyncIterator[DynamoStore]:
    found = DynamoStore(dynamo_servers.ministack(), clock)
    yield found
    await found.clear()


@pytest.fixture
async def store(database: DynamoStore, clock: ManualClock) -> AsyncIterator[PushStore]:
    opened = await PushStore.open(await database.open(), PLAN, key_hash="", clock=clock)
    yield opened
    await opened.close()


class Reader:
    """Reads and writes tables as any script does."""

    def __init__(self, database: DynamoStore) -> None:
        access = {
            "region_name": "us-east-1",
            "endpoint_url": database.endpoint,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }
        self.client: DynamoDBClient = boto3.client("dynamodb", **access)  # type: ignore[call-overload]
        self.resource: DynamoDBServiceResource = boto3.resource("dynamodb", **access)  # type: ignore[call-overload]
        self.prefix = database.prefix

    def names(self) -> list[str]:
        pages = self.client.get_paginator("list_tables").paginate()
        names = [name for page in pages for name in page["TableNames"]]
        return sorted(n.removeprefix(self.prefix) for n in names if n.startswith(self.prefix))

    def describe(self, table: str) -> Any:
        return self.client.describe_table(TableName=self.prefix + table)["Table"]

    def expiry(self, table: str) -> str | None:
        answer = self.client.describe_time_to_live(TableName=self.prefix + table)
        return answer["TimeToLiveDescription"].get("AttributeName")

    def items(self, table: str) -> list[dict[str, Any]]:
        """As they are sent, types and all, in the order of their keys."""
        found = self.client.scan(TableName=self.prefix + table, ConsistentRead=True)["Items"]
        return sorted(found, key=str)

    def table(self, name: str) -> Any:
        return self.resource.Table(self.prefix + name)


@pytest.fixture
def reader(database: DynamoStore) -> Reader:
    return Reader(database)


async def add_user(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 3803556600123, store.current.name)


def notification(**more: Any) -> Notification:
    return Notification(
        **{
            "uaid": UAID,
            "channel_id": CHANNEL,
            "version": "gAAAAABpIFqQ=",
            "ttl": 60,
            "timestamp": 3803556600,
            "sort_time": 3803556600123456,
            **more,
        }
    )


WITH_PAYLOAD = {"data": "dGVzdA", "headers": {"encoding": "aesgcm", "crypto_key": "dh=BP"}}


# --- tables ----------------------------------------------------------------------------------


async def test_the_tables_have_the_names_of_the_original(store: PushStore, reader: Reader) -> None:
    assert reader.names() == ["message_2090_06", "message_2090_07", "router", "storage"]


@pytest.mark.parametrize(
    ("table", "sort", "expiry"),
    [
        ("router", None, "expiry"),
        ("storage", "chid", None),
        ("message_2090_07", "chidmessageid", "expiry"),
        ("message_2090_06", "chidmessageid", "expiry"),
    ],
)
async def test_the_tables_have_the_keys_of_the_original(
    store: PushStore, reader: Reader, table: str, sort: str | None, expiry: str | None
) -> None:
    found = reader.describe(table)
    keys = [UAID_KEY] + ([{"AttributeName": sort, "KeyType": "RANGE"}] if sort else [])
    assert found["KeySchema"] == keys
    kinds = {key["AttributeName"]: key["AttributeType"] for key in found["AttributeDefinitions"]}
    index = {"last_connect": "N"} if table == "router" else {}
    assert kinds == {key["AttributeName"]: "S" for key in keys} | index
    assert reader.expiry(table) == expiry


async def test_the_router_table_has_the_index_of_the_original(
    store: PushStore, reader: Reader
) -> None:
    [index] = reader.describe("router")["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "AccessIndex"
    assert index["KeySchema"] == [{"AttributeName": "last_connect", "KeyType": "HASH"}]
    assert index["Projection"]["ProjectionType"] == "KEYS_ONLY"


# --- items -----------------------------------------------------------------------------------


async def test_a_router_record_is_that_of_the_original(store: PushStore, reader: Reader) -> None:
    await add_user(store)
    [item] = reader.items("router")
    key = item.pop("last_connect")["N"]
    assert re.fullmatch("20900715(000[1-9]|0010)", key)  # year, month, hour, 1 to 10
    assert item == {
        "uaid": {"S": UAID},
        "router_type": {"S": "webpush"},
        "node_id": {"S": NODE},
        "connected_at": {"N": "3803556600123"},
        "record_version": {"N": "1"},
        "current_month": {"S": "message_2090_07"},
    }


async def test_the_channels_row_is_that_of_the_original(store: PushStore, reader: Reader) -> None:
    await store.current.add_channel(UAID, CHANNEL)
    await store.current.add_channel(UAID, OTHER_CHANNEL)
    [row] = reader.items("message_2090_07")
    assert row.keys() == {"uaid", "chidmessageid", "chids"}
    assert (row["uaid"], row["chidmessageid"]) == ({"S": UAID}, {"S": " "})
    assert set(row["chids"]["SS"]) == {CHANNEL, OTHER_CHANNEL}
    for channel in (CHANNEL, OTHER_CHANNEL):
        assert await store.current.remove_channel(UAID, channel)
    [row] = reader.items("message_2090_07")
    assert "chids" not in row


async def test_a_message_is_that_of_the_original(store: PushStore, reader: Reader) -> None:
    await store.current.store(notification(**WITH_PAYLOAD))
    assert reader.items("message_2090_07") == [
        {
            "uaid": {"S": UAID},
            "chidmessageid": {"S": f"02:3803556600123456:{CHANNEL}"},
            "data": {"S": "dGVzdA"},
            "headers": {"M": {"encoding": {"S": "aesgcm"}, "crypto_key": {"S": "dh=BP"}}},
            "ttl": {"N": "60"},
            "timestamp": {"N": "3803556600"},
            "updateid": {"S": "gAAAAABpIFqQ="},
            "expiry": {"N": "3803556660"},
        }
    ]


async def test_a_message_without_payload_has_neither_data_nor_headers(
    store: PushStore, reader: Reader
) -> None:
    await store.current.store(notification())
    [item] = reader.items("message_2090_07")
    assert item.keys() == {"uaid", "chidmessageid", "ttl", "timestamp", "updateid", "expiry"}


async def test_the_original_s_queries_find_channels_and_topics_then_the_rest(
    store: PushStore, reader: Reader
) -> None:
    await store.current.add_channel(UAID, CHANNEL)
    await store.current.store(notification(topic="news", sort_time=None))
    times = (3803556600123456, 3803556600123457)
    for sort_time in times:
        await store.current.store(notification(sort_time=sort_time))

    def keys(condition: Any) -> list[str]:
        answer = reader.table("message_2090_07").query(
            KeyConditionExpression=Key("uaid").eq(UAID) & condition, ConsistentRead=True
        )
        return [item["chidmessageid"] for item in answer["Items"]]

    sort_key = Key("chidmessageid")
    rows = [f"02:{sort_time}:{CHANNEL}" for sort_time in times]
    assert keys(sort_key.lt("02")) == [" ", f"01:{CHANNEL}:news"]
    assert keys(sort_key.gt("01;")) == rows
    assert keys(sort_key.gt(f"02:{times[0]}:z")) == rows[1:]


async def test_what_the_original_stored_is_read(store: PushStore, reader: Reader) -> None:
    table = "message_2090_06"
    reader.table("router").put_item(
        Item={
            "uaid": UAID,
            "router_type": "webpush",
            "connected_at": 3803556600123,
            "last_connect": 209006150000,
            "record_version": 1,
            "curmonth": table,
        }
    )
    reader.table(table).put_item(Item={"uaid": UAID, "chidmessageid": " ", "chids": {CHANNEL}})
    reader.table(table).put_item(
        Item={
            "uaid": UAID,
            "chidmessageid": f"02:3803556600123456:{CHANNEL}",
            "data": None,
            "headers": None,
            "ttl": 60,
            "timestamp": 3803556600,
            "updateid": "gAAAAABpIFqQ=",
        }
    )
    record = await store.users.get(UAID)
    assert record == UserRecord(
        UAID, "webpush", 3803556600123, None, table, 209006150000, record_version=1
    )
    messages = await store.messages_of(record)
    assert messages is not None
    batch = await messages.read(UAID, None)
    assert batch.channels == frozenset({CHANNEL})
    assert [message.notification for message in batch.messages] == [notification()]
