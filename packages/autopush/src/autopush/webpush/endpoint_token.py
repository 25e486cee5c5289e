"""Endpoint URLs: the capability an application server holds.

The token of a URL is the Fernet text, without padding, of

    v1   UAID, 16 bytes | channel id, 16 bytes
    v2   the same | SHA-256 of the application server's public key as sent, 32 bytes

Rule: a v2 endpoint is opened only for the holder of the key whose hash it carries.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from autopush.webpush import base64url
from autopush.webpush.cache import GenerationCache
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import dashed, undashed
from autopush.webpush.keyring import InvalidToken, KeyRing
from autopush.webpush.origin import origin_of

_IDS: Final = 32  # bytes of UAID and channel id
_WITH_KEY: Final = 64


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """What a token says; ``key_hash`` is the SHA-256 of the key it is restricted to, if any."""

    uaid: str
    channel_id: str
    key_hash: bytes | None = None


class EndpointTokens:
    """Makes endpoint URLs and opens their tokens; remembers the ``cache_size`` used last.

    ``endpoint_url`` is the public URL of the endpoint nodes; :attr:`endpoint_url` holds it without
    a default port and without a trailing slash.
    """

    __slots__ = ("_opened", "_ring", "endpoint_url")

    def __init__(self, ring: KeyRing, endpoint_url: str, cache_size: int = 16384) -> None:
        self._ring = ring
        self._opened: GenerationCache[str, Endpoint] = GenerationCache(cache_size)
        self.endpoint_url: Final = canonical_url(endpoint_url)

    def url(self, uaid: str, channel_id: str, key: bytes | None) -> str:
        """The endpoint of a channel, restricted to ``key`` when there is one.

        Each call gives another token for the same identity.
        """
        token = self._token(uaid, channel_id, key)
        return f"{self.endpoint_url}/wpush/{'v1' if key is None else 'v2'}/{token}"

    def open(self, token: str) -> Endpoint:
        """The endpoint of ``token``; :func:`check_version` must follow.

        :raises PushError: 404/102, no token of ours
        """
        endpoint = self._opened.get(token)
        if endpoint is None:
            endpoint = self._decrypt(token)
            self._opened.put(token, endpoint)
        return endpoint

    def _decrypt(self, token: str) -> Endpoint:
        try:
            raw = self._ring.decrypt(token)
        except InvalidToken:
            raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token") from None
        if len(raw) not in (_IDS, _WITH_KEY):
            raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token")
        return Endpoint(raw[:16].hex(), dashed(raw[16:_IDS].hex()), raw[_IDS:] or None)

    def _token(self, uaid: str, channel_id: str, key: bytes | None) -> str:
        raw = bytes.fromhex(uaid) + bytes.fromhex(undashed(channel_id))
        if key is not None:
            raw += key_hash(key)
        return self._ring.encrypt(raw).rstrip("=")


def check_version(endpoint: Endpoint, version: str | None, *, authorized: bool) -> None:
    """Hold ``endpoint`` to the version in its URL; ``authorized``: Authorization was sent.

    No version counts as ``v1``.

    :raises PushError: 404/102, an unknown version or the token of another one; 401/109, a v2
        endpoint without Authorization
    """
    if version == "v2":
        if not authorized:
            raise PushError.invalid(
                Errno.INVALID_AUTHENTICATION,
                "missing authorization header: a v2 endpoint needs VAPID (RFC 8292)",
            )
        fits = endpoint.key_hash is not None
    else:
        fits = endpoint.key_hash is None and version in ("v1", None)
    if not fits:
        raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token")


def check_key_hash(endpoint: Endpoint, sent: bytes) -> None:
    """Hold the hash of the key that was sent to the one in a v2 endpoint, in constant time.

    :raises PushError: 401/109, another key
    """
    if endpoint.key_hash is not None and not hmac.compare_digest(endpoint.key_hash, sent):
        raise PushError.invalid(Errno.INVALID_AUTHENTICATION, "Key mismatch")


def key_hash(key: bytes) -> bytes:
    """SHA-256 of a public key, as sent: the form of the point is not normalised."""
    return hashlib.sha256(key).digest()


def decode_key(key: object) -> bytes | None:
    """The bytes of the ``key`` member of a registration; None when absent, null or empty.

    :raises ValueError: neither text nor base64url; the message fits into a reply
    """
    if key is None or key == "":
        return None
    if not isinstance(key, str):
        raise ValueError("key: expected base64url text")  # noqa: TRY004 - one error for callers
    try:
        raw = base64url.decode_lenient(key)
    except ValueError as error:
        raise ValueError(f"key: {error}") from None
    if not raw:
        raise ValueError("key: no base64url text in it")
    return raw


def canonical_url(url: str) -> str:
    """``url`` as a prefix for paths: no default port, no trailing slash, no query.

    :raises ValueError: not an absolute http or https URL
    """
    origin = origin_of(url)
    if not origin.startswith(("http://", "https://")):
        raise ValueError("expected an http:// or https:// URL")
    after_host = url.partition("://")[2].partition("?")[0].partition("#")[0].partition("/")[2]
    return f"{origin}/{after_host}".rstrip("/")
