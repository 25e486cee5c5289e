"""Fernet keys, endpoint tokens and the secrets of the registration API."""

import base64
import hashlib
import hmac
import os
import time
from uuid import UUID

import pytest
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from hypothesis import given
from hypothesis import strategies as st

from autopush.hosts import canonical_url
from autopush.webpush.errors import PushError
from autopush.webpush.tokens import (
    Endpoint,
    EndpointTokens,
    InvalidToken,
    KeyRing,
    RegistrationSecrets,
    decode_key,
    key_hash,
    new_key,
)
from support.cases import cases

# ── keyring ───────────────────────────────────────────────────────────────────────────────────────

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


def signed(body: bytes) -> str:
    """``body`` with the right MAC of :data:`KEY`, whatever it says."""
    mac = hmac.digest(base64.urlsafe_b64decode(KEY)[:16], body, "sha256")
    return base64.urlsafe_b64encode(body + mac).decode()


def encrypted(block: bytes) -> bytes:
    """``block`` as it stands behind a version, a time and an IV of zeros."""
    aes = AES(base64.urlsafe_b64decode(KEY)[16:])
    return b"\x80" + bytes(24) + Cipher(aes, CBC(bytes(16))).encryptor().update(block)


@cases(
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


@cases("bad", ["", "short", KEY[:-2] + "*=", KEY + KEY, "é" * 44])
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


# ── endpoint token ────────────────────────────────────────────────────────────────────────────────

UAID = "deadbeef00000000deadbeef00000001"
CHID = "12345678-aaaa-bbbb-cccc-1234567890ab"
TOKENS = EndpointTokens(KeyRing([KEY]), "https://push.example")
POINT = b"\x04" + bytes(64)


def refusal(call: object, *arguments: object, **named: object) -> tuple[int, int]:
    assert callable(call)
    with pytest.raises(PushError) as caught:
        call(*arguments, **named)
    return caught.value.status, caught.value.errno


@given(st.uuids(), st.uuids(), st.none() | st.binary(min_size=1, max_size=100))
def test_what_an_endpoint_is_made_of_is_what_it_opens_to(
    uaid: UUID, channel: UUID, key: bytes | None
) -> None:
    user = uaid.hex
    url = TOKENS.url(user, str(channel), key)
    opened = TOKENS.open(url.rpartition("/")[2])
    hashed = None if key is None else key_hash(key)
    assert opened == Endpoint(user, str(channel), hashed, uaid.bytes + channel.bytes)


def test_a_v1_token_is_user_and_channel_without_padding() -> None:
    url = TOKENS.url(UAID, CHID, None)
    prefix, token = url.rsplit("/", 1)
    assert prefix == "https://push.example/wpush/v1"
    assert "=" not in token
    plain = Fernet(KEY).decrypt(token + "=" * (-len(token) % 4))
    assert plain == bytes.fromhex(UAID + CHID.replace("-", ""))


def test_a_v2_token_adds_the_hash_of_the_key_as_sent() -> None:
    prefix, token = TOKENS.url(UAID, CHID, POINT).rsplit("/", 1)
    assert prefix == "https://push.example/wpush/v2"
    plain = Fernet(KEY).decrypt(token + "=" * (-len(token) % 4))
    assert plain[32:] == hashlib.sha256(POINT).digest()
    assert len(plain) == 64


def test_each_registration_of_a_channel_gives_another_token() -> None:
    assert TOKENS.url(UAID, CHID, None) != TOKENS.url(UAID, CHID, None)


def test_a_token_opened_before_is_not_decrypted_again() -> None:
    token = TOKENS.url(UAID, CHID, None).rpartition("/")[2]
    assert TOKENS.open(token) is TOKENS.open(token)


def test_a_token_outlives_the_rotation_of_keys() -> None:
    token = TOKENS.url(UAID, CHID, None).rpartition("/")[2]
    rotated = EndpointTokens(KeyRing([new_key(), KEY]), "https://push.example")
    opened = rotated.open(token)
    assert (opened.uaid, opened.channel_id, opened.key_hash) == (UAID, CHID, None)


def test_a_token_of_another_service_is_404() -> None:
    token = TOKENS.url(UAID, CHID, None).rpartition("/")[2]
    other = EndpointTokens(KeyRing([new_key()]), "https://push.example")
    assert refusal(other.open, token) == (404, 102)


@given(st.text())
def test_random_text_is_404(token: str) -> None:
    assert refusal(TOKENS.open, token) == (404, 102)


@cases("length", [0, 16, 31, 33, 48, 63, 65, 96])
def test_a_plaintext_of_another_length_is_404(length: int) -> None:
    token = KeyRing([KEY]).encrypt(os.urandom(length))
    assert refusal(TOKENS.open, token) == (404, 102)


@pytest.mark.parametrize("key", [None, ""])
def test_a_registration_may_leave_the_key_out(key: object) -> None:
    assert decode_key(key) is None


@cases("key", ["af1883%&!@#*(", "a", "===", " ", 12, ["YQ"], {"k": 1}, True])
def test_an_unusable_key_is_a_value_error_that_does_not_show_it(key: object) -> None:
    with pytest.raises(ValueError, match=r"^key: ") as caught:
        decode_key(key)
    assert not isinstance(key, str) or len(key) < 4 or key not in str(caught.value)


@cases(
    ("url", "canonical"),
    [
        ("https://push.example:443/", "https://push.example"),
        ("http://push.example:80", "http://push.example"),
        ("https://push.example:8082//", "https://push.example:8082"),
        ("https://Push.Example/push/", "https://push.example/push"),
        ("http://[::1]:8082", "http://[::1]:8082"),
        ("https://[0:0:0:0:0:0:0:1]:8443", "https://[::1]:8443"),
        ("https://push.example.", "https://push.example"),
        ("https://b\u00fccher.example/a", "https://xn--bcher-kva.example/a"),
        ("http://127.1", "http://127.0.0.1"),
    ],
)
def test_the_endpoint_url_is_canonical(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical
    made = EndpointTokens(KeyRing([KEY]), url).url(UAID, CHID, None)
    assert made.startswith(f"{canonical}/wpush/v1/")


@pytest.mark.parametrize("url", ["push.example", "wss://push.example", "", "https://"])
def test_an_endpoint_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        EndpointTokens(KeyRing([KEY]), url)


# ── registration secret ───────────────────────────────────────────────────────────────────────────

AUTH_KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="
SECRET_OF = "729e5104f5f04abc9196085340317dea"
SECRET = "f694963453adf5dedcc379bbdd6900d692b6e09f1c91f44169bfcd2f941bf36c"


def test_the_secret_is_that_of_the_original_for_the_same_key_and_uaid() -> None:
    assert RegistrationSecrets([AUTH_KEY]).secret(SECRET_OF) == SECRET


def test_the_first_key_signs_and_every_key_verifies() -> None:
    both = RegistrationSecrets(["new", AUTH_KEY])
    assert both.secret(SECRET_OF) == RegistrationSecrets(["new"]).secret(SECRET_OF) != SECRET
    both.check(f"Bearer {SECRET}", SECRET_OF)
    both.check(f"Bearer {both.secret(SECRET_OF)}", SECRET_OF)


@cases(
    ("authorization", "message"),
    [
        (None, "Unauthorized"),
        ("", "Unauthorized"),
        ("Bearer", "Invalid Authentication"),
        (SECRET, "Invalid Authentication"),
        (f"Basic {SECRET}", "Invalid Authentication"),
        (f"Bearer {SECRET[:-1]}", "Invalid Authentication"),
        (f"Bearer {SECRET.upper()}", "Invalid Authentication"),
        (f"Bearer {SECRET}\xe9", "Invalid Authentication"),
        (f"Bearer {SECRET} {SECRET}", "Invalid Authentication"),
    ],
)
def test_anything_else_is_401_109_and_is_not_repeated(
    authorization: str | None, message: str
) -> None:
    with pytest.raises(PushError) as caught:
        RegistrationSecrets([AUTH_KEY]).check(authorization, SECRET_OF)
    refusal = caught.value
    assert (refusal.status, refusal.errno, refusal.message) == (401, 109, message)
    assert refusal.headers == (("WWW-Authenticate", "webpush"),)


def test_the_secret_of_one_uaid_is_not_that_of_another() -> None:
    with pytest.raises(PushError):
        RegistrationSecrets([AUTH_KEY]).check(f"Bearer {SECRET}", SECRET_OF[::-1])


@pytest.mark.parametrize("keys", [[], [""], [AUTH_KEY, ""]])
def test_a_list_without_a_key_is_refused(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="auth_key"):
        RegistrationSecrets(keys)
