"""Endpoint URLs: what an application server needs to send to a channel.

The token of a URL is the Fernet text, without padding, of

    v1   UAID, 16 bytes | channel id, 16 bytes
    v2   the same | SHA-256 of the application server's public key as sent, 32 bytes

Its URL names the version, ``/wpush/v1/`` or ``/wpush/v2/``; none counts as v1. Endpoints of
SimplePush, ``/spush/v1/``, have tokens of v1. Which sender may use
which endpoint is for :func:`~autopush.webpush.vapid.check_access`.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import dashed, undashed
from autopush.webpush.keyring import InvalidToken, KeyRing
from autopush.webpush.syntax import canonical_url, decode_any_base64

_IDS: Final = 32  # bytes of UAID and channel id
_WITH_KEY: Final = 64


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """What a token says; ``key_hash`` is the SHA-256 of the key it is restricted to, if any.

    ``ids``: UAID and channel id, which are the same in every token of the endpoint; its hash is
    computed once, as that of all bytes.
    """

    uaid: str
    channel_id: str
    key_hash: bytes | None = None
    ids: bytes = b""


class EndpointTokens:
    """Makes endpoint URLs and opens their tokens; caches the ``cache_size`` tokens used last.

    ``endpoint_url`` is the public URL of the endpoint nodes; :attr:`endpoint_url` holds it without
    a default port and without a trailing slash.
    """

    __slots__ = ("_ring", "endpoint_url", "open")

    def __init__(self, ring: KeyRing, endpoint_url: str, cache_size: int = 16384) -> None:
        self._ring = ring
        self.endpoint_url: Final = canonical_url(endpoint_url)
        self.open: Final[Callable[[str], Endpoint]] = lru_cache(cache_size)(self._decrypt)
        """The endpoint of a token. Raises PushError 404/102 for what is no token of ours."""

    def url(self, uaid: str, channel_id: str, key: bytes | None) -> str:
        """The endpoint of a channel, restricted to ``key`` when there is one.

        Each call gives another token for the same identity.
        """
        token = self._token(uaid, channel_id, key)
        return f"{self.endpoint_url}/wpush/{'v1' if key is None else 'v2'}/{token}"

    def simplepush_url(self, uaid: str, channel_id: str) -> str:
        """The endpoint of a channel of SimplePush."""
        return f"{self.endpoint_url}/spush/v1/{self._token(uaid, channel_id, None)}"

    def _decrypt(self, token: str) -> Endpoint:
        try:
            raw = self._ring.decrypt(token)
        except InvalidToken:
            raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token") from None
        if len(raw) not in (_IDS, _WITH_KEY):
            raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token")
        uaid, channel_id = raw[:16].hex(), dashed(raw[16:_IDS].hex())
        return Endpoint(uaid, channel_id, raw[_IDS:] or None, raw[:_IDS])

    def _token(self, uaid: str, channel_id: str, key: bytes | None) -> str:
        raw = bytes.fromhex(uaid) + bytes.fromhex(undashed(channel_id))
        if key is not None:
            raw += key_hash(key)
        return self._ring.encrypt(raw).rstrip("=")


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
        raw = decode_any_base64(key)
    except ValueError as error:
        raise ValueError(f"key: {error}") from None
    if not raw:
        raise ValueError("key: no base64url text in it")
    return raw
