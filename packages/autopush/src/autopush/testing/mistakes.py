"""What a sender did wrong in a push, in words: all of it, not only what the service refuses first,
and also what this service tolerates and others do not.

The service's own checks say what it would refuse; the rest are requirements of RFC 8030, 8188, 8291
and 8292, and of push services that senders meet.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from autopush.shown import shown
from autopush.testing.user_agents import UnreadableBody, UserAgentKeys
from autopush.webpush import jwt
from autopush.webpush.errors import INVALID_PREFIX, PushError
from autopush.webpush.headers import (
    MAX_DATA,
    MAX_TTL,
    check_encryption,
    check_topic,
    check_ttl,
    check_urgency,
)
from autopush.webpush.tokens import EndpointTokens
from autopush.webpush.urgency import LEVELS, NORMAL
from autopush.webpush.vapid import Credentials, Verifier, check_access

_HEADER: Final = 86
"""Bytes of an aes128gcm body before the record."""
_CONTACTS: Final = ("mailto:", "https:")


def mistakes(
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tokens: EndpointTokens,
    keys: UserAgentKeys | None,
    now: float,
) -> list[str]:
    """`path`, `headers` (lower-case names), `body`: of the push. `keys`: of its subscription, None
    if a browser has them. `now`: epoch seconds.
    """
    in_message = [*_in_headers(headers), *_in_body(headers, body, keys)]
    return [*in_message, *_in_vapid(path, headers, tokens, now)]


def _refusal(check: Callable[..., object], *given: object) -> Iterator[str]:
    """What a check of the service says."""
    try:
        check(*given)
    except PushError as error:
        yield error.message.removeprefix(INVALID_PREFIX)


def _in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    yield from _refusal(check_ttl, headers.get("ttl"), MAX_TTL)
    ttl = headers.get("ttl", "")
    if ttl.isdecimal() and len(ttl) < 19 and int(ttl) > MAX_TTL:
        yield f"TTL is {ttl} seconds; push services keep a message for at most {MAX_TTL} (30 days)"
    topic = headers.get("topic")
    yield from _refusal(check_topic, topic)
    if topic == "":
        yield "Topic is empty: leave it out"
    urgency = headers.get("urgency", NORMAL)
    yield from _refusal(check_urgency, urgency)
    if "," not in urgency and urgency not in LEVELS:
        yield f"Urgency is {shown(urgency)}, expected one of {', '.join(LEVELS)}"


def _in_body(headers: Mapping[str, str], body: bytes, keys: UserAgentKeys | None) -> Iterator[str]:
    if not body:
        return
    if len(body) > MAX_DATA:
        yield f"the body has {len(body)} bytes; push services accept {MAX_DATA} after encryption"
    yield from _refusal(check_encryption, headers)
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in ("aesgcm", "aesgcm128"):
        yield f"Content-Encoding {encoding} is a former draft; expected aes128gcm (RFC 8291)"
    if encoding == "aes128gcm":
        for name in ("encryption", "encryption-key"):
            if name in headers:
                yield f"{name.title()} is of a former draft; aes128gcm has salt and key in the body"
        if len(body) > _HEADER and int.from_bytes(body[16:20], "big") == len(body) - _HEADER:
            yield (
                f"the aes128gcm record size is {len(body) - _HEADER}, the size of the record; it "
                "must be greater (RFC 8291, section 4)"
            )
    if keys is not None and encoding in ("aes128gcm", "aesgcm"):
        try:
            keys.decrypt(body, headers)
        except UnreadableBody as error:
            yield str(error)


def _in_vapid(
    path: str, headers: Mapping[str, str], tokens: EndpointTokens, now: float
) -> Iterator[str]:
    *_, version, token = ("", *path.split("/"))
    verifier = Verifier(tokens.endpoint_url)
    try:
        credentials = verifier.credentials(headers.get("authorization"), headers.get("crypto-key"))
    except PushError as error:
        yield error.message.removeprefix(INVALID_PREFIX)
        return
    try:
        endpoint = tokens.open(token)
    except PushError as error:
        yield error.message.removeprefix(INVALID_PREFIX)
    else:
        yield from _refusal(
            check_access, endpoint, None if version == "wpush" else version, credentials
        )
    if credentials is None:
        if version != "v2":  # for which that was said
            yield "not signed: no VAPID token (RFC 8292), without which most services refuse a push"
        return
    try:
        claims = verifier.verify(credentials)
    except PushError as error:
        yield error.message.removeprefix(INVALID_PREFIX)
    else:
        yield from _refusal(verifier.check, claims, now)
    yield from _tolerated(credentials, tokens.endpoint_url)


def _tolerated(credentials: Credentials, origin: str) -> Iterator[str]:
    """What this service understands, and others refuse."""
    if credentials.draft == 1:
        yield "Authorization is of a former draft; expected vapid t=<token>,k=<key> (RFC 8292)"
    for name, text in (("token", credentials.token), ("public key", credentials.key_text)):
        if odd := sorted({*text} & {*"=+/"}):
            yield f"the {name} has {' '.join(odd)}: base64url has - and _, and no padding"
    try:
        token, size = jwt.parse(credentials.token), len(credentials.key())
    except (ValueError, PushError):
        return  # said above
    if len(token.signature) != 64:
        yield f"the signature has {len(token.signature)} bytes, expected r and s in 64, not DER"
    if size != 65:
        yield f"the public key has {size} bytes, expected 65: 04 and the point"
    audience = token.claims.get("aud")
    if isinstance(audience, str) and audience != origin and audience.startswith(origin):
        yield f"aud is {shown(audience)}, expected the origin alone: {origin}"
    subject = token.claims.get("sub")
    if not isinstance(subject, str) or not subject:
        yield "no sub in the token: a mailto: or https: URL, which Apple demands"
    elif not subject.startswith(_CONTACTS) or " " in subject:
        yield f"sub is {shown(subject)}, expected a mailto: or https: URL"
