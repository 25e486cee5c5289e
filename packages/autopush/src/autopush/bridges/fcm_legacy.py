"""The legacy API of Firebase Cloud Messaging, which Google has shut down: see `fcm` for today's.

What FCM answers, and what that means for the sender and the user, is the table `_REFUSALS`. Rule:
a user is dropped only where FCM says that the device's token is no longer valid.
"""

from typing import Final

from msgspec import Struct

from autopush.bridges.gcm_api import LATER, TIMEOUT, GcmApi, sender_id, server_keys
from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.settings import Settings, StartupError
from autopush.store.users import UserRecord
from autopush.telemetry import logs
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

_log = logs.get(__name__)


class Refusal(Struct, frozen=True):
    """The answer to an error of FCM. `is_critical`: the operator has to do something about it;
    `drops_user`: the device will never be reached with this token.
    """

    status: int
    errno: Errno
    message: str = LATER
    is_critical: bool = False
    drops_user: bool = False


_UNREPORTED: Final = Refusal(500, Errno.UNKNOWN, is_critical=True)
_REFUSALS: Final = {
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
    "Unavailable": Refusal(503, Errno.BACK_OFF),
    "InternalServerError": Refusal(500, Errno.UNKNOWN),
    "DeviceMessageRateExceeded": Refusal(
        503, Errno.FCM_DEVICE_RATE, "Too many messages for this device"
    ),
    "TopicsMessageRateExceeded": Refusal(503, Errno.FCM_TOPIC_RATE, is_critical=True),
}
_BY_NAME: Final = {name.lower(): (name, refusal) for name, refusal in _REFUSALS.items()}
"""In lower case: Google writes both MismatchSenderid and MismatchSenderId."""


class FcmLegacyRouter(Router):
    """Delivers to users of type `fcm`. Their app ID is the sender ID."""

    timeout = TIMEOUT
    start_warning = "Google has shut down the legacy API of FCM; fcm_creds configures its successor"

    def __init__(self, api: GcmApi) -> None:
        self._api = api

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: ARG002
        self._api.check_registration(router_data, app_id)
        router_data.pop("creds", None)  # of the original 1.33, or made up by the client
        router_data["app_id"] = app_id

    def amend_endpoint_response(self, response: dict[str, object], router_data: RouterData) -> None:
        response["senderid"] = self.application(router_data)

    def application(self, router_data: RouterData) -> str:
        return super().application(router_data) or sender_id(router_data)

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        app_id = self.application(record.router_data or {})
        result = await self._api.send(notification, record, app_id)
        if result.error is None:
            return RouterResponse(headers=result.headers)
        name, refusal = _BY_NAME.get(result.error.lower(), ("Unreported", _UNREPORTED))
        if refusal.is_critical:
            _log.critical("FCM refused a message", reason=name, application=app_id)
        raise RouterError(
            refusal.errno,
            refusal.message,
            status=refusal.status,
            headers=result.headers if refusal.status == 503 else (),
            router_data={} if refusal.drops_user else None,
        )

    async def close(self) -> None:
        await self._api.close()


def legacy_router(settings: Settings, clock: Clock) -> FcmLegacyRouter:
    """The router of the app IDs in `fcm_creds`, and of `fcm_senderid`, whose key is `fcm_auth`.

    :raises StartupError: an app ID without its key, or a key without its app ID
    """
    keys = server_keys("fcm_creds", settings.fcm_creds or {})
    if settings.fcm_auth and settings.fcm_senderid:
        keys |= server_keys("fcm_auth", {settings.fcm_senderid: {"auth": settings.fcm_auth}})
    elif settings.fcm_auth:
        raise StartupError("fcm_auth needs fcm_senderid, the sender ID that it belongs to")
    elif settings.fcm_senderid:
        raise StartupError("fcm_senderid needs fcm_auth, the key of that sender ID")
    return FcmLegacyRouter(
        GcmApi(
            f"{settings.fcm_endpoint}/fcm/send",
            keys,
            shortest_ttl=settings.fcm_ttl,
            dry_run=settings.fcm_dryrun,
            collapse_key=settings.fcm_collapsekey,
            clock=clock,
        )
    )
