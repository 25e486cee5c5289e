"""Requests that concern a user go to the worker that owns it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self
from urllib.parse import unquote

from msgspec import Struct

from autopush.delivery.placement import Placement
from autopush.net.http_messages import Request, Response
from autopush.net.siblings import (
    CallTooLarge,
    Port,
    SiblingError,
    SiblingNotStarted,
    SiblingRestarted,
    Siblings,
)
from autopush.telemetry.metrics import Counter
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import canonical_uaid
from autopush.webpush.tokens import EndpointTokens, KeyRing, parse_message_id

PATHS_KEPT: Final = 4096
"""Of requests whose owner is known, about 400 bytes each."""
RETRY_AFTER: Final = 2
"""Seconds; a worker that has ended is back in less, one that stands still is killed after the
option `watchdog_timeout`.
"""


class ForwardedRequest(Struct, array_like=True, gc=False, frozen=True):
    """What of a `Request` its handlers use."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    client_address: str
    body: bytes
    certificate: bytes

    @classmethod
    def of(cls, request: Request) -> Self:
        return cls(
            request.method,
            request.path,
            request.query,
            request.headers,
            request.client_address,
            request.body,
            request.certificate,
        )

    def request(self) -> Request:
        return Request(
            self.method,
            self.path,
            self.query,
            self.headers,
            self.client_address,
            body=self.body,
            certificate=self.certificate,
        )


ENDPOINT: Final = Port[ForwardedRequest, Response]("endpoint", ForwardedRequest, Response)


@dataclass(eq=False)
class Forwarding:
    """`unavailable`: counts requests for a worker that does not answer."""

    placement: Placement
    siblings: Siblings
    tokens: EndpointTokens
    ring: KeyRing
    unavailable: Counter

    def __post_init__(self) -> None:
        self._find_owner = lru_cache(PATHS_KEPT)(self._owner)

    def owner(self, request: Request) -> int | None:
        """The other worker that answers the request; None for this one."""
        if self.placement.owns_all:
            return None
        return self._find_owner(request.method, request.path)

    def _owner(self, method: str, path: str) -> int | None:
        try:
            uaid = self._user(method, unquote(path).split("/")[1:])
        except (PushError, ValueError):
            return None  # this worker refuses it
        return None if uaid is None else self.placement.other_owner(uaid)

    async def send(self, owner: int, request: Request) -> Response | None:
        """Have it answered there; None if it has to be answered here.

        :raises PushError: 503, that worker does not answer
        """
        try:
            return await self._ask(owner, request)
        except (CallTooLarge, SiblingNotStarted):
            return None
        except SiblingError as error:
            self.unavailable.add()
            raise PushError(
                Errno.BACK_OFF,
                f"The worker of this user agent is not available: {error}",
                retry_after=RETRY_AFTER,
            ) from error

    async def _ask(self, owner: int, request: Request) -> Response:
        sibling, forwarded = self.siblings[owner], ForwardedRequest.of(request)
        try:
            return await sibling.call(ENDPOINT, forwarded)
        except SiblingRestarted:  # the sender would repeat it after a 503
            return await sibling.call(ENDPOINT, forwarded)

    def _user(self, method: str, segments: Sequence[str]) -> str | None:
        match method, *segments:
            case (
                ("POST", "wpush", _, token)
                | ("POST", "wpush", token)
                | ("PUT", "spush", _, token)
                | ("PUT", "spush", token)
            ):
                return self.tokens.open(token).uaid
            case "DELETE" | "GET", "m", message_id:
                return parse_message_id(self.ring, message_id).uaid
            case _, "v1", _, _, "registration", uaid, *_:
                return canonical_uaid(uaid)
        return None
