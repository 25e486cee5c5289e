import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.shown import MAX_SHOWN, shown, span
from autopush.webpush.tokens import new_key
from support.cases import cases

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", '"a b"'),
        ("é\n", r'"\u00e9\n"'),
        (True, "true"),
        (None, "null"),
        ([1, "a"], '[1, "a"]'),
        (float("nan"), "NaN"),
        (b"x", "a value of the type bytes"),
        pytest.param(10**5000, "a value of the type int", id="a long int"),
        ("x y" * 99, '"' + ("x y" * 99)[: MAX_SHOWN - 4] + "..."),
    ],
)
def test_a_value_is_shown_as_short_json(value: object, text: str) -> None:
    assert shown(value) == text


@given(values)
def test_what_is_shown_is_short_and_printable(value: object) -> None:
    for is_public in (False, True):
        text = shown(value, is_public=is_public)
        assert len(text) <= MAX_SHOWN
        assert text.isascii()
        assert text.isprintable()


@given(st.text(), st.text())
def test_no_key_is_shown_whatever_is_around_it(before: str, after: str) -> None:
    key = new_key()
    for value in (before + key + after, [before, key], {before: key}):
        assert key[:12] not in shown(value)
        json.dumps(shown(value))


@cases(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (86_400, "24 h"), (2e5, "2 d")],
)
def test_a_span_is_written_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text
