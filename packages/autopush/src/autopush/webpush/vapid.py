"""VAPID (RFC 8292 and its first draft): who sends a push, proved by a signed token.

    Authorization: vapid t=<token>,k=<key>                                 draft 2, RFC 8292
    Authorization: Bearer <token>      Crypto-Key: p256ecdsa=<key>         draft 1
    Authorization: WebPush <token>     Crypto-Key: p256ecdsa=<key>         draft 1

Rule: a signature is verified once and remembered; expiry, audience and the endpoint's key are
judged at every use.
"""

import math
from typing import Final, Literal

import msgspec

from autopush.webpush import base64url, jwt
from autopush.webpush.cache import GenerationCache
from autopush.webpush.endpoint_token import key_hash
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.origin import origin_of
from autopush.webpush.parameters import parse_crypto_key

Scheme = Literal["vapid", "bearer", "webpush"]
Draft = Literal[1, 2]

MAX_AGE: Final = 86_400
"""Seconds a token may still be valid for (RFC 8292, section 2)."""

_MAX_AUDIENCES: Final = 16
_MAX_REMEMBERED: Final = 2048  # characters; a longer header is verified each time
_SCHEMES: Final[dict[str, Scheme]] = {"vapid": "vapid", "bearer": "bearer", "webpush": "webpush"}


class Credentials(msgspec.Struct, frozen=True, gc=False):
    """What the headers claim, taken apart and unverified; ``key_text`` is None if it is missing."""

    scheme: Scheme
    draft: Draft
    token: str
    key_text: str | None

    def key(self) -> bytes:
        """The public key, as sent.

        :raises PushError: 401/109, missing or not base64url
        """
        if not self.key_text:
            where = "k in Authorization" if self.draft == 2 else "p256ecdsa in Crypto-Key"
            raise _refused(f"missing authorization header: no {where}")
        try:
            return base64url.decode_lenient(self.key_text)
        except ValueError as error:
            raise _refused(f"Invalid Authorization Header: public key {error}") from None


class Verified(msgspec.Struct, frozen=True, gc=False):
    """A sender whose signature holds.

    ``audiences`` are origins, ``expires`` is in seconds since the epoch, ``key`` the bytes as sent,
    ``key_hash`` their SHA-256. ``subject`` is the ``sub`` claim when that is text.
    """

    scheme: Scheme
    draft: Draft
    key_text: str
    key: bytes
    key_hash: bytes
    expires: float
    audiences: tuple[str, ...]
    subject: str | None


def parse(authorization: str, crypto_key: str | None) -> Credentials:
    """Take the headers apart.

    :raises PushError: 400/110, Crypto-Key cannot be parsed; 401/109, no scheme of ours, no token,
        or ``vapid`` without ``k``
    """
    parameters = parse_crypto_key(crypto_key) if crypto_key else {}
    words = authorization.split(None, 1)
    scheme = _SCHEMES.get(words[0].lower()) if words else None
    if scheme is None:
        raise _refused("missing authorization header: expected vapid t=<token>,k=<key>")
    rest = words[1].strip() if len(words) == 2 else ""
    if scheme == "vapid":
        return _parse_vapid(rest)
    if not rest:
        raise _refused(f"missing authorization header: no token after {scheme}")
    return Credentials(scheme, 1, rest, parameters.get("p256ecdsa"))


def _parse_vapid(text: str) -> Credentials:
    parameters: dict[str, str] = {}
    for piece in "".join(text.split()).split(","):
        label, _, value = piece.partition("=")
        parameters.setdefault(label.lower(), value.strip('"'))
    for label in ("t", "k"):
        if not parameters.get(label):
            raise _refused(f"missing authorization header: vapid without {label}=")
    return Credentials("vapid", 2, parameters["t"], parameters["k"])


class Verifier:
    """Verifies senders for the endpoints under ``audience`` (the public URL of the endpoints).

    :meth:`verify` is pure computation of about 0.1 ms and may run in any thread; the others are
    for the event loop.
    """

    __slots__ = ("_keys", "_origin", "_verified")

    def __init__(self, audience: str, *, cache_size: int = 4096, key_cache_size: int = 4096):
        self._origin = origin_of(audience)
        self._verified: GenerationCache[str, Verified] = GenerationCache(cache_size)
        self._keys = jwt.KeyLoader(key_cache_size)

    def cached(self, authorization: str, crypto_key: str | None) -> Verified | None:
        """The sender of these headers, if they were verified before; :meth:`check` must follow.

        In draft 1 the key must be the same too; the rest of Crypto-Key changes with each message.

        :raises PushError: 400/110, Crypto-Key cannot be parsed
        """
        verified = self._verified.get(authorization)
        if verified is None or verified.draft == 2:
            return verified
        sent = parse_crypto_key(crypto_key).get("p256ecdsa") if crypto_key else None
        return verified if sent == verified.key_text else None

    def remember(self, authorization: str, verified: Verified) -> None:
        """Keep what :meth:`verify` returned for the credentials of this header."""
        if len(authorization) <= _MAX_REMEMBERED:
            self._verified.put(authorization, verified)

    def verify(self, credentials: Credentials) -> Verified:
        """Verify the signature and read the claims; the clock is left to :meth:`check`.

        :raises PushError: 401/109
        """
        key = credentials.key()
        try:
            token = jwt.parse(credentials.token)
            valid = jwt.verify(token, self._keys.load(key))
        except ValueError as error:
            raise _refused(f"Invalid Authorization Header: {error}") from None
        if not valid:
            raise _refused("Invalid Authorization Header: the key did not sign this token")
        subject = token.claims.get("sub")
        return Verified(
            scheme=credentials.scheme,
            draft=credentials.draft,
            key_text=credentials.key_text or "",
            key=key,
            key_hash=key_hash(key),
            expires=_expiry(token.claims),
            audiences=_audiences(token.claims),
            subject=subject if isinstance(subject, str) else None,
        )

    def check(self, verified: Verified, now: float) -> None:
        """Judge expiry and audience at ``now``, in seconds since the epoch.

        :raises PushError: 401/109
        """
        if now > verified.expires:
            raise _refused("Invalid bearer token: Auth expired")
        if verified.expires - now > MAX_AGE:
            raise _refused("Invalid bearer token: Auth > 24 hours in the future")
        if self._origin not in verified.audiences:
            raise _refused(f"Invalid Audience Specified: expected {self._origin}")


def _expiry(claims: dict[str, object]) -> float:
    expires = claims.get("exp")
    if expires is None:
        raise _refused("Invalid bearer token: No expiration")
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        raise _refused("Invalid bearer token: Invalid expiration")
    try:
        return float(expires)
    except OverflowError:
        return math.inf


def _audiences(claims: dict[str, object]) -> tuple[str, ...]:
    audience = claims.get("aud")
    if audience is None or audience in ("", []):
        raise _refused("No Audience Specified")
    # RFC 7519, section 4.1.3: one string, or an array of them of which one has to fit.
    found = []
    for text in audience[:_MAX_AUDIENCES] if isinstance(audience, list) else (audience,):
        try:
            found.append(origin_of(text) if isinstance(text, str) else "")
        except ValueError:
            found.append("")
    return tuple(found)


def _refused(detail: str) -> PushError:
    return PushError.invalid(Errno.INVALID_AUTHENTICATION, detail)
