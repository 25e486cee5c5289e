import os

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.testing import user_agents
from autopush.testing.user_agents import SimulatedUserAgent, UnreadableBody, UserAgentKeys
from autopush.webpush.encryption import SubscriptionKeys, encrypt
from autopush.webpush.syntax import decode_base64url, encode_base64url
from support.cases import cases

HEADERS = {"content-encoding": "aes128gcm"}
keys = UserAgentKeys()
BODY = encrypt(b"Hello", SubscriptionKeys(keys.p256dh, keys.auth))


def test_both_encodings_of_the_libraries_are_read() -> None:
    assert keys.decrypt(BODY, HEADERS) == b"Hello"
    salt, own = os.urandom(16), ec.generate_private_key(ec.SECP256R1())
    p256dh, auth = decode_base64url(keys.p256dh), decode_base64url(keys.auth)
    for encoding in ("aes128gcm", "aesgcm"):
        body = http_ece.encrypt(
            b"Hello", salt=salt, private_key=own, dh=p256dh, auth_secret=auth, version=encoding
        )
        point = own.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        headers = {
            "content-encoding": encoding,
            "encryption": f"salt={encode_base64url(salt)}",
            "crypto-key": f"dh={encode_base64url(point)}",
        }
        assert keys.decrypt(body, headers) == b"Hello"


def changed(at: int, data: bytes) -> bytes:
    return BODY[:at] + data + BODY[at + len(data) :]


@cases(
    ("body", "said"),
    [
        (b"Hello", "has 5 bytes"),
        (changed(20, b"\x41\x05"), "no point of P-256"),
        (changed(20, b"\x00"), "a key of 0 bytes"),
        (changed(16, b"\x00\x00\x00\x11"), "record size is 17, expected at least 18"),
        (changed(16, b"\x00\x00\x00\x12"), "a push is one record"),
        (changed(90, b"\x00\x00"), "cannot be decrypted with the keys of this subscription"),
        (BODY[:90], "cannot be decrypted"),
    ],
)
def test_a_body_that_a_browser_drops_says_why(body: bytes, said: str) -> None:
    with pytest.raises(UnreadableBody, match=said):
        keys.decrypt(body, HEADERS)


@pytest.mark.parametrize(
    ("padded", "said"),
    [(b"Hello", "ends with 6f"), (b"Hello\x01", "another record follows"), (b"\0\0", "only zeros")],
)
def test_bad_padding_is_named(padded: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_agents, "AESGCM", lambda _: _Fixed(padded))
    with pytest.raises(UnreadableBody, match=f"bad padding: .*{said}"):
        keys.decrypt(BODY, HEADERS)


class _Fixed:
    def __init__(self, padded: bytes) -> None:
        self._padded = padded

    def decrypt(self, *_: object) -> bytes:
        return self._padded


async def test_a_message_that_has_come_is_given_without_a_wait() -> None:
    agent = SimulatedUserAgent("ws://127.0.0.1/", None)
    agent._messages.put_nowait(({}, b"Hello"))
    assert await agent.next_message(0) == ({}, b"Hello")
