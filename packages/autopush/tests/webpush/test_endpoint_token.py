import hashlib
import os
from uuid import UUID

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.errors import PushError
from autopush.webpush.syntax import canonical_url, encode_base64url
from autopush.webpush.tokens import Endpoint, EndpointTokens, KeyRing, decode_key, key_hash, new_key

KEY = new_key()
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


@pytest.mark.parametrize("length", [0, 16, 31, 33, 48, 63, 65, 96])
def test_a_plaintext_of_another_length_is_404(length: int) -> None:
    token = KeyRing([KEY]).encrypt(os.urandom(length))
    assert refusal(TOKENS.open, token) == (404, 102)


@pytest.mark.parametrize("key", [None, ""])
def test_a_registration_may_leave_the_key_out(key: object) -> None:
    assert decode_key(key) is None


@given(st.binary(min_size=1, max_size=100))
def test_a_key_is_taken_as_sent_padded_or_not(raw: bytes) -> None:
    assert (
        decode_key(encode_base64url(raw))
        == decode_key(encode_base64url(raw) + "=" * (-len(encode_base64url(raw)) % 4))
        == raw
    )


@pytest.mark.parametrize("key", ["af1883%&!@#*(", "a", "===", " ", 12, ["YQ"], {"k": 1}, True])
def test_an_unusable_key_is_a_value_error_that_does_not_show_it(key: object) -> None:
    with pytest.raises(ValueError, match=r"^key: ") as caught:
        decode_key(key)
    assert not isinstance(key, str) or len(key) < 4 or key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://push.example:443/", "https://push.example"),
        ("http://push.example:80", "http://push.example"),
        ("https://push.example:8082//", "https://push.example:8082"),
        ("https://Push.Example/push/", "https://push.example/push"),
        ("http://[::1]:8082", "http://[::1]:8082"),
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
