"""Blocks: the columns of a date as text, whole or nothing."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelstats.days import Calendar
from channelstats.tables.columns import MESSAGES, frame_of, joined
from channelstats.tables.day_blocks import DayBlocks, file_in, messages_in, text_of
from channelstats.tables.message_row import MessageRow, item_of
from channelstats.tables.text_store import TextStore
from support.channelstats.dated import row
from support.channelstats.house import UTC, House

DAY = "2024-03-09"
SOME: pl.DataFrame = frame_of(
    [item_of(row(hour, words=hour, cid=f"C{hour % 3}"), Calendar(UTC)) for hour in range(12)]
)

texts = st.text(max_size=8)
rows = st.builds(
    MessageRow,
    slack_cid=st.sampled_from(["C1", "C2"]),
    ts=st.integers(0, 999_999).map(lambda part: f"1709985600.{part:06d}"),
    slack_uid=texts,
    word_count=st.integers(0, 2**40),
    reactions=texts,
    thread_ts=st.sampled_from(["", "1709985600.000000", "nonsense"]),
    replies=texts,
    deleted=st.booleans(),
    fetched_at=st.integers(0, 2**33),
)


@settings(max_examples=40)
@given(st.lists(rows, max_size=8))
def test_what_was_put_into_a_block_is_read_from_it(found: list[MessageRow]) -> None:
    messages = frame_of([item_of(one, Calendar(UTC)) for one in found])
    data = file_in(text_of(messages, "m1"), "m1")
    assert data is not None
    again = messages_in([data], MESSAGES.names())
    assert again.schema == MESSAGES
    assert again.equals(messages)


def test_of_many_blocks_some_columns_are_read_in_order() -> None:
    both = [file_in(text_of(SOME.filter(of), "m"), "m") for of in (~pl.col("deleted"), "deleted")]
    again = messages_in([data for data in both if data is not None], ["word_count", "ts"])
    assert again.equals(SOME.select("word_count", "ts"))


def test_a_block_of_another_mark_is_none() -> None:
    block = text_of(SOME, "m1")
    assert file_in(block, "m1") is not None
    assert [file_in(block, mark) for mark in ("", "m", "m12", "m2")] == [None] * 4


@pytest.mark.parametrize("where", [0, 12, 40, 400, -1])
def test_a_damaged_block_is_none(where: int) -> None:
    block = text_of(SOME, "m1")
    place = where % len(block)
    assert file_in(block[:place] + "#" + block[place + 1 :], "m1") is None
    assert file_in(block[:place], "m1") is None
    assert file_in("", "m1") is None


async def test_a_block_is_no_piece_of_another_text_whatever_its_size(empty: House) -> None:
    store = TextStore(await empty.table("BulkStore"), limit=100)
    blocks = DayBlocks(store)
    for day in (DAY, "2024-03"):
        await blocks.put(day, "m", SOME)
    days, messages = await blocks.get({DAY: "m", "2024-03": "m"}, MESSAGES.names())
    assert days == {DAY, "2024-03"}
    assert messages.height == 2 * SOME.height


async def test_pieces_of_two_blocks_are_no_block(empty: House) -> None:
    """One was being replaced while it was read."""
    table = await empty.table("BulkStore")
    blocks = DayBlocks(TextStore(table, limit=100))
    await blocks.put(DAY, "m", SOME)
    old = await empty.items("BulkStore")
    await blocks.put(DAY, "m", SOME.with_columns(word_count=pl.col("word_count") + 1))
    new = await empty.items("BulkStore")
    await table.put(next(old[piece] for piece in old if old[piece] != new[piece]))
    assert (await blocks.get({DAY: "m"}, MESSAGES.names()))[0] == set()


async def test_only_a_block_of_the_present_mark_is_kept(empty: House) -> None:
    blocks = DayBlocks(empty.tables.bulk)
    for mark, left in (("m", 1), ("other", 0), (None, 0)):
        await blocks.put(DAY, "m", SOME)
        await blocks.drop_others(DAY, mark)
        assert len(await empty.items("BulkStore")) == left


def test_of_rows_of_one_key_the_first_is_taken() -> None:
    same_time = SOME.with_columns(slack_cid=pl.lit("COTHER"))
    newer = SOME.head(3).with_columns(word_count=pl.lit(99, pl.Int64))
    assert joined([SOME, same_time, newer, SOME]).equals(pl.concat([SOME, same_time]))
    assert joined([]).schema == MESSAGES
