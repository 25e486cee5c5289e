"""Google Cloud Messaging, which Google has shut down.

The router stays for servers that offer the same API, and for the records of the original.
"""

from typing import Final

from autopush.bridges.gcm_api import LATER, TIMEOUT, GcmApi, sender_id, server_keys
from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.settings import Settings
from autopush.store.users import UserRecord
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

_PASSING: Final = frozenset(
    {
        "DeviceMessageRateExceeded",
        "InternalServerError",
        "TopicsMessageRateExceeded",
        "Unavailable",
    }
)
"""Errors after which the same message may be accepted."""


class GcmRouter(Router):
    """Delivers to users of type `gcm`.

    Rule: router data that is written has the sender ID and never its key.
    """

    timeout = TIMEOUT
    start_warning = "Google has shut down GCM; its devices have to be registered with FCM"

    def __init__(self, api: GcmApi) -> None:
        self._api = api

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: ARG002
        self._api.check_registration(router_data, app_id)
        router_data["creds"] = {"senderID": app_id}

    def amend_endpoint_response(self, response: dict[str, object], router_data: RouterData) -> None:
        response["senderid"] = sender_id(router_data)

    def application(self, router_data: RouterData) -> str:
        return sender_id(router_data)

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        sender = sender_id(record.router_data or {})
        result = await self._api.send(notification, record, sender)
        if result.error is None:
            return RouterResponse(headers=result.headers)
        if result.error == "NotRegistered":
            raise RouterError.unregistered("Endpoint requires client update")
        if result.error in _PASSING:
            raise RouterError(Errno.BACK_OFF, LATER, headers=result.headers)
        raise RouterError(Errno.ENDPOINT_UNAVAILABLE, "GCM recipient not available.")

    async def close(self) -> None:
        await self._api.close()


def create(settings: Settings, clock: Clock) -> GcmRouter:
    """The router of the configured sender IDs.

    :raises StartupError: one has no key
    """
    return GcmRouter(
        GcmApi(
            settings.gcm_endpoint,
            server_keys("senderid_list", settings.senderid_list or {}),
            shortest_ttl=settings.gcm_ttl,
            dry_run=settings.gcm_dryrun,
            collapse_key=settings.gcm_collapsekey,
            clock=clock,
        )
    )
