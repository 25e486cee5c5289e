import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.errors import PushError
from autopush.webpush.parameters import parse_crypto_key, parse_parameters, without_padding


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("field", ["invalid", "dh=a;", "dh=a,,b=c", "=a", "dh=a;b", "dh=é", ""])
def test_a_field_with_an_odd_piece_is_refused_whole(field: str) -> None:
    with pytest.raises(ValueError):
        parse_parameters(field)
    with pytest.raises(PushError) as caught:
        parse_crypto_key(field)
    assert (caught.value.status, caught.value.errno) == (400, 110)


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
