"""The data that a bridge transports: members that the application on the device reads, as the page
Bridges lists them.

Rule: size limits apply to the final text, with everything in it.
"""

import re
from typing import Final

import orjson

from autopush.delivery.bridge_contract import RouterError
from autopush.shown import shown
from autopush.store.users import UserRecord
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

MAX_TTL: Final = 2_419_200
"""Seconds in 28 days: the longest time that Google and Apple keep a message."""

_TOKEN: Final = re.compile(r"[^ ]{8,}")
_SPACE: Final = re.compile(r"\s*([;,=])\s*")
_HEADERS: Final = {"encoding": "con", "encryption": "enc", "crypto_key": "cryptokey"}


def limited_data(notification: Notification, limit: int) -> dict[str, str]:
    """As `message_data`, of at most `limit` bytes as JSON.

    :raises RouterError: 413/104
    """
    data = message_data(notification)
    check_size(len(orjson.dumps(data)), limit)
    return data


def message_data(notification: Notification) -> dict[str, str]:
    """The members listed at the top of this module."""
    data = {"chid": notification.channel_id}
    if notification.data is None:
        return data
    headers = notification.headers or {}
    data["body"] = notification.data
    wanted = dict(_HEADERS)
    if "crypto_key" not in headers:
        wanted["encryption_key"] = "enckey"
    # The library on the phones takes a space as part of the name that follows it.
    data |= {
        member: _SPACE.sub(r"\1", headers[name].strip())
        for name, member in wanted.items()
        if name in headers
    }
    return data


def bridge_ttl(notification: Notification, shortest: int) -> int:
    """Seconds that the bridge keeps a message, between `shortest` and 28 days."""
    return min(MAX_TTL, max(notification.ttl, shortest))


def check_size(size: int, limit: int) -> None:
    """:raises RouterError: 413/104, over the limit; both are in bytes, after base64"""
    if size > limit:
        raise RouterError(
            Errno.PAYLOAD_TOO_LARGE,
            "This message is intended for a constrained device and is limited to "
            f"{limit} bytes. Converted buffer too long by {size - limit} bytes",
        )


def device_token(record: UserRecord) -> str:
    """:raises RouterError: 410/106, the record has none; the user is dropped"""
    token = (record.router_data or {}).get("token")
    if not isinstance(token, str) or not token:
        raise RouterError.unregistered("No device token is registered")
    return token


def check_token(
    router_data: dict[str, Value],
    *,
    missing: int = 401,
    form: re.Pattern[str] = _TOKEN,
    expected: str = "a text of at least 8 characters without spaces",
) -> None:
    """Check the token in a registration. `missing`: the status if there is none.

    :raises RouterError: 401/109 or 400/108
    """
    token = router_data.get("token")
    if token is None:
        errno = Errno.INVALID_AUTHENTICATION if missing == 401 else Errno.INVALID_ROUTER_TYPE
        raise RouterError(errno, "connect info missing 'token'", status=missing)
    if not isinstance(token, str) or form.fullmatch(token) is None:
        raise RouterError(
            Errno.INVALID_ROUTER_TYPE,
            f"Invalid token: expected {expected}, got {_kind(token)}",
            status=400,
        )


def _kind(token: Value) -> str:
    """A token as it may be shown: with the credentials of the bridge it reaches the device."""
    return f"a text of {len(token)} characters" if isinstance(token, str) else shown(token)
