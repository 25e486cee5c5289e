"""Google Cloud Messaging, and the legacy API of Firebase Cloud Messaging, which kept its format.

Google has shut down both; the routers remain for compatible servers and for records of the
original. A message has one registration ID, the device token, so a reply has one result: a message
ID or the name of an error, whose outcome is in `GCM_REFUSALS` and `FCM_REFUSALS`.

Rule: only an invalid device token drops a user; router data is written without the sender's key.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from autopush.bridges.payload import bridge_ttl, check_token, device_token, limited_data
from autopush.bridges.provider import Provider, Reply, retry_headers
from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.settings import Settings, StartupError
from autopush.settings.value_types import is_auth_key
from autopush.shown import shown
from autopush.store.users import UserRecord
from autopush.telemetry import logs
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

TIMEOUT: Final = 7.0
"""Seconds per message: `Provider` waits 3 for a free connection and 3 for the reply."""
MAX_DATA: Final = 4096
"""Bytes of the JSON of `data`."""
LATER: Final = "Please try request later."

_log = logs.get(__name__)


class Refusal(Struct, frozen=True):
    """The response to the sender. `is_critical`: the operator has to act; `drops_user`: the token
    will never work again.
    """

    status: int
    errno: Errno
    message: str = LATER
    is_critical: bool = False
    drops_user: bool = False


_BUSY: Final = Refusal(503, Errno.BACK_OFF)
GCM_REFUSALS: Final = {
    "": Refusal(410, Errno.ENDPOINT_UNAVAILABLE, "GCM recipient not available."),
    "NotRegistered": Refusal(
        410, Errno.INVALID_SUBSCRIPTION, "Endpoint requires client update", drops_user=True
    ),
    "DeviceMessageRateExceeded": _BUSY,
    "InternalServerError": _BUSY,
    "TopicsMessageRateExceeded": _BUSY,
    "Unavailable": _BUSY,
}
"""By the name of the error; the empty one is for all others."""
FCM_REFUSALS: Final = {
    "": Refusal(500, Errno.UNKNOWN, is_critical=True),
    "MissingRegistration": Refusal(
        500, Errno.FCM_MISSING_REGISTRATION, "The bridge got no token of this device"
    ),
    "InvalidRegistration": Refusal(
        410, Errno.ENDPOINT_UNAVAILABLE, "The token of this device is invalid", drops_user=True
    ),
    "NotRegistered": Refusal(
        410, Errno.EXPIRED_ENDPOINT, "Endpoint requires client update", drops_user=True
    ),
    "InvalidPackageName": Refusal(500, Errno.FCM_INVALID_PACKAGE, is_critical=True),
    "MismatchSenderid": Refusal(410, Errno.ENDPOINT_UNAVAILABLE, is_critical=True),
    "MessageTooBig": Refusal(413, Errno.PAYLOAD_TOO_LARGE, "The bridge finds this too large"),
    "InvalidDataKey": Refusal(500, Errno.FCM_INVALID_DATA_KEY, is_critical=True),
    "InvalidTtl": Refusal(400, Errno.MISSING_HEADER, "The bridge does not accept this TTL"),
    # The original answered 200: the sender took a lost message for a delivered one.
    "Unavailable": _BUSY,
    "InternalServerError": Refusal(500, Errno.UNKNOWN),
    "DeviceMessageRateExceeded": Refusal(
        503, Errno.FCM_DEVICE_RATE, "Too many messages for this device"
    ),
    "TopicsMessageRateExceeded": Refusal(503, Errno.FCM_TOPIC_RATE, is_critical=True),
}


class GcmApi(Struct, frozen=True, kw_only=True):
    """`keys`: by sender ID; `shortest_ttl`: seconds; `dry_run`: messages are only checked;
    `collapse_key`: of all messages, none if empty.
    """

    url: str
    keys: Mapping[str, str]
    refusals: Mapping[str, Refusal]
    shortest_ttl: int
    dry_run: bool
    collapse_key: str


class GcmRouter(Router):
    """Router type `gcm`."""

    timeout = TIMEOUT
    start_warning = "Google has shut down GCM; its devices have to be registered with FCM"

    def __init__(self, api: GcmApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._provider = Provider()
        # In lower case: Google writes both MismatchSenderid and MismatchSenderId.
        self._refusals = {name.lower(): (name, each) for name, each in api.refusals.items()}

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: ARG002
        check_token(router_data)
        if app_id not in self._api.keys:
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, f"Invalid SenderID: {shown(app_id)}")
        self._note_sender(router_data, app_id)

    def amend_endpoint_response(self, response: dict[str, object], router_data: RouterData) -> None:
        response["senderid"] = self.application(router_data)

    def application(self, router_data: RouterData) -> str:
        return sender_id(router_data)

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        router_data = record.router_data or {}
        sender = self.application(router_data)
        if not sender:
            reason = "Missing SenderID"
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, reason, critical_failure=reason)
        token = device_token(record)
        if (key := self._api.keys.get(sender)) is None:
            raise RouterError(
                Errno.BRIDGE_MISCONFIGURED,
                "The service has no key for the sender ID of this device",
            )
        data = limited_data(notification, MAX_DATA)
        ttl = bridge_ttl(notification, self._api.shortest_ttl)
        message = {
            "registration_ids": [token],
            "time_to_live": ttl,
            "delay_while_idle": False,
            "dry_run": self._api.dry_run or bool(router_data.get("dryrun")),
            "data": data,
        }
        if self._api.collapse_key:
            message["collapse_key"] = self._api.collapse_key
        reply = await self._provider.post(
            self._api.url, headers={"Authorization": f"key={key}"}, json=message
        )
        result = self._result(reply)
        if isinstance(error := result.get("error"), str):
            raise self._refusal(error, sender, reply)
        new_token = result.get("registration_id")
        if isinstance(new_token, str) and new_token not in ("", token):
            raise self._token_replaced(router_data, new_token)
        return RouterResponse(headers=(("TTL", str(ttl)),))

    async def close(self) -> None:
        await self._provider.close()

    def _note_sender(self, router_data: dict[str, Value], sender: str) -> None:
        router_data["creds"] = {"senderID": sender}

    def _result(self, reply: Reply) -> Mapping[str, object]:
        """:raises RouterError: 500/901, the key is refused; 503/201, the service is overloaded or
        failed; 500/999, no known reply
        """
        status = reply.status
        if status == 401:
            raise RouterError(
                Errno.BRIDGE_REFUSED,
                "The bridge does not accept the key of this service",
                status=500,
                is_outage=True,
            )
        if status == 429 or status >= 500:
            headers, text = retry_headers(reply.headers, self._clock()), LATER
            if headers:
                text = f"Please try request in {headers[0][1]} seconds."
            raise RouterError(Errno.BACK_OFF, text, headers=headers, is_outage=True)
        results = reply.document.get("results")
        result = results[0] if isinstance(results, list) and results else None
        if status == 200 and isinstance(result, dict) and result.keys() & {"message_id", "error"}:
            return result
        # 400 may be the fault of one message; the others concern all users.
        raise RouterError(Errno.UNKNOWN, LATER, is_outage=status != 400)

    def _refusal(self, error: str, sender: str, reply: Reply) -> RouterError:
        name, refusal = self._refusals.get(error.lower(), ("Unreported", self._refusals[""][1]))
        if refusal.is_critical:
            _log.critical("FCM refused a message", reason=name, application=sender)
        is_busy = refusal.status == 503
        return RouterError(
            refusal.errno,
            refusal.message,
            status=refusal.status,
            headers=retry_headers(reply.headers, self._clock()) if is_busy else (),
            router_data={} if refusal.drops_user else None,
        )

    def _token_replaced(self, router_data: RouterData, token: str) -> RouterError:
        """503/202: the sender's next attempt will go to the device's new token."""
        changed: dict[str, Value] = {**router_data, "token": token}
        if sender := sender_id(router_data):
            changed["creds"] = {"senderID": sender}  # without the key that the original kept there
        return RouterError(
            Errno.RETRY,
            "Please try request again.",
            headers=(("Retry-After", "1"),),
            router_data=changed,
        )


class FcmLegacyRouter(GcmRouter):
    """Router type `fcm`, with the sender ID as app ID."""

    start_warning = "Google has shut down the legacy API of FCM; fcm_creds configures its successor"

    def application(self, router_data: RouterData) -> str:
        app_id = router_data.get("app_id")
        return app_id if isinstance(app_id, str) and app_id else sender_id(router_data)

    def _note_sender(self, router_data: dict[str, Value], sender: str) -> None:
        router_data.pop("creds", None)  # of the original 1.33, or made up by the client
        router_data["app_id"] = sender


def sender_id(router_data: RouterData) -> str:
    """The sender ID in a record of GCM, or of FCM as the original 1.33 wrote it; else empty."""
    creds = router_data.get("creds")
    sender = creds.get("senderID") if isinstance(creds, Mapping) else None
    return sender if isinstance(sender, str) else ""


def create(settings: Settings, clock: Clock) -> GcmRouter:
    """:raises StartupError: a sender ID has no key"""
    api = GcmApi(
        url=settings.gcm_endpoint,
        keys=_server_keys("senderid_list", settings.senderid_list or {}),
        refusals=GCM_REFUSALS,
        shortest_ttl=settings.gcm_ttl,
        dry_run=settings.gcm_dryrun,
        collapse_key=settings.gcm_collapsekey,
    )
    return GcmRouter(api, clock)


def create_legacy_fcm(settings: Settings, clock: Clock) -> FcmLegacyRouter:
    """For the app IDs in `fcm_creds`, and `fcm_senderid` with its key `fcm_auth`.

    :raises StartupError: an app ID without its key, or a key without its app ID
    """
    keys = _server_keys("fcm_creds", settings.fcm_creds or {})
    if settings.fcm_auth and settings.fcm_senderid:
        keys |= _server_keys("fcm_auth", {settings.fcm_senderid: {"auth": settings.fcm_auth}})
    elif settings.fcm_auth:
        raise StartupError("fcm_auth needs fcm_senderid, the sender ID that it belongs to")
    elif settings.fcm_senderid:
        raise StartupError("fcm_senderid needs fcm_auth, the key of that sender ID")
    api = GcmApi(
        url=f"{settings.fcm_endpoint}/fcm/send",
        keys=keys,
        refusals=FCM_REFUSALS,
        shortest_ttl=settings.fcm_ttl,
        dry_run=settings.fcm_dryrun,
        collapse_key=settings.fcm_collapsekey,
    )
    return FcmLegacyRouter(api, clock)


def _server_keys(option: str, configured: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """:raises StartupError: a sender ID has no key that can be sent in a header"""
    keys = {}
    for sender, members in configured.items():
        key = members.get("auth")
        if not isinstance(key, str) or not is_auth_key(key):
            raise StartupError(f"{option}: {sender} needs a member 'auth' with its key")
        keys[sender] = key
    return keys
