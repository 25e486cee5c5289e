"""Names and keys of the tables; what their items hold."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.tables import items
from channelstats.tables.directory import Channel, User
from channelstats.tables.items import HASH_KEYS, struct_of, table
from channelstats.tables.message_row import MessageRow
from keytables import Item, SchemaError
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


# Larger numbers are in no table: one way reads them as they are, the other as the nearest float.
INTEGERS = st.integers(-(2**53), 2**53)
ODD = st.none() | st.booleans() | INTEGERS | st.floats() | st.text(max_size=3) | st.just("12")


@pytest.mark.parametrize("kind", [User, Channel, MessageRow])
@given(data=st.data())
def test_a_struct_is_the_same_whichever_way_it_is_read(
    kind: type[msgspec.Struct], data: st.DataObject
) -> None:
    values: Any = {str: st.text(max_size=3), bool: st.booleans(), int: INTEGERS}
    usual = {of.name: values.get(of.type, values[int]) for of in msgspec.structs.fields(kind)}
    odd = {name: of | ODD for name, of in usual.items()} | {"unknown": ODD}
    item = data.draw(st.fixed_dictionaries(usual) | st.fixed_dictionaries({}, optional=odd))
    assert items._is_plain(kind)
    read_one_by_one = kind(**{name: read(item, name) for name, read in items._readers(kind)})
    assert repr(struct_of(kind, item)) == repr(read_one_by_one)


class Kinds(msgspec.Struct):
    name: str
    count: int = 5
    since: int | None = 5
    is_set: bool = True
    others: tuple[str, ...] = ("kept",)


def test_a_struct_is_read_whoever_wrote_its_item() -> None:
    whole: Item = {
        "name": "n",
        "count": 2,
        "since": 3,
        "is_set": True,
        "others": ["not read"],
        "x": 1,
    }
    assert struct_of(Kinds, whole) == Kinds("n", 2, 3, is_set=True)
    assert struct_of(Kinds, {"count": "2", "since": 3.0}) == Kinds("", 2, 3, is_set=False)
    absent = Kinds("", 0, None, is_set=False)
    assert struct_of(Kinds, {}) == absent
    unexpected: Item = {"name": 7, "count": "many", "since": [], "is_set": 1}
    assert struct_of(Kinds, unexpected) == absent
