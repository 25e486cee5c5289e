"""The contract of a router for users who are reached through a bridge: another vendor's service.

It is the interface `IRouter` of the original. `autopush.bridges` has the routers of this
distribution; another one can bring its own, see the page "Bridges" of the documentation.
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
"""Seconds after which a sender may repeat a message, where its bridge failed and does not say."""

RouterData = Mapping[str, Value]
"""What a router needs to reach a user: its device token and more. An attribute of the record."""


class RouterResponse(Struct, frozen=True, kw_only=True):
    """What the sender is answered, and what becomes of the user's router data.

    `status_code` of 2xx: the answer has this body and these headers, with `Location` and `TTL`
    unless they are among them. Any other: the answer is an error with `errno`, a number of
    `autopush.webpush.errors`. `router_data`: None leaves it as it is, an empty one drops the user,
    any other replaces it.
    """

    status_code: int = 201
    response_body: str = ""
    router_data: RouterData | None = None
    headers: tuple[Header, ...] = ()
    errno: int | None = None


class RouterError(PushError):
    """A notification, or a registration, that a router cannot serve.

    `router_data`: as in `RouterResponse`. `is_outage`: the bridge itself failed, as it would for
    other users; repeated outages open its circuit, and 502 has `Retry-After`.
    `critical_failure`: why this user can never be served again; it is kept in the record until the
    user registers again.
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
        """410/106: the bridge does not know the device any more; the user is dropped."""
        return cls(Errno.INVALID_SUBSCRIPTION, message, router_data={})

    @classmethod
    def retry_after(cls, seconds: int, message: str) -> "RouterError":
        """503/201: the bridge wants fewer messages."""
        return cls(Errno.BACK_OFF, message, headers=(("Retry-After", str(seconds)),))


class Router(ABC):
    """Delivers the notifications of one router type. Its methods run on the event loop.

    It is created before there is a loop, and in every worker again, so it connects only when it has
    something to deliver. No text of an error may hold a token, a key or another secret.
    """

    timeout: float = 3.0
    """Seconds that one notification may take; then it is cancelled, and counts as an outage."""
    max_under_way: int = 200
    """Notifications of one application that may wait for the bridge; further ones are refused."""
    start_warning: str = ""
    """What the operator should know of this router; logged once when the service starts."""

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: B027
        """Check the data of a registration or an update, and add to it what is to be stored.

        `router_data`: the members of the request's body, those stored before included; `app_id`:
        that of the URL.

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
        """Deliver to the user of that record. Several run at the same time.

        :raises RouterError: it was not delivered
        :raises OSError: no connection: an outage. Whatever else is raised is a defect of the
            router, and counts as an outage too
        """

    async def try_credentials(self) -> Sequence[str]:
        """Get an access token for each account, without sending anything to a device. Returns the
        names of the accounts; none where only a message would tell.

        :raises RouterError: the provider gives none
        """
        return ()

    def application(self, router_data: RouterData) -> str:
        """The application of a user. The users of one share a circuit and a limit on how many
        notifications are under way.
        """
        app_id = router_data.get("app_id")
        return app_id if isinstance(app_id, str) else ""

    async def close(self) -> None:  # noqa: B027
        """Close what is open; nothing is routed afterwards."""
