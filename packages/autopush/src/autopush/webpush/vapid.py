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
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.hosts import origin_of
from autopush.recently_used import RecentlyUsed
from autopush.shown import MAX_SHOWN, shown, span
from autopush.webpush import jwt
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.headers import parse_crypto_key
from autopush.webpush.public_keys import (
    decode_public_key,
    load_key,
    parse_public_key,
    uncompressed_point,
)
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.tokens import Endpoint, key_hash

Draft = Literal[1, 2]

MAX_AGE: Final = 86_400
"""Seconds a token may still be valid for (RFC 8292, section 2)."""

MAX_AUTHORIZATION: Final = 4096
"""Characters; every header that is accepted can be remembered."""

_MAX_AUDIENCES: Final = 16
_MAX_NAMED: Final = 4
"""Values that are listed in a refusal."""
_DRAFTS: Final[Mapping[str, Draft]] = {"vapid": 2, "bearer": 1, "webpush": 1}


class Claims(msgspec.Struct, frozen=True, gc=False):
    """Verified. ``expires``: epoch seconds. ``audiences``: origins, and in quotes what is none.
    ``subject``: a contact.
    """

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
        """The public key, in the form that was sent.

        :raises PushError: 401/109, missing or none
        """
        if not self.key_text:
            if self.draft == 2:
                raise _missing("no k in Authorization")
            hint = ""
            if self.token.lower().startswith(("t=", "k=")):
                hint = f"; t= and k= have the scheme vapid: {EXPECTED}"
            raise _missing(f"no p256ecdsa in Crypto-Key, which {self.scheme} needs{hint}")
        try:
            return decode_public_key(self.key_text)
        except ValueError as error:
            raise _unauthorized(f"Invalid Authorization Header: public key: {error}") from None

    def key_hash(self) -> bytes:
        """SHA-256 of :meth:`key`, cached; raises as that does."""
        if self._key_hash is None:
            self._key_hash = key_hash(self.key())
        return self._key_hash

    def point(self) -> bytes:
        """The public key as 65 bytes, whichever form was sent; cached.

        :raises PushError: as :meth:`key`
        """
        if self._point is None:
            self._point = uncompressed_point(self.key())
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
                points.add(parse_public_key(text))
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
            if not (
                hmac.compare_digest(endpoint.key_hash, credentials.key_hash())
                # The sender may write its key in another form than the subscription.
                or hmac.compare_digest(endpoint.key_hash, key_hash(credentials.point()))
            ):
                raise _unauthorized(
                    "Key mismatch: the subscription was made with another key than the sender's, "
                    f"which has {len(credentials.key())} bytes"
                )
            return
    elif endpoint.key_hash is None and version in ("v1", None):
        return
    own = "v1" if endpoint.key_hash is None else "v2"
    got = "no version" if version is None else shown(version)
    raise PushError.invalid(
        Errno.INVALID_ENDPOINT, f"invalid token: the URL of it has the version {own}, got {got}"
    )


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
        raise _missing(f"{EXPECTED}, {_other_scheme(words)}")
    rest = words[1].strip() if len(words) == 2 else ""
    if draft == 1:
        if not rest:
            raise _missing(f"no token after {scheme}")
        return Credentials(authorization, 1, rest, crypto_key.get("p256ecdsa", ""), scheme)
    parameters: dict[str, str] = {}
    for piece in "".join(rest.split()).split(","):
        label, _, value = piece.partition("=")
        parameters.setdefault(label.lower(), value.strip('"'))
    for label in ("t", "k"):
        if not parameters.get(label):
            raise _missing(f"vapid without {label}=: {_wrong_parameters(rest, label)}")
    return Credentials(authorization, 2, parameters["t"], parameters["k"])


EXPECTED: Final = "expected vapid t=<token>,k=<key>"
# A second parameter, after whatever was written in place of the comma.
_PARAMETER: Final = re.compile(
    r"([^A-Za-z0-9_.=,\"'-])[\s\"']{0,8}[tk]\s{0,8}=|[\s\"']{1,8}[tk]\s{0,8}=", re.IGNORECASE
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,15}:?")
_LABEL: Final = re.compile(r"[A-Za-z0-9_-]{1,16}")


def _missing(detail: str) -> PushError:
    return _unauthorized(f"missing authorization header: {detail}")


def _other_scheme(words: list[str]) -> str:
    """What stands in place of the scheme; never a credential that follows it."""
    if not words:
        return "got an empty header"
    first = words[0]
    if first.lower().startswith(("t=", "k=")):
        return "the scheme vapid is missing before t= and k="
    if first.lower().rstrip(":") in _DRAFTS:
        return f"got a colon after the scheme: {first}"
    if first.lower().startswith(("vapid", "webpush", "bearer")):
        return "got no space after the scheme"
    if first.count(".") == 2:
        return "got a token without a scheme"
    if len(words) == 2 and _SCHEME.fullmatch(first):
        return f"got the scheme {first}"
    return f"got no scheme that is known in a header of {sum(map(len, words))} characters"


def _wrong_parameters(text: str, missing: str) -> str:
    """Why ``t=`` or ``k=`` was not found in what follows the scheme ``vapid``."""
    between = f"{EXPECTED}, with a comma between t= and k="
    if (match := _PARAMETER.search(text)) is not None:
        return f"{between}, got {shown(match[1] or match[0][0])} in place of the comma"
    labels = []
    for piece in text.split(",", _MAX_NAMED)[:_MAX_NAMED]:
        label, equals, value = piece.partition("=")
        label = label.strip()
        if label.lower() == missing and equals:
            return f"{EXPECTED}, got {missing}= without a value"
        if label[1:2] == ":" and label[0].lower() in "tk":
            return f"{EXPECTED}, got {label[0]}: in place of {label[0]}="
        # A piece without a label is a token or a key, whose padding looks like an empty value.
        is_label = bool(equals and value.strip("=")) and _LABEL.fullmatch(label) is not None
        labels.append(
            f"{label}=" if is_label else f"{len(piece.strip())} characters without t= or k="
        )
    return f"{EXPECTED}, got {', '.join(labels)}" if text else f"{EXPECTED}, got nothing"


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

    __slots__ = ("_load_key", "_origin", "_verified")

    def __init__(
        self, audience: str, *, cache_size: int = 8192, key_cache_size: int = 4096
    ) -> None:
        self._origin = origin_of(audience)
        self._verified = RecentlyUsed[Credentials](cache_size)
        self._load_key = lru_cache(key_cache_size)(load_key)

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
            raise _unauthorized(
                "Invalid Authorization Header: the key did not sign this token"
                + _odd_signature(token.signature)
            )
        audiences = _audiences(token.claims, self._origin)
        return Claims(_expiry(token.claims), audiences, subject=_subject(token.claims))

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
            raise _unauthorized(
                f"Invalid bearer token: Auth expired {_expired(claims.expires, now)}"
            )
        if claims.expires - now > MAX_AGE:
            too_late = _too_late(claims.expires, now)
            raise _unauthorized(
                f"Invalid bearer token: Auth > 24 hours in the future: exp is {too_late}"
            )
        if self._origin not in claims.audiences:
            given = ", ".join(each[:MAX_SHOWN] for each in claims.audiences[:_MAX_NAMED])
            raise _unauthorized(f"Invalid Audience Specified: expected {self._origin}, got {given}")


EXP: Final = "exp must be a number of seconds since 1970"
_SPELLINGS: Final = {"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_NEAR: Final = 400 * MAX_AGE
"""Seconds: an expiry at most this far from now was meant as one."""


def _expiry(claims: dict[str, object]) -> float:
    if "exp" not in claims:
        raise _unauthorized(f"Invalid bearer token: No expiration: {EXP}, it is missing")
    expires = claims["exp"]
    if expires is None:
        raise _unauthorized(f"Invalid bearer token: No expiration: {EXP}, got null")
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        hint = ""
        if isinstance(expires, str):
            is_number = expires.strip().replace(".", "", 1).isdecimal()
            hint = ", a number in quotes" if is_number else ", a text"
        raise _unauthorized(
            f"Invalid bearer token: Invalid expiration: {EXP}, got {shown(expires)}{hint}"
        )
    try:
        return float(expires)
    except OverflowError:
        return math.inf


def _expired(expires: float, now: float) -> str:
    age = f"{now - expires:.15g} s ({span(now - expires)})"
    text = f"{age} ago: exp is {expires:.15g}, the time is {now:.0f}"
    if 0 < expires <= _NEAR:
        return f"{text}; it looks like seconds from now, but {EXP}"
    return text


def _too_late(expires: float, now: float) -> str:
    if math.isinf(expires):
        return "beyond all dates"
    text = f"{expires:.15g}, {expires - now:.15g} s ({span(expires - now)}) from now"
    for unit, factor in _SPELLINGS.items():
        if abs(expires / factor - now) < _NEAR:
            return f"{text}; it looks like {unit}, but {EXP}"
    return text


def _odd_signature(signature: bytes) -> str:
    if len(signature) == 64 or signature[:1] == b"\x30":
        return ""
    return f": expected a signature of 64 bytes (r and s), got {len(signature)}"


def _audiences(claims: dict[str, object], expected: str) -> tuple[str, ...]:
    """Origins; what is none is shown as it was sent, in quotes, so that it equals no origin.
    `expected`: the usual one, which is canonical.
    """
    audience = claims.get("aud")
    if audience is None or audience in ("", []):
        raise _unauthorized(
            "No Audience Specified: aud must be the origin of the endpoint, "
            + (f"got {shown(audience)}" if "aud" in claims else "it is missing")
        )
    if audience == expected:
        return (expected,)
    # RFC 7519, section 4.1.3: one string, or an array of them of which one has to fit.
    given = audience[:_MAX_AUDIENCES] if isinstance(audience, list) else (audience,)
    return tuple(_origin_or_shown(each, expected) for each in given)


def _origin_or_shown(audience: object, expected: str) -> str:
    # IDNA is left to audiences that may be ours: a long name takes most of a millisecond.
    may_be_ours = isinstance(audience, str) and (
        audience.isascii() or ("xn--" in expected and len(audience) <= 2 * len(expected))
    )
    if not isinstance(audience, str) or not may_be_ours:
        return shown(audience)
    try:
        return origin_of(audience)
    except ValueError:
        return shown(audience)


def _subject(claims: dict[str, object]) -> str | None:
    subject = claims.get("sub")
    return subject if isinstance(subject, str) else None


def _unauthorized(detail: str) -> PushError:
    return PushError.invalid(Errno.INVALID_AUTHENTICATION, detail)
