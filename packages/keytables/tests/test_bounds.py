"""Ranges of sort keys as bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables import Key, Range
from keytables.bounds import SortBounds, after_prefix, sort_bounds

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud7ff\ue000\U0010ffff"))


@given(texts.filter(bool), texts)
def test_text_starts_with_a_prefix_exactly_when_it_is_within_its_bounds(
    prefix: str, text: str
) -> None:
    for candidate in (text, prefix + text, prefix[:-1] + text):
        end = after_prefix(prefix)
        assert end is None or isinstance(end, str)
        inside = candidate.encode() >= prefix.encode() and (
            end is None or candidate.encode() < end.encode()
        )
        assert inside == candidate.startswith(prefix)


@given(st.binary(min_size=1, max_size=3), st.binary(max_size=3))
def test_bytes_start_with_a_prefix_exactly_when_they_are_within_its_bounds(
    prefix: bytes, data: bytes
) -> None:
    for candidate in (data, prefix + data, prefix[:-1] + data):
        end = after_prefix(prefix)
        assert end is None or isinstance(end, bytes)
        assert (candidate >= prefix and (end is None or candidate < end)) == candidate.startswith(
            prefix
        )


@pytest.mark.parametrize("last", ["\U0010ffff", b"\xff"])
def test_the_last_prefix_has_no_upper_bound(last: str | bytes) -> None:
    assert after_prefix(last * 3) is None


def test_a_cursor_replaces_the_bound_at_which_reading_starts() -> None:
    bounds = sort_bounds(Range(ge="a", lt="m"), Key("a"), str)
    assert bounds.after("c", descending=False) == SortBounds(">", "c", "<", "m")
    assert bounds.after("c", descending=True) == SortBounds(">=", "a", "<", "c")
    assert bounds.without_start(descending=False) == SortBounds("", 0, "<", "m")
    assert bounds.without_start(descending=True) == SortBounds(">=", "a", "", 0)
