"""A bridge that delivers to nobody, for tests and for people who develop clients.

The prefix of the device token sets the outcome of every message to it, as the page Bridges lists
them. The last `MAX_DELIVERED` messages stay in memory; each is logged at level debug, without
payload and token.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from autopush.bridges import Router, RouterData, RouterError, RouterResponse
from autopush.bridges.payload import check_token, device_token, message_data
from autopush.clock import Clock
from autopush.settings import Settings
from autopush.store import UserRecord
from autopush.telemetry import logs
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

MAX_DELIVERED: Final = 1000
RETRY_AFTER: Final = 7
"""Seconds, for tokens that begin with `busy-`."""

_log = logs.get(__name__)


class StubDelivery(Struct, frozen=True):
    """A delivered message. `token`: the device's; `data`: what its application would read."""

    token: str
    data: Mapping[str, str]
    ttl: int


def create(_settings: Settings, _clock: Clock) -> "StubRouter":
    return StubRouter()


class StubRouter(Router):
    """Delivers into `delivered`."""

    timeout = 1.0
    start_warning = "The stub router is on: whoever registers for it gets messages to nobody"

    def __init__(self) -> None:
        self.delivered: deque[StubDelivery] = deque(maxlen=MAX_DELIVERED)

    def register(
        self,
        uaid: str,  # noqa: ARG002 - of the contract
        router_data: dict[str, Value],
        app_id: str,
    ) -> None:
        """Any application may register, with any token of at least 8 characters."""
        check_token(router_data)
        router_data["app_id"] = app_id

    def amend_endpoint_response(self, response: dict[str, object], router_data: RouterData) -> None:
        response["senderid"] = router_data["app_id"]

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        token = device_token(record)
        beginning, dash, rest = token.partition("-")
        refuse = _REFUSALS.get(beginning)
        if dash and refuse is not None:
            raise refuse()
        if dash and beginning == "slow":
            await asyncio.Event().wait()  # nobody sets it
        data = message_data(notification)
        self.delivered.append(StubDelivery(token, data, notification.ttl))
        _log.debug(
            "The stub router delivered a message",
            encoding=data.get("con", "none"),
            characters=len(data.get("body", "")),
            ttl=notification.ttl,
            urgency=notification.urgency,
        )
        if dash and beginning == "moved":
            moved = {**(record.router_data or {}), "token": f"new-{rest}"}
            return RouterResponse(router_data=moved)
        return RouterResponse()


_REFUSALS: Final[Mapping[str, Callable[[], RouterError]]] = {
    "gone": RouterError.unregistered,
    "busy": lambda: RouterError.retry_after(RETRY_AFTER, "The stub router is busy"),
    "outage": lambda: RouterError(
        Errno.BRIDGE_UNREACHABLE, "The stub router cannot be reached", is_outage=True
    ),
    "critical": lambda: RouterError(
        Errno.ENDPOINT_UNAVAILABLE,
        "The stub router refuses this device",
        critical_failure="the device is refused for good",
    ),
}
