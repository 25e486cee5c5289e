"""Encryption of a message for a subscription: `aes128gcm` (RFC 8188) with the keys of RFC 8291.

For senders such as `autopush send`: the service passes bodies on unchanged. Callable in any thread.
"""

import os
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.webpush.public_keys import load_key, parse_public_key
from autopush.webpush.syntax import decode_any_base64

CONTENT_ENCODING: Final = "aes128gcm"
RECORD_SIZE: Final = 4096
"""Bytes of the largest record; one message is one record (RFC 8291, section 4)."""
MAX_PLAINTEXT: Final = RECORD_SIZE - 86 - 17
"""Bytes that fit into a body of 4,096: without header, padding delimiter and authentication tag."""

_P256: Final = SECP256R1()
_SECRET: Final = 16
_SALT: Final = 16
_LAST_RECORD: Final = b"\x02"


class SubscriptionKeys:
    """`p256dh`: the user agent's public key; `auth`: the shared secret; base64 in any form.

    :raises ValueError: one is malformed; the message names it without its text
    """

    def __init__(self, p256dh: str, auth: str) -> None:
        try:
            self.point = parse_public_key(p256dh)
        except ValueError as error:
            raise ValueError(f"p256dh: {error}") from None
        self.public_key = load_key(self.point)
        try:
            self.auth = decode_any_base64(auth)
        except ValueError:
            self.auth = b""
        if len(self.auth) != _SECRET:
            raise ValueError(
                f"auth: expected {_SECRET} bytes as base64url, got {len(auth)} characters"
            )


def encrypt(
    plaintext: bytes,
    keys: SubscriptionKeys,
    *,
    sender_key: EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """The body of a push. `sender_key` and `salt` (16 bytes) must be new for each message: only
    tests pass them.

    :raises ValueError: `plaintext` is longer than `MAX_PLAINTEXT` bytes
    """
    if len(plaintext) > MAX_PLAINTEXT:
        raise ValueError(f"a message has at most {MAX_PLAINTEXT:,} bytes, got {len(plaintext):,}")
    sender_key = generate_private_key(_P256) if sender_key is None else sender_key
    salt = os.urandom(_SALT) if salt is None else salt
    point = sender_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    # RFC 8291, section 3.4
    info = b"WebPush: info\0" + keys.point + point
    secret = _derive(sender_key.exchange(ECDH(), keys.public_key), keys.auth, info, 32)
    # RFC 8188, sections 2.1 to 2.3
    content_key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
    header = salt + RECORD_SIZE.to_bytes(4, "big") + bytes((len(point),)) + point
    return header + AESGCM(content_key).encrypt(nonce, plaintext + _LAST_RECORD, None)


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)
