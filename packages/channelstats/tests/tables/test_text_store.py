"""Long texts in bounded rows: whole or absent, and nothing left behind."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.tables.text_store import LIMIT, TextStore, pieces
from keytables import Item
from support.channelstats.house import House


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
