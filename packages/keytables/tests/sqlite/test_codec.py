"""What is unpacked equals what was packed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables import MAX_ITEM_SIZE, Item, ItemTooLarge
from keytables.checks import item_size
from keytables.sqlite.codec import pack, unpack
from support.table_values import items, texts


@given(items)
def test_every_item_comes_back(item: Any) -> None:
    assert strict(unpack(pack(item))) == strict(item)


def strict(value: Any) -> Any:
    """Tell apart what Python calls equal: 1, 1.0, True; 0.0, -0.0."""
    if isinstance(value, dict):
        return {key: strict(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [strict(inner) for inner in value]
    if isinstance(value, frozenset):
        return value
    return repr(value)


@given(st.sets(texts, min_size=1))
def test_equal_items_have_equal_blobs(members: set[str]) -> None:
    backwards = frozenset(sorted(members, reverse=True))
    assert pack({"s": frozenset(members)}) == pack({"s": backwards})


def test_the_limit_holds_where_a_blob_is_smaller_than_its_item() -> None:
    # An empty list in a list is one byte of the blob and counts as four.
    lists: Item = {"a": [[] for _ in range(MAX_ITEM_SIZE // 4)]}
    assert item_size(lists) > MAX_ITEM_SIZE
    with pytest.raises(ItemTooLarge):
        pack(lists)


def test_packing_leaves_the_item_alone() -> None:
    item: Item = {"a": set(), "b": {"c": {"x"}}, "n": 1.5}
    pack(item)
    assert item == {"a": set(), "b": {"c": {"x"}}, "n": 1.5}
