"""Names and keys of the tables."""

import pytest

from channelstats.tables.items import HASH_KEYS, table
from keytables import SchemaError
from support.channelstats.house import House


async def test_tables_are_called_by_prefix_and_name(empty: House) -> None:
    assert await empty.engine.table_names() == sorted(f"channelstats.{name}" for name in HASH_KEYS)


def test_messages_are_found_by_day_channel_and_author_in_the_order_of_time() -> None:
    indexes = {index.name: index for index in table("x", "Message").indexes}
    assert {name: index.partition.name for name, index in indexes.items()} == {
        "Date": "date",
        "Slack_cid": "slack_cid",
        "User_id": "slack_uid",
    }
    assert all(index.sort is not None and index.sort.name == "ts" for index in indexes.values())


def test_no_table_has_a_sort_key() -> None:
    assert all(table("x", name).sort is None for name in HASH_KEYS)


def test_an_unfit_prefix_is_refused() -> None:
    with pytest.raises(SchemaError):
        table("a b", "User")
