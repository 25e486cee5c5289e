"""Items are decoded as they were encoded."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keytables import MAX_ITEM_SIZE, Item, ItemTooLarge
from keytables.checks import item_size
from keytables.packing import pack, unpack
from support.soak import examples
from support.table_values import items, texts


@settings(max_examples=examples(30, 1000))
@given(items)
def test_every_item_is_read_as_it_was_written(item: Any) -> None:
    assert strict(unpack(pack(item))) == strict(item)


def strict(value: Any) -> Any:
    """A value that differs where Python finds 1, 1.0 and True, or 0.0 and -0.0 equal."""
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


def test_packing_does_not_change_the_item() -> None:
    item: Item = {"a": set(), "b": {"c": {"x"}}, "n": 1.5}
    pack(item)
    assert item == {"a": set(), "b": {"c": {"x"}}, "n": 1.5}
