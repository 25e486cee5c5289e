"""Endpoint tokens and message ids, which are encrypted, and registration secrets, which are signed.

Tokens and ids are Fernet tokens (https://github.com/fernet/spec), compatible with
``cryptography.fernet``; the age of a token is never checked.

    token = base64url( 0x80 | time, 8 bytes | IV, 16 bytes | AES-128-CBC | HMAC-SHA256, 32 bytes )

The token of an endpoint URL is the Fernet text, without padding, of

    v1   UAID, 16 bytes | channel id, 16 bytes
    v2   the same | SHA-256 of the application server's public key, 32 bytes

The URL names the version, ``/wpush/v1/`` or ``/wpush/v2/``; without one it is v1. SimplePush
endpoints, ``/spush/v1/``, have v1 tokens. Which sender may use which endpoint is checked by
:func:`~autopush.webpush.vapid.check_access`. The plaintexts of message ids are in
:mod:`~autopush.webpush.identifiers`. The registration secret of a UAID is

    secret = hex( HMAC-SHA256( key as it is configured, UAID in 32 hex digits ) )

The first key encrypts and signs, every key decrypts and verifies, so keys can be rotated.

Rule: a MAC is compared, in constant time, before anything is decrypted, and no error shows a key, a
token or a secret.
"""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import pybase64
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from autopush.clock import Clock
from autopush.hosts import canonical_url
from autopush.webpush.errors import Errno, Header, PushError
from autopush.webpush.identifiers import (
    RECEIPT_MARK,
    MessageKind,
    dashed,
    has_receipt,
    is_uaid,
    parse_sort_time,
    sort_key,
    undashed,
)
from autopush.webpush.public_keys import parse_public_key
from autopush.webpush.syntax import decode_base64url

# ── Fernet keys ───────────────────────────────────────────────────────────────────────────────────

_BLOCK = 16
_VERSION = b"\x80"
_BODY = 1 + 8 + _BLOCK  # where the ciphertext begins
_MAC = 32
_SHORTEST = _BODY + _BLOCK + _MAC
_PADDING = tuple(bytes([n]) * n for n in range(_BLOCK + 1))  # PKCS #7


class InvalidToken(Exception):  # noqa: N818 - the name this has wherever Fernet is known
    """Not a token, or not made with any of the keys."""


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
        """A new token, with its ``=`` padding.

        One running CBC chain serves all tokens, as creating a cipher costs five times as much as
        using it. Each token begins with a random block, whose unpredictable ciphertext is the IV of
        the blocks that follow.
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
        """Padding of ``token`` is optional.

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
    return pybase64.b64encode_as_string(os.urandom(32), b"-_")


def derive_key(key: str, purpose: str) -> bytes:
    """32 bytes for another purpose than tokens, which reveal neither that key nor those of other
    purposes: one block of HKDF-Expand (RFC 5869). `key` must be valid for a `KeyRing`.
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


# ── endpoints ─────────────────────────────────────────────────────────────────────────────────────

_IDS: Final = 32  # bytes of UAID and channel id
_WITH_KEY: Final = 64


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """``key_hash``: SHA-256 of the key it is restricted to, if any. ``ids``: UAID and channel id,
    the same in every token of the endpoint; as bytes it caches its hash.
    """

    uaid: str
    channel_id: str
    key_hash: bytes | None = None
    ids: bytes = b""


class EndpointTokens:
    """Makes endpoint URLs and opens their tokens; caches the ``cache_size`` tokens used last.

    ``endpoint_url``: the public URL; the attribute has no default port and no trailing slash.
    """

    __slots__ = ("endpoint_url", "open", "ring")

    def __init__(self, ring: KeyRing, endpoint_url: str, cache_size: int = 16384) -> None:
        self.ring = ring
        self.endpoint_url: Final = canonical_url(endpoint_url)
        self.open: Final[Callable[[str], Endpoint]] = lru_cache(cache_size)(self._decrypt)
        """The endpoint of a token. Raises PushError 404/102 if it is not a token of ours."""

    def url(self, uaid: str, channel_id: str, key: bytes | None) -> str:
        """Restricted to ``key`` if there is one. Each call gives another token."""
        token = self._token(uaid, channel_id, key)
        return f"{self.endpoint_url}/wpush/{'v1' if key is None else 'v2'}/{token}"

    def simplepush_url(self, uaid: str, channel_id: str) -> str:
        return f"{self.endpoint_url}/spush/v1/{self._token(uaid, channel_id, None)}"

    def _decrypt(self, token: str) -> Endpoint:
        try:
            raw = self.ring.decrypt(token)
        except InvalidToken as error:
            raise PushError.invalid(
                Errno.INVALID_ENDPOINT, f"invalid token: {error}, in {len(token)} characters"
            ) from None
        if len(raw) not in (_IDS, _WITH_KEY):
            raise PushError.invalid(
                Errno.INVALID_ENDPOINT, "invalid token: of this service, but not of an endpoint"
            )
        uaid, channel_id = raw[:16].hex(), dashed(raw[16:_IDS].hex())
        return Endpoint(uaid, channel_id, raw[_IDS:] or None, raw[:_IDS])

    def _token(self, uaid: str, channel_id: str, key: bytes | None) -> str:
        raw = bytes.fromhex(uaid) + bytes.fromhex(undashed(channel_id))
        if key is not None:
            raw += key_hash(key)
        return self.ring.encrypt(raw).rstrip("=")


def key_hash(key: bytes) -> bytes:
    """SHA-256 of a public key. That of a token is of the 65 bytes of the point; earlier versions,
    and the original, took the form that the user agent sent.
    """
    return hashlib.sha256(key).digest()


def decode_key(key: object) -> bytes | None:
    """The point of the ``key`` member of a registration; None when absent, null or empty.

    :raises ValueError: not a public key; the message fits into a reply
    """
    if key is None or key == "":
        return None
    try:
        return parse_public_key(key)
    except ValueError as error:
        raise ValueError(f"key: {error}") from None


# ── message ids ───────────────────────────────────────────────────────────────────────────────────


class MessageId(msgspec.Struct, frozen=True, gc=False):
    """``text``: the id with padding, if it has one yet. ``receipt``: the receipt subscription that
    its sender named; empty without one.
    """

    kind: MessageKind
    uaid: str
    channel_id: str
    topic: str | None = None
    sort_time: int | None = None
    text: str = ""
    receipt: str = ""

    @property
    def sort_key(self) -> str:
        return sort_key(self.channel_id, self.topic, self.sort_time, self.text)


def new_message_id(
    ring: KeyRing,
    uaid: str,
    channel_id: str,
    topic: str | None,
    sort_time: int | None,
    receipt: str = "",
) -> str:
    """The Fernet text; ``sort_time`` counts only without a topic. ``receipt``: see `MessageId`."""
    digits = channel_id.replace("-", "")
    if topic is not None:
        plain = f"01:{uaid}:{digits}:{topic}"
    else:
        plain = f"02:{uaid}:{digits}:{sort_time}"
    if receipt:
        return RECEIPT_MARK + ring.encrypt(f"{receipt}:{plain}".encode())
    return ring.encrypt(plain.encode())


def parse_message_id(ring: KeyRing, text: str) -> MessageId:
    """Padding of ``text`` is optional.

    :raises ValueError: not an id of ours
    """
    mark = RECEIPT_MARK if has_receipt(text) else ""
    fernet = text.removeprefix(mark).rstrip("=")
    try:
        plain = ring.decrypt(fernet).decode()
    except (InvalidToken, UnicodeDecodeError):
        raise ValueError("not a message id of this service") from None
    receipt = ""
    if mark:
        receipt, _, plain = plain.partition(":")
        if not is_uaid(receipt):
            raise ValueError("not a message id: receipt subscription is malformed")
    version, _, rest = plain.partition(":")
    uaid, _, rest = rest.partition(":")
    digits, separator, last = rest.partition(":")
    if not is_uaid(uaid) or not is_uaid(digits):
        raise ValueError("not a message id: user or channel is malformed")
    padded = f"{mark}{fernet}" + "=" * (-len(fernet) % 4)
    channel_id = dashed(digits)
    if version == MessageKind.TIMESTAMPED:
        sort_time = parse_sort_time(last)
        return MessageId(
            MessageKind.TIMESTAMPED, uaid, channel_id, None, sort_time, padded, receipt
        )
    if version == MessageKind.TOPIC and last and ":" not in last:
        return MessageId(MessageKind.TOPIC, uaid, channel_id, last, None, padded, receipt)
    if version == MessageKind.LEGACY and not separator:
        return MessageId(MessageKind.LEGACY, uaid, channel_id, None, None, padded)
    raise ValueError("not a message id: unknown form")


def invalid_message_id(text: str) -> PushError:
    """400/102, for what `parse_message_id` refuses."""
    return PushError.invalid(
        Errno.INVALID_ENDPOINT,
        f"Invalid message ID: {len(text)} characters, not those of a Location of this service",
        status=400,
    )


# ── receipt subscriptions ─────────────────────────────────────────────────────────────────────────


class ReceiptSubscription(msgspec.Struct, frozen=True, gc=False):
    """``id``: 32 hex digits. ``sender``: 32 hex digits of the hash of its VAPID key, or of the
    endpoint of an anonymous sender: only that sender may name it.
    """

    id: str
    sender: str = ""

    @classmethod
    def new(cls, sender: bytes) -> "ReceiptSubscription":
        """``sender``: its public key, or the ids of the endpoint."""
        return cls(secrets.token_hex(16), cls.sender_of(sender))

    @staticmethod
    def sender_of(sender: bytes) -> str:
        return key_hash(sender).hex()[:32]

    def token(self, ring: KeyRing) -> str:
        """The last segment of its URL. Each call gives another text."""
        return ring.encrypt(f"receipt:{self.id}:{self.sender}".encode()).rstrip("=")

    @classmethod
    def of_token(cls, ring: KeyRing, token: str) -> "ReceiptSubscription":
        """:raises ValueError: not one of this service"""
        try:
            kind, _, rest = ring.decrypt(token).decode().partition(":")
        except (InvalidToken, UnicodeDecodeError):
            raise ValueError("not a receipt subscription of this service") from None
        identifier, _, sender = rest.partition(":")
        if kind != "receipt" or not is_uaid(identifier):
            raise ValueError("not a receipt subscription")
        return cls(identifier, sender)


# ── secrets of the registration API ───────────────────────────────────────────────────────────────

CHALLENGE: Final[Header] = ("WWW-Authenticate", "webpush")
"""Sent with each 401 of the registration API."""

_SCHEMES: Final = frozenset({"bearer", "webpush", "vapid"})
"""`Bearer` is the documented scheme; the original takes the others too."""


class RegistrationSecrets:
    """``keys``: the option ``auth_key``, newest first.

    :raises ValueError: there is no key: every secret would be accepted
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[str]) -> None:
        if not keys or not all(keys):
            raise ValueError("auth_key: at least one key is needed, and none may be empty")
        self._keys = tuple(key.encode() for key in keys)

    def secret(self, uaid: str) -> str:
        """``uaid``: 32 lower-case hex digits."""
        return _sign(self._keys[0], uaid)

    def check(self, authorization: str | None, uaid: str) -> None:
        """:raises PushError: 401/109, the Authorization header is missing or wrong"""
        words = (authorization or "").split()
        if not words:
            raise _unauthorized("Unauthorized")
        if len(words) != 2 or words[0].lower() not in _SCHEMES:
            raise _unauthorized("Invalid Authentication")
        given = words[1].encode()
        matches = [hmac.compare_digest(given, _sign(key, uaid).encode()) for key in self._keys]
        if True not in matches:
            raise _unauthorized("Invalid Authentication")


def _sign(key: bytes, uaid: str) -> str:
    return hmac.digest(key, uaid.encode(), hashlib.sha256).hex()


def _unauthorized(message: str) -> PushError:
    return PushError(Errno.INVALID_AUTHENTICATION, message, headers=(CHALLENGE,))
