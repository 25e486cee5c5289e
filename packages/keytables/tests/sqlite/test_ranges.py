"""Prefixes as bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables import Range
from keytables.sqlite.ranges import Bounds, after_prefix, bounds

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud7ff\ue000\U0010ffff"))


@given(texts.filter(bool), texts)
def test_text_begins_with_a_prefix_exactly_when_it_lies_in_its_bounds(
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
def test_bytes_begin_with_a_prefix_exactly_when_they_lie_in_its_bounds(
    prefix: bytes, data: bytes
) -> None:
    for candidate in (data, prefix + data, prefix[:-1] + data):
        end = after_prefix(prefix)
        assert end is None or isinstance(end, bytes)
        assert (candidate >= prefix and (end is None or candidate < end)) == candidate.startswith(
            prefix
        )


@pytest.mark.parametrize("last", ["\U0010ffff", b"\xff"])
def test_the_last_prefix_has_no_end(last: str | bytes) -> None:
    assert after_prefix(last * 3) is None


def test_going_on_replaces_the_bound_it_starts_from() -> None:
    limits = bounds(Range(ge="a", lt="m"), str)
    assert limits.beyond("c", descending=False) == Bounds(">", "c", "<", "m")
    assert limits.beyond("c", descending=True) == Bounds(">=", "a", "<", "c")
    assert limits.without_start(descending=False) == Bounds("", 0, "<", "m")
    assert limits.without_start(descending=True) == Bounds(">=", "a", "", 0)
