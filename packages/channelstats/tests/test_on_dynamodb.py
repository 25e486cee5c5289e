"""The tables in DynamoDB: what plain boto3 finds there."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from channelstats.tables import Tables
from channelstats.tables.items import HASH_KEYS
from support import dynamo_servers
from support.channelstats.house import EXAMPLE, NOW, UTC, House
from support.clocks import ManualClock
from support.table_engines import DynamoStore

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


def of_types(**names: str) -> dict[str, str]:
    """Types of DynamoDB by the columns that have them."""
    return {name: kind for kind, columns in names.items() for name in columns.split()}


COLUMNS = {
    "Channel": of_types(
        S="channel_key friendly_name slack_cid",
        N="members created",
        BOOL="is_channel is_im is_group is_mpim is_archived is_private",
    ),
    "ChannelConfiguration": of_types(S="slack_cid", N="last_message_timestamp"),
    "FirstPost": of_types(S="slack_uid slack_cid message_id", N="ts"),
    "Message": of_types(
        S="cid_ts date ts slack_cid slack_uid mentions reactions thread_ts parent_user_id replies"
        " subtype files source",
        N="word_count reaction_count reply_count fetched_at signs",
        BOOL="is_threadhead is_threaded is_bot",
    ),
    "User": of_types(
        S="slack_uid user_name tz real_name display_name",
        N="tz_offset insert_timestamp",
        BOOL="deleted admin",
    ),
    "UserHash": of_types(S="user_key uids"),
    "ChannelMembersLog": of_types(S="slack_cid"),
}
"""The columns of the data model, and those of the original beside them, by their types."""

HEAD = {
    "cid_ts": {"S": "CGEN_1709573400.000300"},
    "date": {"S": "2024-03-04"},
    "ts": {"S": "1709573400.000300"},
    "slack_cid": {"S": "CGEN"},
    "slack_uid": {"S": "UALICE"},
    "word_count": {"N": "8"},
    "reaction_count": {"N": "3"},
    "reactions": {"S": "wave:UBOB:UCARA,+1::skin-tone-2:UBOB"},
    "thread_ts": {"S": "1709573400.000300"},
    "parent_user_id": {"S": "UALICE"},
    "replies": {"S": "UBOB:1709575500.000400,UCARA:1709755200.000600,UBOB:1710061200.000800"},
    "reply_count": {"N": "3"},
    "is_threadhead": {"BOOL": True},
    "is_threaded": {"BOOL": True},
}


@pytest.fixture
async def database() -> AsyncIterator[DynamoStore]:
    found = DynamoStore(dynamo_servers.ministack(), ManualClock(NOW))
    yield found
    await found.clear()


@pytest.fixture
async def imported(database: DynamoStore) -> AsyncIterator[House]:
    engine = await database.open()
    house = House(engine, await Tables.open(engine, "channelstats", UTC))
    await house.take_in(EXAMPLE)
    yield house
    await engine.close()


class Reader:
    """Reads as any script does."""

    def __init__(self, database: DynamoStore) -> None:
        self.client: DynamoDBClient = boto3.client(
            "dynamodb",
            region_name="us-east-1",
            endpoint_url=database.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        self.prefix = f"{database.prefix}channelstats."

    def items(self, table: str) -> list[dict[str, Any]]:
        return list(self.client.scan(TableName=self.prefix + table)["Items"])

    def item(self, table: str, key: str) -> Any:
        found = self.client.get_item(
            TableName=self.prefix + table, Key={HASH_KEYS[table]: {"S": key}}
        )
        return found.get("Item")


@pytest.mark.parametrize("table", COLUMNS)
async def test_every_column_has_its_name_and_type(
    imported: House, database: DynamoStore, table: str
) -> None:
    found = Reader(database).items(table)
    assert found
    for item in found:
        for name, value in item.items():
            known = "N" if name.startswith("ts_") else COLUMNS[table][name]
            assert list(value) == [known], name


async def test_a_message_is_stored_as_the_data_model_says(
    imported: House, database: DynamoStore
) -> None:
    found = Reader(database).item("Message", "CGEN_1709573400.000300")
    assert {name: found[name] for name in HEAD} == HEAD
    assert set(found) - set(HEAD) == {"fetched_at", "source"}


async def test_tables_have_one_key_and_messages_their_indexes(
    imported: House, database: DynamoStore
) -> None:
    reader = Reader(database)
    for table, key in HASH_KEYS.items():
        about = reader.client.describe_table(TableName=reader.prefix + table)["Table"]
        assert about["KeySchema"] == [{"AttributeName": key, "KeyType": "HASH"}]
        indexes = {
            index["IndexName"]: [part["AttributeName"] for part in index["KeySchema"]]
            for index in about.get("GlobalSecondaryIndexes", ())
        }
        expected = {
            "Date": ["date", "ts"],
            "Slack_cid": ["slack_cid", "ts"],
            "User_id": ["slack_uid", "ts"],
        }
        assert indexes == (expected if table == "Message" else {})
