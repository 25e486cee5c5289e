"""Names and keys of the tables; what their items hold."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.tables import items
from channelstats.tables.directory import Channel, User
from channelstats.tables.items import HASH_KEYS, LIMIT, TextStore, pieces, struct_of, table
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


@pytest.fixture
async def small(empty: House) -> TextStore:
    """A store of rows of 4 bytes."""
    return TextStore(await empty.table("BulkStore"), limit=4)


@given(st.text(), st.integers(4, 12))
def test_pieces_are_within_the_limit_and_cut_between_characters(text: str, limit: int) -> None:
    cut = pieces(text, limit)
    assert "".join(cut) == text
    assert all(1 <= len(piece.encode()) <= limit for piece in cut)
    for piece, following in pairwise(cut):  # as few as possible
        assert len(piece.encode()) + len(following[0].encode()) > limit


@pytest.mark.parametrize(
    ("length", "sizes"),
    [
        (300_000, [300_000]),
        (300_001, [300_000, 1]),
        (750_000, [300_000, 300_000, 150_000]),
    ],
)
def test_pieces_are_of_300000_bytes(length: int, sizes: list[int]) -> None:
    assert [len(piece) for piece in pieces("x" * length)] == sizes


async def test_a_text_up_to_the_limit_is_one_row(empty: House) -> None:
    await empty.tables.reports.put("2024-03-10-7", "x" * LIMIT)
    rows = await empty.items("ReportStore")
    assert rows == {"2024-03-10-7": {"report_id": "2024-03-10-7", "value": "x" * LIMIT}}


async def test_a_longer_text_is_a_parent_without_value_and_its_pieces(empty: House) -> None:
    store = TextStore(await empty.table("BulkStore"), limit=3)
    await store.put("k", "reports")
    expected: list[Item] = [
        {"item_id": "k", "0": "k-0", "1": "k-1", "2": "k-2"},
        {"item_id": "k-0", "value": "rep"},
        {"item_id": "k-1", "value": "ort"},
        {"item_id": "k-2", "value": "s"},
    ]
    assert await empty.items("BulkStore") == {str(row["item_id"]): row for row in expected}
    assert await store.get("k") == "reports"


async def test_the_tenth_piece_follows_the_ninth(small: TextStore) -> None:
    text = "".join(f"{number:04d}" for number in range(25))
    await small.put("k", text)
    assert await small.get("k") == text


async def test_an_overwritten_text_leaves_no_piece_behind(small: TextStore, empty: House) -> None:
    for text in ("0123456789abcdef", "012345", "", "01234567", "x"):
        await small.put("k", text)
        assert await small.get("k") == text
        assert len(await empty.items("BulkStore")) == 1 + (
            len(pieces(text, 4)) if len(text) > 4 else 0
        )


async def test_pieces_that_a_crash_left_are_swept_by_the_next_write(
    small: TextStore, empty: House
) -> None:
    table = await empty.table("BulkStore")
    for number in range(3):  # written, and then the parent was not
        await table.put({"item_id": f"k-{number}", "value": "left"})
    assert await small.get("k") is None
    await small.put("k", "01234567")
    assert sorted(await empty.items("BulkStore")) == ["k", "k-0", "k-1"]
    assert await small.get("k") == "01234567"


async def test_a_text_with_a_missing_piece_is_absent(small: TextStore, empty: House) -> None:
    await small.put("k", "01234567")
    await (await empty.table("BulkStore")).delete(("k-1",))
    assert await small.get("k") is None


async def test_a_deleted_text_is_gone_with_its_pieces(small: TextStore, empty: House) -> None:
    await small.put("k", "0123456789")
    await small.put("other", "0123456789")
    await small.delete("k")
    assert await small.get("k") is None
    assert await small.get("other") == "0123456789"
    assert not any(name.startswith("k") for name in await empty.items("BulkStore"))
