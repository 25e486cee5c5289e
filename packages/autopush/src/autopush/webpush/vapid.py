"""VAPID (RFC 8292 and its first draft): who sends a push, proved by a signed token.

    Authorization: vapid t=<token>,k=<key>                                 draft 2, RFC 8292
    Authorization: Bearer <token>      Crypto-Key: p256ecdsa=<key>         draft 1
    Authorization: WebPush <token>     Crypto-Key: p256ecdsa=<key>         draft 1

A push is checked in three steps: :meth:`Verifier.credentials` parses the headers,
:func:`check_access` compares them with the endpoint, and, after the store was read, the signature
and the claims are verified.

Rule: a signature is verified once and the sender cached; expiry, audience and the endpoint's key
are checked at every use.
"""

import hmac
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal
from unicodedata import normalize
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.recently_used import RecentlyUsed
from autopush.webpush import jwt
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.headers import parse_crypto_key
from autopush.webpush.syntax import decode_any_base64, encode_base64url, origin_of
from autopush.webpush.tokens import Endpoint, decode_key, key_hash

Draft = Literal[1, 2]

MAX_AGE: Final = 86_400
"""Seconds a token may still be valid for (RFC 8292, section 2)."""

MAX_AUTHORIZATION: Final = 4096
"""Characters; every header that is accepted can be remembered."""

_MAX_AUDIENCES: Final = 16
_DRAFTS: Final[Mapping[str, Draft]] = {"vapid": 2, "bearer": 1, "webpush": 1}


class Claims(msgspec.Struct, frozen=True, gc=False):
    """Verified. ``expires``: epoch seconds. ``audiences``: origins. ``subject``: a contact."""

    expires: float
    audiences: tuple[str, ...]
    subject: str | None = None


class Credentials(msgspec.Struct, gc=False, eq=False):
    """Parsed Authorization and Crypto-Key. ``key_text``: empty without a key. ``scheme``: in lower
    case. ``claims``: None until the signature is verified.
    """

    authorization: str
    draft: Draft
    token: str
    key_text: str
    scheme: str = "vapid"
    claims: Claims | None = None
    _key_hash: bytes | None = None
    _point: bytes | None = None

    def key(self) -> bytes:
        """The public key, as sent.

        :raises PushError: 401/109, missing or not base64url
        """
        if not self.key_text:
            where = "k in Authorization" if self.draft == 2 else "p256ecdsa in Crypto-Key"
            raise _unauthorized(f"missing authorization header: no {where}")
        try:
            return decode_any_base64(self.key_text)
        except ValueError as error:
            raise _unauthorized(f"Invalid Authorization Header: public key {error}") from None

    def key_hash(self) -> bytes:
        """SHA-256 of :meth:`key`, cached; raises as that does."""
        if self._key_hash is None:
            self._key_hash = key_hash(self.key())
        return self._key_hash

    def point(self) -> bytes:
        """The public key as 65 bytes, whichever form was sent; cached.

        :raises PushError: as :meth:`key`; 401/109, another length
        """
        if self._point is None:
            try:
                self._point = jwt.uncompressed_point(self.key())
            except ValueError as error:
                raise _unauthorized(f"Invalid Authorization Header: {error}") from None
        return self._point

    def subject(self) -> str | None:
        """The ``sub`` of the token; not trustworthy before the signature is verified.

        :raises PushError: 401/109, no token
        """
        if self.claims is not None:
            return self.claims.subject
        try:
            return _subject(jwt.parse(self.token).claims)
        except ValueError as error:
            raise _unauthorized(f"Invalid Authorization Header: {error}") from None


class AllowedSenders:
    """Public VAPID keys and `sub` claims; any sender may claim a `sub`, so only a key is proof."""

    def __init__(self, listed: Iterable[str]) -> None:
        points, subjects = set[bytes](), set[str]()
        for text in listed:
            if text.startswith(("mailto:", "https:")):
                subjects.add(text)
            else:
                points.add(jwt.uncompressed_point(decode_key(text) or b""))
        self._points = frozenset(points)
        self._subjects = frozenset(subjects)

    def has(self, credentials: Credentials) -> bool:
        """Whether the key or the `sub` is listed; does not verify the signature.

        :raises PushError: 401/109, no readable key or token
        """
        if credentials.point() in self._points:
            return True
        return bool(self._subjects) and credentials.subject() in self._subjects


def check_access(endpoint: Endpoint, version: str | None, credentials: Credentials | None) -> None:
    """Check a sender (None: anonymous) against the version in the URL and the key of the endpoint.

    A URL without a version is of ``v1``. Keys are compared in constant time.

    :raises PushError: 404/102, an unknown version or the token of another one; 401/109, a v2
        endpoint without Authorization, or with another key than its own
    """
    if version == "v2":
        if credentials is None:
            raise _unauthorized(
                "missing authorization header: a v2 endpoint needs VAPID (RFC 8292)"
            )
        if endpoint.key_hash is not None:
            if not hmac.compare_digest(endpoint.key_hash, credentials.key_hash()):
                raise _unauthorized("Key mismatch")
            return
    elif endpoint.key_hash is None and version in ("v1", None):
        return
    raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token")


def parse_credentials(authorization: str, crypto_key: Mapping[str, str]) -> Credentials:
    """``crypto_key``: the parameters of Crypto-Key.

    :raises PushError: 401/109, too long, an unknown scheme, no token, or ``vapid`` without ``k``
    """
    if len(authorization) > MAX_AUTHORIZATION:
        what = f"expected at most {MAX_AUTHORIZATION} characters, got {len(authorization)}"
        raise _unauthorized(f"Invalid Authorization Header: {what}")
    words = authorization.split(None, 1)
    scheme = words[0].lower() if words else ""
    draft = _DRAFTS.get(scheme)
    if draft is None:
        raise _unauthorized("missing authorization header: expected vapid t=<token>,k=<key>")
    rest = words[1].strip() if len(words) == 2 else ""
    if draft == 1:
        if not rest:
            raise _unauthorized(f"missing authorization header: no token after {scheme}")
        return Credentials(authorization, 1, rest, crypto_key.get("p256ecdsa", ""), scheme)
    parameters: dict[str, str] = {}
    for piece in "".join(rest.split()).split(","):
        label, _, value = piece.partition("=")
        parameters.setdefault(label.lower(), value.strip('"'))
    for label in ("t", "k"):
        if not parameters.get(label):
            raise _unauthorized(f"missing authorization header: vapid without {label}=")
    return Credentials(authorization, 2, parameters["t"], parameters["k"])


def make_authorization(
    endpoint_url: str, key: EllipticCurvePrivateKey, *, expires: int, subject: str | None
) -> str:
    """The Authorization header of a sender (draft 2) for the push service of that endpoint.

    `expires`: seconds since the epoch; `subject`: a mailto: or https: URL of the sender.

    :raises ValueError: not an absolute URL
    """
    claims: dict[str, object] = {"aud": origin_of(endpoint_url), "exp": expires}
    if subject is not None:
        claims["sub"] = subject
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return f"vapid t={jwt.sign(claims, key)},k={encode_base64url(point)}"


class Verifier:
    """Verifies senders for the endpoints under ``audience`` (the public URL of the endpoints).

    :meth:`verify` is pure computation of about 0.1 ms and may run in any thread; the others are
    for the event loop.
    """

    __slots__ = ("_host", "_load_key", "_name", "_origin", "_verified")

    def __init__(
        self, audience: str, *, cache_size: int = 8192, key_cache_size: int = 4096
    ) -> None:
        self._origin = origin_of(audience)
        self._host = urlsplit(self._origin).hostname or ""
        # An international name in its own script.
        self._name = self._host.encode().decode("idna") if "xn--" in self._host else ""
        self._verified = RecentlyUsed[Credentials](cache_size)
        self._load_key = lru_cache(key_cache_size)(jwt.load_key)

    def credentials(self, authorization: str | None, crypto_key: str | None) -> Credentials | None:
        """The sender, None without Authorization.

        If the same Authorization was verified before, with its claims. In draft 1, where the key is
        in Crypto-Key, the key must be the same too; the rest of that header changes with each
        message.

        :raises PushError: 400/110, Crypto-Key cannot be parsed; 401/109, as
            :func:`parse_credentials`
        """
        parameters = parse_crypto_key(crypto_key) if crypto_key else {}
        if authorization is None:
            return None
        known = self._verified.find(authorization)
        if known is None or (known.draft == 1 and parameters.get("p256ecdsa") != known.key_text):
            return parse_credentials(authorization, parameters)
        return known

    def known(self, credentials: Credentials) -> Claims | None:
        """The claims, if the same sender was verified since these credentials were parsed."""
        known = self._verified.find(credentials.authorization)
        same = known is not None and known.key_text == credentials.key_text
        return known.claims if known is not None and same else None

    def verify(self, credentials: Credentials) -> Claims:
        """Verify the signature and parse the claims; :meth:`check` checks them at each use.

        :raises PushError: 401/109
        """
        key = credentials.key()
        try:
            token = jwt.parse(credentials.token)
            valid = jwt.verify(token, self._load_key(key))
        except ValueError as error:
            raise _unauthorized(f"Invalid Authorization Header: {error}") from None
        if not valid:
            raise _unauthorized("Invalid Authorization Header: the key did not sign this token")
        audiences = tuple(map(self._audience, _audiences(token.claims)))
        return Claims(_expiry(token.claims), audiences, subject=_subject(token.claims))

    def _audience(self, audience: object) -> str:
        """The origin of an audience; "" for what cannot be that of this service."""
        if not isinstance(audience, str):
            return ""
        if not audience.isascii():
            # IDNA takes a millisecond for a long name, so it is left to names that are our own.
            if len(audience) > 2 * len(self._origin) + 64:
                return ""
            audience = normalize("NFKC", audience.casefold())
            if self._name:
                audience = audience.replace(self._name, self._host, 1)
            if not audience.isascii():
                return ""
        try:
            return origin_of(audience)
        except ValueError:
            return ""

    def remember(self, credentials: Credentials, claims: Claims) -> None:
        """Cache the result of :meth:`verify`; the least recently used are dropped."""
        credentials.claims = claims
        credentials.token = ""  # it has been verified, and is in `authorization`
        self._verified.keep(credentials.authorization, credentials)

    def check(self, claims: Claims, now: float) -> None:
        """Check expiry and audience at ``now`` (epoch seconds).

        :raises PushError: 401/109
        """
        if now > claims.expires:
            raise _unauthorized("Invalid bearer token: Auth expired")
        if claims.expires - now > MAX_AGE:
            raise _unauthorized("Invalid bearer token: Auth > 24 hours in the future")
        if self._origin not in claims.audiences:
            raise _unauthorized(f"Invalid Audience Specified: expected {self._origin}")


def _expiry(claims: dict[str, object]) -> float:
    expires = claims.get("exp")
    if expires is None:
        raise _unauthorized("Invalid bearer token: No expiration")
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        raise _unauthorized("Invalid bearer token: Invalid expiration")
    try:
        return float(expires)
    except OverflowError:
        return math.inf


def _audiences(claims: dict[str, object]) -> Sequence[object]:
    audience = claims.get("aud")
    if audience is None or audience in ("", []):
        raise _unauthorized("No Audience Specified")
    # RFC 7519, section 4.1.3: one string, or an array of them of which one has to fit.
    return audience[:_MAX_AUDIENCES] if isinstance(audience, list) else (audience,)


def _subject(claims: dict[str, object]) -> str | None:
    subject = claims.get("sub")
    return subject if isinstance(subject, str) else None


def _unauthorized(detail: str) -> PushError:
    return PushError.invalid(Errno.INVALID_AUTHENTICATION, detail)
