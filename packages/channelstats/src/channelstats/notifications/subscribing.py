"""What a browser gives when it subscribes: `PushSubscription.toJSON()`.

Rule: what is stored can be sent to; everything else is refused, by the name of the field.
"""

from base64 import urlsafe_b64decode
from collections.abc import Collection
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from channelstats.notifications.endpoints import check_endpoint
from channelstats.tables.subscriptions import Subscription

MOST: Final = 5000
"""Subscriptions of one dashboard."""

_AUTH: Final = 16
"""Bytes of the secret (RFC 8291, section 3.2)."""


class _Keys(msgspec.Struct, frozen=True):
    p256dh: str
    auth: str


class _Given(msgspec.Struct, frozen=True):
    endpoint: str
    keys: _Keys


class _Endpoint(msgspec.Struct, frozen=True):
    endpoint: str


def subscription_of(
    body: bytes, *, from_here: bool, own_hosts: Collection[str] = ()
) -> Subscription:
    """Read a subscription. ``from_here``: see `endpoints`.

    :raises ValueError: it cannot be sent to, or must not; says which field and what was expected
    """
    given = msgspec.json.decode(body, type=_Given)
    check_endpoint(given.endpoint, from_here=from_here, own_hosts=own_hosts)
    point = _bytes(given.keys.p256dh, "keys.p256dh")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        raise ValueError("keys.p256dh: expected a point of the curve P-256") from None
    if len(_bytes(given.keys.auth, "keys.auth")) != _AUTH:
        raise ValueError(f"keys.auth: expected {_AUTH} bytes")
    return Subscription(given.endpoint, given.keys.p256dh, given.keys.auth)


def endpoint_of(body: bytes) -> str:
    """The endpoint that somebody wants to be forgotten.

    :raises ValueError: there is none
    """
    return msgspec.json.decode(body, type=_Endpoint).endpoint


def _bytes(text: str, field: str) -> bytes:
    bare = text.rstrip("=")
    fit = bare.isascii() and bare.replace("-", "a").replace("_", "a").isalnum()
    if not fit or len(bare) % 4 == 1 or len(text) - len(bare) > 2:
        raise ValueError(f"{field}: expected base64url")
    return urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
