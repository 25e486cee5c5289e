"""The bridge to Apple's push service (APNs) over HTTP/2.

A notification is one `POST /3/device/{token}`. Its body is the JSON object of `payload` with `ver`,
the message id, and `aps`, which iOS itself reads.

Rule: a user is dropped only when Apple reports the device gone, and not by a report that is older
than the registration.
"""

import asyncio
import hashlib
import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final
from urllib.parse import quote

import orjson

from autopush.bridges.apns_credentials import ProviderToken, ReleaseChannel, release_channels
from autopush.bridges.payload import MAX_TTL, check_size, check_token, device_token, message_data
from autopush.bridges.provider import BUSY_RETRY, Provider, Reply, overloaded, refused
from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.net.http2_client import Http2Client
from autopush.settings import Settings
from autopush.shown import shown
from autopush.store.users import UserRecord
from autopush.telemetry import logs
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

MAX_PAYLOAD: Final = 4096
"""Bytes of the whole JSON."""
MAX_DEPTH: Final = 16
"""Nesting of objects and arrays in `aps`."""
TIMEOUT: Final = 20.0
MAX_TOKEN: Final = 400
"""Characters. Apple's have up to 200; a path too long for Apple would end a shared connection."""

DEFAULT_APS: Final[Mapping[str, object]] = {
    "mutable-content": 1,
    "alert": {
        "title-loc-key": "SentTab.NoTabArrivingNotification.title",
        "loc-key": "SentTab.NoTabArrivingNotification.body",
    },
}
"""iOS shows this if the application's extension does not replace it in time."""

# What Apple's reasons mean for a notification ("Handling notification responses from APNs").
# Reasons that are not listed are treated like FAULTS: 502.
GONE: Final = frozenset(
    {
        "BadDeviceToken",  # 400: no token of this server (production or sandbox)
        "DeviceTokenNotForTopic",  # 400: of another application
        "ExpiredToken",  # 410
        "Unregistered",  # 410: the application was removed from the device
    }
)
REFUSED: Final = frozenset(
    {
        "BadTopic",  # 400
        "MissingTopic",  # 400
        "TopicDisallowed",  # 400
        "BadCertificate",  # 403, like those that follow
        "BadCertificateEnvironment",
        "BadEnvironmentKeyIdInToken",
        "ExpiredProviderToken",
        "Forbidden",
        "InvalidProviderToken",
        "MissingProviderToken",
        "UnrelatedKeyIdInToken",
    }
)
"""Wrong credentials or topic: every user of the channel is affected."""
FAULTS: Final = frozenset(
    {
        "BadCollapseId",  # 400, like those that follow
        "BadExpirationDate",
        "BadMessageId",
        "BadPriority",
        "DuplicateHeaders",
        "IdleTimeout",
        "InvalidPushType",
        "MissingDeviceToken",
        "PayloadEmpty",
        "BadPath",  # 404
        "MethodNotAllowed",  # 405
    }
)
OVERLOADED: Final = frozenset(
    {
        "TooManyProviderTokenUpdates",  # 429
        "TooManyRequests",  # 429: for this device
        "InternalServerError",  # 500
        "ServiceUnavailable",  # 503
        "Shutdown",  # 503
    }
)
EXPECTED: Final = OVERLOADED | {"ExpiredToken", "Unregistered"}
"""Reasons that occur with a correct configuration; the others are logged."""
_KNOWN: Final = GONE | REFUSED | FAULTS | OVERLOADED | {"PayloadTooLarge"}

_log = logs.get(__name__)


def create(settings: Settings, clock: Clock) -> Router:
    """:raises StartupError: `apns_creds` is wrong"""
    return ApnsRouter(release_channels(settings.apns_creds or {}, clock), clock)


class ApnsRouter(Router):
    """Router type `apns`; the app id in its URLs is a release channel."""

    timeout = TIMEOUT

    def __init__(self, channels: Mapping[str, ReleaseChannel], clock: Clock) -> None:
        self._channels = channels
        self._clock = clock
        self._providers = {
            name: Provider("APNS", client=Http2Client(channel.url, channel.context, channel.limits))
            for name, channel in channels.items()
        }

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: ARG002
        check_token(router_data, missing=400)
        if len(str(router_data["token"])) > MAX_TOKEN:
            raise RouterError(
                Errno.INVALID_ROUTER_TYPE,
                f"Invalid token: expected at most {MAX_TOKEN} characters, "
                f"got {len(str(router_data['token']))}",
                status=400,
            )
        if app_id not in self._channels:
            raise RouterError(
                Errno.INVALID_ROUTER_TYPE, f"Unknown release channel: {shown(app_id)}", status=400
            )
        if router_data.get("rel_channel") not in self._channels:
            router_data["rel_channel"] = app_id
        if "aps" in router_data:
            _check_aps(_parsed_aps(router_data["aps"]), router_data["aps"])

    def application(self, router_data: RouterData) -> str:
        return str(router_data.get("rel_channel", ""))

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        name = self.application(record.router_data or {})
        channel = self._channels.get(name)
        if channel is None:
            raise RouterError(
                Errno.BRIDGE_MISCONFIGURED, "The release channel of this device is not configured"
            )
        token = device_token(record)
        if len(token) > MAX_TOKEN:
            raise RouterError.unregistered("The device token is none of Apple's")
        aps = _parsed_aps((record.router_data or {}).get("aps")) or DEFAULT_APS
        payload = {**message_data(notification), "ver": notification.version, "aps": _plain(aps)}
        body = orjson.dumps(payload)
        check_size(len(body), MAX_PAYLOAD)
        ttl = min(notification.ttl, MAX_TTL)
        # The client chose the token: it must stay one path segment.
        url = f"{channel.url}/3/device/{quote(token, safe='')}"
        headers = self._notification_headers(notification, aps, ttl, channel.topic)
        reply = await self._send(name, channel.token, url, headers, body)
        if reply.status != 200:
            raise self._refusal(name, reply, record)
        return RouterResponse(headers=(("TTL", str(ttl)),))

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._providers.values()))

    def _notification_headers(
        self, notification: Notification, aps: Mapping[str, object], ttl: int, topic: str
    ) -> dict[str, str]:
        shows_something = not aps.keys().isdisjoint(("alert", "badge", "sound"))
        is_background = aps.get("content-available") == 1 and not shows_something
        is_urgent = notification.urgency not in ("very-low", "low") and not is_background
        headers = {
            "apns-id": str(uuid.uuid4()),
            "apns-topic": topic,
            "apns-push-type": "background" if is_background else "alert",
            "apns-priority": "10" if is_urgent else "5",
            # 0: Apple tries once and does not keep it, which is what a TTL of 0 means.
            "apns-expiration": str(int(self._clock()) + ttl if ttl else 0),
        }
        if notification.topic:
            # At most 64 bytes, and distinct from topics of the device's other subscriptions.
            replaces = f"{notification.channel_id}:{notification.topic}"
            headers["apns-collapse-id"] = hashlib.sha256(replaces.encode()).hexdigest()
        return headers

    async def _send(
        self,
        name: str,
        tokens: ProviderToken | None,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        # A request may arrive twice if its connection is lost. The application drops one of them by
        # `ver`; it could not drop a repetition by the sender, which is a new message.
        post = partial(
            self._providers[name].post, url, json=body, application=name, idempotent=True
        )
        if tokens is None:
            return await post(headers=headers)
        token = tokens.current()
        reply = await post(headers={**headers, "authorization": f"bearer {token}"})
        if reply.status == 403 and reply.document.get("reason") == "ExpiredProviderToken":
            other = tokens.replacement(token)
            if other is not None:
                return await post(headers={**headers, "authorization": f"bearer {other}"})
        return reply

    def _refusal(self, name: str, reply: Reply, record: UserRecord) -> RouterError:
        reason = reply.document.get("reason")
        if not isinstance(reason, str) or reason not in _KNOWN:
            reason = ""
        status = reply.status
        if reason not in EXPECTED:
            _log.warning(
                "APNs did not take a message",
                application=name,
                status=status,
                reason=reason or "not documented",
            )
        if status == 410 or reason in GONE:
            since = reply.document.get("timestamp")
            if isinstance(since, int) and record.connected_at > since:
                return RouterError.retry_after(BUSY_RETRY, "The device has registered again")
            return RouterError.unregistered()
        if status == 413 or reason == "PayloadTooLarge":
            return RouterError(Errno.PAYLOAD_TOO_LARGE, "The payload is too large for this device")
        if status == 403 or reason in REFUSED:
            return refused()
        if status in (429, 500, 503) or reason in OVERLOADED:
            return overloaded(reply, self._clock(), is_outage=status >= 500)
        return RouterError(
            Errno.UNKNOWN,
            "APNS returned an error processing request",
            status=502,
            # A made-up token can cause a 4xx.
            is_outage=not 400 <= status < 500,
        )


def _parsed_aps(value: object) -> Mapping[str, object] | None:
    """From an object, as the original stores it, or JSON text, as its successor does."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, Mapping) else None


def _check_aps(aps: Mapping[str, object] | None, value: object) -> None:
    problem = None
    if aps is None:
        problem = f"expected a JSON object, got {shown(value)}"
    elif _depth(aps) > MAX_DEPTH:
        problem = f"more than {MAX_DEPTH} objects within each other"
    elif _json_size(aps) > MAX_PAYLOAD:
        problem = f"expected at most {MAX_PAYLOAD} bytes, with numbers of 64 bits"
    if problem is not None:
        raise RouterError(Errno.INVALID_ROUTER_TYPE, f"Invalid aps: {problem}", status=400)


def _json_size(aps: Mapping[str, object]) -> int:
    try:
        return len(orjson.dumps(aps))
    except orjson.JSONEncodeError:  # a number or text that orjson cannot encode
        return MAX_PAYLOAD + 1


def _depth(value: object, depth: int = 0) -> int:
    """Nesting depth; counting stops just above `MAX_DEPTH`."""
    if depth > MAX_DEPTH:
        return depth
    if isinstance(value, Mapping):
        return max((_depth(member, depth + 1) for member in value.values()), default=depth + 1)
    if isinstance(value, list):
        return max((_depth(member, depth + 1) for member in value), default=depth + 1)
    return depth


def _plain(value: object) -> object:
    """A stored value for JSON; whole numbers become int, as Apple requires."""
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | AbstractSet):
        return [_plain(member) for member in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if isinstance(value, bytes) else value
