import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush import base64url


@given(st.binary(max_size=200))
def test_what_is_encoded_decodes_padded_or_not(raw: bytes) -> None:
    text = base64url.encode(raw)
    assert "=" not in text
    assert base64url.decode(text) == raw
    assert base64url.decode(base64.urlsafe_b64encode(raw).decode()) == raw


def test_bytes_that_are_no_text_encode_too() -> None:
    assert base64url.encode(b"\xc3\x28\xa0\xa1\xe2\x28\xa1") == "wyigoeIooQ"


@pytest.mark.parametrize(
    "text", ["a", "ab+d", "ab/d", "a b", "ab\n", "ab=c", "ab===", "é", "\udc80"]
)
def test_what_is_not_base64url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not base64url"):
        base64url.decode(text)


@given(st.binary(max_size=100))
def test_keys_may_come_in_the_standard_alphabet_and_with_any_padding(raw: bytes) -> None:
    standard = base64.b64encode(raw).decode()
    assert base64url.decode_lenient(standard) == raw
    assert base64url.decode_lenient(standard.rstrip("=") + "===") == raw


@given(st.text())
def test_random_text_decodes_or_raises_value_error(text: str) -> None:
    for decode in (base64url.decode, base64url.decode_lenient):
        with contextlib.suppress(ValueError):
            decode(text)
