"""The interface of a router for users behind a bridge, another vendor's push service.

It is `IRouter` of the original. `autopush.bridges` has the routers of this distribution; the page
"Bridges" of the documentation shows how to add one.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from autopush.store.users import UserRecord
from autopush.webpush.errors import ERRORS, Errno, Header, PushError
from autopush.webpush.notification import Notification
from keytables import Value

OUTAGE_RETRY: Final = 30
"""`Retry-After` in seconds when a bridge failed without naming a delay."""

RouterData = Mapping[str, Value]
"""What a router needs to reach a user, such as a device token; an attribute of the record."""


class RouterResponse(Struct, frozen=True, kw_only=True):
    """The response to the sender, and the user's new router data.

    With a `status_code` of 2xx the response has this body and these headers, and `Location` and
    `TTL` if they are missing; any other is an error with `errno` (`autopush.webpush.errors`).
    `router_data`: None leaves it unchanged, an empty one drops the user, any other replaces it.
    """

    status_code: int = 201
    response_body: str = ""
    router_data: RouterData | None = None
    headers: tuple[Header, ...] = ()
    errno: int | None = None


class RouterError(PushError):
    """A notification or registration that a router cannot serve.

    `router_data`: as in `RouterResponse`. `is_outage`: the bridge failed, as it would for other
    users; repeated outages open its circuit, and 502 gets `Retry-After`. `critical_failure`: why
    this user can never be served again; kept in the record until it registers again.
    """

    def __init__(
        self,
        errno: int,
        message: str,
        *,
        status: int | None = None,
        headers: tuple[Header, ...] = (),
        router_data: RouterData | None = None,
        is_outage: bool = False,
        critical_failure: str | None = None,
    ) -> None:
        if is_outage and (status or ERRORS[errno].status) == 502 and not headers:
            headers = (("Retry-After", str(OUTAGE_RETRY)),)
        super().__init__(errno, message, status=status, headers=headers)
        self.router_data: Final = router_data
        self.is_outage: Final = is_outage
        self.critical_failure: Final = critical_failure

    @classmethod
    def unregistered(cls, message: str = "The device is not registered any more") -> "RouterError":
        """410/106: the bridge no longer knows the device; the user is dropped."""
        return cls(Errno.INVALID_SUBSCRIPTION, message, router_data={})

    @classmethod
    def retry_after(cls, seconds: int, message: str) -> "RouterError":
        """503/201: the bridge wants fewer messages."""
        return cls(Errno.BACK_OFF, message, headers=(("Retry-After", str(seconds)),))


class Router(ABC):
    """Delivers the notifications of one router type. Its methods run on the event loop.

    It is created before there is a loop, and again in every worker, so connect on first use only.
    Error texts must not contain tokens, keys or other secrets.
    """

    timeout: float = 3.0
    """Seconds for one notification; then it is cancelled and counts as an outage."""
    max_under_way: int = 200
    """Concurrent notifications of one application; further ones are refused."""
    start_warning: str = ""
    """A warning for the operator, logged once when the service starts."""

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: B027
        """Validate the data of a registration or update, and add to it what is to be stored.

        `router_data`: the members of the request's body, merged with those stored. `app_id`: from
        the URL.

        :raises RouterError: it cannot be registered
        """

    def amend_endpoint_response(  # noqa: B027 - most routers have nothing to add
        self, response: dict[str, object], router_data: RouterData
    ) -> None:
        """Add members to the reply to a registration."""

    @abstractmethod
    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        """Deliver to the user of that record; calls run concurrently.

        :raises RouterError: not delivered
        :raises OSError: no connection, an outage. Any other exception is a defect of the router and
            counts as an outage too
        """

    async def try_credentials(self) -> Sequence[str]:
        """Get an access token for each account, without sending to a device. Returns the names of
        the accounts; none if only a message would tell.

        :raises RouterError: no token granted
        """
        return ()

    def application(self, router_data: RouterData) -> str:
        """The application of a user; its users share a circuit and a concurrency limit."""
        app_id = router_data.get("app_id")
        return app_id if isinstance(app_id, str) else ""

    async def close(self) -> None:  # noqa: B027
        """Close what is open; nothing is routed afterwards."""
