"""Fernet tokens under a list of keys: the first key encrypts, every key decrypts.

The format is that of https://github.com/fernet/spec and of ``cryptography.fernet``, so keys and
tokens can be exchanged with either; the age of a token is never checked.

    token = base64url( 0x80 | time, 8 bytes | IV, 16 bytes | AES-128-CBC | HMAC-SHA256, 32 bytes )

Rule: the MAC is compared before anything is decrypted, and no error shows a key or a token.
"""

import hmac
import os
import time
from collections.abc import Sequence

import pybase64
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from autopush.clock import Clock
from autopush.webpush.syntax import decode_base64url

_BLOCK = 16
_VERSION = b"\x80"
_BODY = 1 + 8 + _BLOCK  # where the ciphertext begins
_MAC = 32
_SHORTEST = _BODY + _BLOCK + _MAC
_PADDING = tuple(bytes([n]) * n for n in range(_BLOCK + 1))  # PKCS #7


class InvalidToken(Exception):  # noqa: N818 - the name this has wherever Fernet is known
    """The text is no token, or none of the keys made it."""


class KeyRing:
    """``keys`` are Fernet keys, newest first: 32 bytes in base64url, 44 characters with padding.

    :raises ValueError: no key, or one that is malformed; named by its position, counted from 1
    """

    __slots__ = ("_chain", "_clock", "_keys", "_mac")

    def __init__(self, keys: Sequence[str], *, clock: Clock = time.time) -> None:
        if not keys:
            raise ValueError("crypto_key: at least one key is needed")
        self._keys = tuple(_split(key, position) for position, key in enumerate(keys, 1))
        self._clock = clock
        signing, aes = self._keys[0]
        self._mac = HMAC(signing, SHA256())
        self._chain = Cipher(aes, CBC(os.urandom(_BLOCK))).encryptor()

    def encrypt(self, plaintext: bytes) -> str:
        """A new token, with its ``=`` padding; each call gives another one.

        One running CBC chain serves all tokens, because making a cipher costs five times as much as
        using it. Each token begins with a block of random bytes; its ciphertext, which no one can
        foresee, is the initialisation vector of the blocks that follow.
        """
        padding = _PADDING[_BLOCK - len(plaintext) % _BLOCK]
        body = b"".join(
            (
                _VERSION,
                int(self._clock()).to_bytes(8, "big"),
                self._chain.update(os.urandom(_BLOCK) + plaintext + padding),
            )
        )
        mac = self._mac.copy()
        mac.update(body)
        return pybase64.b64encode_as_string(body + mac.finalize(), b"-_")

    def decrypt(self, token: str) -> bytes:
        """What was encrypted; padding of ``token`` may be missing.

        :raises InvalidToken: not a token of this ring
        """
        try:
            raw = decode_base64url(token)
        except ValueError:
            raise InvalidToken("not base64url") from None
        if len(raw) < _SHORTEST or raw[:1] != _VERSION or (len(raw) - _SHORTEST) % _BLOCK:
            raise InvalidToken(f"not a token: {len(raw)} bytes")
        body, mac = raw[:-_MAC], raw[-_MAC:]
        for signing, aes in self._keys:
            if hmac.compare_digest(hmac.digest(signing, body, "sha256"), mac):
                iv = body[9:_BODY]
                return _unpad(Cipher(aes, CBC(iv)).decryptor().update(body[_BODY:]))
        raise InvalidToken("made with another key")


def new_key() -> str:
    """A new random key."""
    return pybase64.b64encode_as_string(os.urandom(32), b"-_")


def derive_key(key: str, purpose: str) -> bytes:
    """32 bytes for another purpose than tokens, of which nothing follows for that key or for other
    purposes: HKDF-Expand (RFC 5869) of one block. `key` is valid for a `KeyRing`.
    """
    return hmac.digest(decode_base64url(key), f"autopush {purpose}\x01".encode(), "sha256")


def _split(key: str, position: int) -> tuple[bytes, AES]:
    try:
        raw = decode_base64url(key)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ValueError(
            f"crypto_key {position}: expected 32 bytes in base64url (44 characters), "
            f"got {len(key)} characters"
        )
    return raw[:16], AES(raw[16:])


def _unpad(padded: bytes) -> bytes:
    count = padded[-1]
    if not 1 <= count <= _BLOCK or padded[-count:] != _PADDING[count]:
        raise InvalidToken("wrong padding")
    return padded[:-count]
