import base64
import hmac
import time

import pytest
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.tokens import InvalidToken, KeyRing, new_key

KEY, OTHER = new_key(), new_key()


@given(st.binary(max_size=300))
def test_tokens_go_both_ways_between_the_ring_and_fernet(plain: bytes) -> None:
    ring, fernet = KeyRing([KEY]), Fernet(KEY)
    assert fernet.decrypt(ring.encrypt(plain)) == plain
    assert ring.decrypt(fernet.encrypt(plain).decode()) == plain
    assert ring.decrypt(ring.encrypt(plain)) == plain


def test_a_token_has_the_form_of_the_fernet_specification() -> None:
    # https://github.com/fernet/spec/blob/master/verify.json
    ring = KeyRing(["cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4="])
    token = (
        "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPg"
        "JobwOz7JcbmrR64jVmpU4IwqDA=="
    )
    assert ring.decrypt(token) == b"hello"


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    old, new = KeyRing([OTHER]), KeyRing([KEY, OTHER])
    assert new.decrypt(old.encrypt(b"x")) == b"x"
    assert Fernet(KEY).decrypt(new.encrypt(b"x")) == b"x"
    assert MultiFernet([Fernet(OTHER), Fernet(KEY)]).decrypt(new.encrypt(b"x")) == b"x"
    with pytest.raises(InvalidToken):
        old.decrypt(new.encrypt(b"x"))


def test_a_token_carries_the_time_of_the_clock_and_never_ages() -> None:
    ring = KeyRing([KEY], clock=lambda: 1000.9)
    token = ring.encrypt(b"x")
    assert Fernet(KEY).extract_timestamp(token) == 1000
    assert KeyRing([KEY], clock=time.time).decrypt(token) == b"x"


def test_padding_of_the_text_may_be_missing() -> None:
    ring = KeyRing([KEY])
    assert ring.decrypt(ring.encrypt(b"abc").rstrip("=")) == b"abc"


def test_no_two_tokens_are_equal() -> None:
    ring = KeyRing([KEY])
    assert len({ring.encrypt(b"x") for _ in range(50)}) == 50


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_token_changed_anywhere_is_refused(where: int, change: int) -> None:
    ring = KeyRing([KEY])
    raw = bytearray(base64.urlsafe_b64decode(ring.encrypt(b"some text to hide")))
    raw[where % len(raw)] ^= change
    with pytest.raises(InvalidToken):
        ring.decrypt(base64.urlsafe_b64encode(raw).decode())


@given(st.integers(0, 200))
def test_a_token_cut_anywhere_is_refused(length: int) -> None:
    ring = KeyRing([KEY])
    token = ring.encrypt(b"some text to hide").rstrip("=")
    with pytest.raises(InvalidToken):
        ring.decrypt(token[: min(length, len(token) - 1)])


@given(st.text() | st.binary().map(lambda raw: base64.urlsafe_b64encode(b"\x80" + raw).decode()))
def test_random_text_is_no_token(text: str) -> None:
    with pytest.raises(InvalidToken):
        KeyRing([KEY]).decrypt(text)


def signed(body: bytes) -> str:
    """``body`` with the right MAC of :data:`KEY`, whatever it says."""
    mac = hmac.digest(base64.urlsafe_b64decode(KEY)[:16], body, "sha256")
    return base64.urlsafe_b64encode(body + mac).decode()


def encrypted(block: bytes) -> bytes:
    """``block`` as it stands behind a version, a time and an IV of zeros."""
    aes = AES(base64.urlsafe_b64decode(KEY)[16:])
    return b"\x80" + bytes(24) + Cipher(aes, CBC(bytes(16))).encryptor().update(block)


@pytest.mark.parametrize(
    "body",
    [
        b"\x81" + encrypted(b"\x10" * 16)[1:],
        encrypted(b"\x10" * 16)[:-1],
        encrypted(b"\x10" * 16) + b"x",
        encrypted(b""),
        encrypted(b"\x00" * 16),
        encrypted(b"\x11" * 32),
        encrypted(b"a" * 14 + b"\x01\x02"),
    ],
)
def test_a_malformed_token_is_refused_even_with_the_right_mac(body: bytes) -> None:
    ring = KeyRing([KEY])
    assert ring.decrypt(signed(encrypted(b"a" * 14 + b"\x02\x02"))) == b"a" * 14
    with pytest.raises(InvalidToken):
        ring.decrypt(signed(body))


@pytest.mark.parametrize("bad", ["", "short", KEY[:-2] + "*=", KEY + KEY, "é" * 44])
def test_a_bad_key_is_named_by_its_position_and_not_shown(bad: str) -> None:
    with pytest.raises(ValueError, match="crypto_key 2: expected 32 bytes") as caught:
        KeyRing([KEY, bad])
    assert not bad or bad not in str(caught.value)


def test_a_ring_needs_a_key() -> None:
    with pytest.raises(ValueError, match="at least one"):
        KeyRing([])


def test_a_new_key_is_a_fernet_key() -> None:
    key = new_key()
    assert len(key) == 44
    assert Fernet(key).decrypt(KeyRing([key]).encrypt(b"x")) == b"x"
    assert new_key() != key
