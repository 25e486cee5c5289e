import base64
import contextlib
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from autopush.settings.value_types import is_sender
from autopush.webpush.encryption import SubscriptionKeys
from autopush.webpush.public_keys import load_key, parse_public_key
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.tokens import decode_key
from autopush.webpush.vapid import AllowedSenders, Credentials
from support.cases import cases
from support.senders import Sender

SENDER = Sender()
POINT = SENDER.point
OFF_THE_CURVE = POINT[:-1] + bytes([POINT[-1] ^ 1])


def other_curve(encoding: Encoding, form: PublicFormat) -> bytes:
    return ec.generate_private_key(ec.SECP256K1()).public_key().public_bytes(encoding, form)


FORMS = [POINT, POINT[1:], SENDER.der]
NO_KEYS = [
    b"",
    b"x" * 65,
    bytes(64),
    b"\x04" + b"\x01" * 64,
    *(bytes([form]) + POINT[1:] for form in (0, 2, 3, 5, 6, 7)),
    POINT[:33],
    bytes([2]) + POINT[1:33],
    POINT[1:33],
    OFF_THE_CURVE,
    POINT + b"x",
    SENDER.der[:26] + b"\x03" + SENDER.der[27:],
    b"\x31" + SENDER.der[1:],
    SENDER.der[:-1],
    other_curve(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    other_curve(Encoding.X962, PublicFormat.UncompressedPoint),
]


@cases("raw", FORMS)
@cases("encode", [base64.urlsafe_b64encode, base64.b64encode])
@cases("padding", ["", "=", "=="])
def test_every_place_takes_a_key_in_every_form_and_alphabet(
    raw: bytes, encode: Callable[[bytes], bytes], padding: str
) -> None:
    text = encode(raw).decode().rstrip("=") + padding
    assert parse_public_key(text) == POINT
    assert decode_key(text) == POINT
    assert Credentials("", 2, "t", text).point() == POINT
    assert AllowedSenders([text]).has(Credentials("", 2, "t", SENDER.key_text))
    assert is_sender(text)
    assert SubscriptionKeys(text, "A" * 22).point == POINT


@cases("raw", NO_KEYS)
def test_no_place_takes_what_is_no_key_of_p256(raw: bytes) -> None:
    text = encode_base64url(raw)
    for parse in (parse_public_key, decode_key, lambda text: SubscriptionKeys(text, "A" * 22)):
        if text or parse is not decode_key:
            with pytest.raises(ValueError, match="65 bytes, which are 87 characters of base64url"):
                parse(text)
    assert not is_sender(text)
    with pytest.raises(ValueError):
        load_key(raw)


@cases(
    ("key", "shape"),
    [
        ("abcd", "got 3 bytes"),
        (encode_base64url(bytes([2]) + POINT[1:33]), "33 bytes, as a compressed key has"),
        (encode_base64url(POINT[1:33]), "32 bytes, as a private key has"),
        (encode_base64url(b"\x05" + POINT[1:]), "65 bytes that begin with 05"),
        (encode_base64url(OFF_THE_CURVE), "no point of the curve"),
        (POINT.hex(), "130 hexadecimal digits"),
        ("-----BEGIN PUBLIC KEY-----", "a key in PEM"),
        ("a" * 9 + ".b.c", "two dots, as a token has"),
        (f"{SENDER.key_text}*", "88 characters that are no base64"),
        (f"B {SENDER.key_text[1:]}", "88 characters that are no base64"),
        ("é", "1 characters that are no base64"),
        ("=", "an empty text"),
        (5, "got 5"),
        (["a"], 'got ["a"]'),
        (None, "got null"),
    ],
)
def test_what_is_no_key_is_described_and_not_shown(key: object, shape: str) -> None:
    with pytest.raises(ValueError, match="87 characters of base64url") as caught:
        parse_public_key(key)
    assert shape in str(caught.value)
    assert SENDER.key_text[:20] not in str(caught.value)


@given(st.binary(max_size=100) | st.binary(min_size=64, max_size=65))
def test_random_bytes_are_no_key(raw: bytes) -> None:
    for parse in (load_key, lambda raw: parse_public_key(encode_base64url(raw))):
        with pytest.raises(ValueError):
            parse(raw)


@given(st.text() | st.integers() | st.none() | st.lists(st.text()))
def test_random_values_are_no_key(key: object) -> None:
    with contextlib.suppress(ValueError):
        assert len(parse_public_key(key)) == 65
