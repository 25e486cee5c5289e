import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.syntax import (
    decode_any_base64,
    decode_base64url,
    encode_base64url,
    parse_parameters,
    without_padding,
)
from support.cases import cases

# ── base64url ────────────────────────────────────────────────────────────────────────────────────


@given(st.binary(max_size=200))
def test_what_is_encoded_decodes_padded_or_not(raw: bytes) -> None:
    text = encode_base64url(raw)
    assert "=" not in text
    assert decode_base64url(text) == raw
    assert decode_base64url(base64.urlsafe_b64encode(raw).decode()) == raw


def test_bytes_that_are_no_text_encode_too() -> None:
    assert encode_base64url(b"\xc3\x28\xa0\xa1\xe2\x28\xa1") == "wyigoeIooQ"


@cases("text", ["a", "ab+d", "ab/d", "a b", "ab\n", "ab=c", "ab===", "é", "\udc80"])
def test_what_is_not_base64url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not base64url"):
        decode_base64url(text)


@given(st.binary(max_size=100))
def test_keys_may_come_in_the_standard_alphabet_and_with_any_padding(raw: bytes) -> None:
    standard = base64.b64encode(raw).decode()
    assert decode_any_base64(standard) == raw
    assert decode_any_base64(standard.rstrip("=") + "===") == raw


@given(st.text())
def test_random_text_decodes_or_raises_value_error(text: str) -> None:
    for decode in (decode_base64url, decode_any_base64):
        with contextlib.suppress(ValueError):
            decode(text)


# ── parameter fields ─────────────────────────────────────────────────────────────────────────────


@cases(
    ("field", "parameters"),
    [
        ("dh=abc", {"dh": "abc"}),
        ('keyid="a1"; dh="abc=="', {"keyid": "a1", "dh": "abc=="}),
        ("keyid=a;dh=b,p256ecdsa=c", {"keyid": "a", "dh": "b", "p256ecdsa": "c"}),
        ("dh=first,dh=second", {"dh": "first"}),
        (" DH = abc ", {"dh": "abc"}),
        ("keyid=http://x/?a=b", {"keyid": "http://x/?a=b"}),
        ("dh=", {"dh": ""}),
    ],
)
def test_a_field_is_label_and_value_pairs(field: str, parameters: dict[str, str]) -> None:
    assert parse_parameters(field) == parameters


@cases("field", ["invalid", "dh=a;", "dh=a,,b=c", "=a", "dh=a;b", "dh=é", ""])
def test_a_field_with_an_odd_piece_is_refused_whole(field: str) -> None:
    with pytest.raises(ValueError):
        parse_parameters(field)


@pytest.mark.parametrize(
    ("field", "cleaned"),
    [
        (
            'keyid="http://example.org/bob/keys/123";salt="XZwpw6o37R-6qoZjw6KwAw=="',
            "keyid=http://example.org/bob/keys/123;salt=XZwpw6o37R-6qoZjw6KwAw",
        ),
        ("dh=ab==,p256ecdsa=cd=;x=y=", "dh=ab,p256ecdsa=cd;x=y"),
        ("keyid=http://x/?a==b;salt=c", "keyid=http://x/?a==b;salt=c"),
        ("salt=ab== ;rs=4096", "salt=ab;rs=4096"),
    ],
)
def test_a_cleaned_field_has_no_quotes_and_no_padding(field: str, cleaned: str) -> None:
    assert without_padding(field) == cleaned


@given(st.text())
def test_random_text_parses_or_raises_value_error(field: str) -> None:
    with contextlib.suppress(ValueError):
        parse_parameters(field)


@given(st.text(alphabet='ab=";, -_'))
def test_cleaning_leaves_no_padding_before_a_separator(field: str) -> None:
    cleaned = without_padding(field)
    assert '"' not in cleaned
    assert not any(end in cleaned + ";" for end in ("=;", "=,"))


def test_cleaning_a_hostile_field_takes_linear_time() -> None:
    # 16 KiB is the longest header line; a quadratic pattern would need seconds, not milliseconds.
    assert without_padding("=" * 1_000_000 + "x") == "=" * 1_000_000 + "x"
