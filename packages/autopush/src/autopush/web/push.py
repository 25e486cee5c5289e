"""The API for application servers (RFC 8030): `POST /wpush/{version}/{token}` sends a message,
`DELETE /m/{message_id}` takes it back while it is stored.

Rule: the checks of a push run in the documented order, the cheap ones before the store is asked and
the signature last; a message is answered 201 only when it was delivered or is safe in the store (or
has a TTL of 0 and its user agent is not connected).
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

from autopush import responses
from autopush.clock import Clock
from autopush.net.http_messages import HeaderBlock, Request, Response
from autopush.protocol.effects import Row
from autopush.request_log import PushLine, RequestLog
from autopush.routing.bridged import BridgedUser, Bridges
from autopush.routing.router import RouterResponse
from autopush.routing.user_agents import DeliveryResult, UserAgentRouter
from autopush.store import PushStore
from autopush.store.users import WEBPUSH
from autopush.web.push_metrics import PushMetrics, router_type_of
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.errors import Errno, Header, PushError
from autopush.webpush.headers import check_content
from autopush.webpush.identifiers import IdFactory, new_message_id, parse_message_id
from autopush.webpush.keyring import KeyRing
from autopush.webpush.notification import Notification
from autopush.webpush.vapid import Claims, Credentials, Verifier, check_access
from keytables import KeytablesError

TIME_SLICE: Final = 0.0008
"""Seconds of verifying until other work gets its turn."""
MAX_WAITING: Final = 10_000
"""Signatures that wait; further ones are refused."""


class PushHandler:
    """Takes messages. `max_ttl`: seconds; `max_data`: bytes of body."""

    def __init__(
        self,
        *,
        tokens: EndpointTokens,
        verifier: Verifier,
        router: UserAgentRouter,
        bridges: Bridges,
        ring: KeyRing,
        ids: IdFactory,
        clock: Clock,
        metrics: PushMetrics,
        requests: RequestLog,
        max_ttl: int,
        max_data: int,
        block: HeaderBlock,
    ) -> None:
        self._tokens = tokens
        self._verifier = verifier
        self._signatures = SignatureQueue(verifier)
        self._router = router
        self._bridges = bridges
        self._ring = ring
        self._ids = ids
        self._clock = clock
        self._metrics = metrics
        self._requests = requests
        self._max_ttl = max_ttl
        self._max_data = max_data
        self._block = block

    async def __call__(self, request: Request, version: str | None, token: str) -> Response:
        """Check, route, respond.

        :raises PushError: the message is refused
        """
        began = self._metrics.received()
        headers = request.headers
        line = PushLine(self._requests, request) if self._requests.is_verbose else None
        credentials = recipient = None
        try:
            endpoint = self._tokens.open(token)
            credentials = self._verifier.credentials(
                headers.get("authorization"), headers.get("crypto-key")
            )
            check_access(endpoint, version, credentials)
            recipient = await self._router.find(endpoint.uaid, endpoint.channel_id)
            content = check_content(
                headers, request.body, max_ttl=self._max_ttl, max_data=self._max_data
            )
            claims = None if credentials is None else await self._signatures.verify(credentials)
            now = self._clock()
            if claims is not None:
                self._verifier.check(claims, now)
            sort_time = None if content.topic else self._ids.next()
            message_id = new_message_id(
                self._ring, endpoint.uaid, endpoint.channel_id, content.topic, sort_time
            )
            notification = Notification(
                uaid=endpoint.uaid,
                channel_id=endpoint.channel_id,
                version=message_id,
                ttl=content.ttl,
                timestamp=int(now),
                topic=content.topic,
                data=content.data,
                headers=content.headers,
                sort_time=sort_time,
                urgency=content.urgency,
            )
            if line is not None:
                line.validated()
            if isinstance(recipient, BridgedUser):
                router_type = router_type_of(recipient)
                routed = await self._bridges.route(recipient, notification)
                result = DeliveryResult.DELIVERED
            else:
                router_type, routed = WEBPUSH, None
                result = await self._router.route(recipient, notification)
        except PushError as refusal:
            refusal.router_type = router_type_of(recipient)
            self._metrics.refused(refusal, refusal.router_type, credentials)
            raise
        except KeytablesError as error:
            failure = responses.storage_refusal(error)
            failure.router_type = router_type_of(recipient)
            self._metrics.refused(failure, failure.router_type, credentials)
            raise failure from error
        self._metrics.accepted(
            began, router_type, result, len(request.body), content.headers, credentials
        )
        if line is not None:
            line.write(result, router_type_of(recipient))
        return self._response(notification, routed)

    def _response(self, notification: Notification, routed: RouterResponse | None) -> Response:
        """201 with the documented headers and body, or what a bridge wants it to be."""
        location = f"{self._tokens.endpoint_url}/m/{notification.version}"
        headers: tuple[Header, ...] = (("Location", location), ("TTL", str(notification.ttl)))
        body = f'{{"message-id":"{notification.version}"}}'
        if routed is None:
            return Response(201, body.encode(), headers, "application/json", self._block)
        own = {name.lower() for name, _ in routed.headers}
        headers = (*routed.headers, *(header for header in headers if header[0].lower() not in own))
        if routed.response_body:
            return responses.text(routed.status_code, routed.response_body, headers)
        return Response(routed.status_code, body.encode(), headers, "application/json")


class SignatureQueue:
    """Signatures of senders not seen before, verified several in a row.

    A signature costs about a tenth of a millisecond of pure computation. Verified one after the
    other they find their tables in the processor's cache; one by one between other work each costs
    twice as much. So they are verified in slices of less than a millisecond (`TIME_SLICE`).
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        time_slice: float = TIME_SLICE,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._verifier = verifier
        self._time_slice = time_slice
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[Credentials, asyncio.Future[Claims]]] = deque()

    async def verify(self, credentials: Credentials) -> Claims:
        """The claims of these credentials, at once if they were verified before.

        :raises PushError: 401/109, not signed by that key; 503/201, too many are waiting
        """
        if credentials.claims is not None:
            return credentials.claims
        if len(self._waiting) >= self._max_waiting:
            raise PushError(Errno.BACK_OFF, "Too many signatures to verify")
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._run_slice)
        future: asyncio.Future[Claims] = loop.create_future()
        self._waiting.append((credentials, future))
        return await future

    def _run_slice(self) -> None:
        end = perf_counter() + self._time_slice
        while self._waiting:
            credentials, future = self._waiting.popleft()
            try:
                claims = self._verifier.verify(credentials)
                self._verifier.remember(credentials, claims)
            except Exception as error:  # noqa: BLE001 - raised to its sender; the others go on
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(claims)
            if perf_counter() >= end and self._waiting:
                asyncio.get_running_loop().call_soon(self._run_slice)
                return


class DeleteHandler:
    """Deletes stored messages.

    Rule: the message id is the capability, so an id of this service is always answered 204, whether
    something was stored or not; only that very message is deleted, never one that replaced it.
    """

    def __init__(self, store: PushStore, ring: KeyRing, block: HeaderBlock) -> None:
        self._store = store
        self._ring = ring
        self._block = block

    async def __call__(self, text: str) -> Response:
        """Delete the message wherever it is stored.

        :raises PushError: 400/102, not a message id of this service; 503, the store failed
        """
        try:
            message = parse_message_id(self._ring, text)
        except ValueError:
            raise PushError.invalid(
                Errno.INVALID_ENDPOINT, "Invalid message ID", status=400
            ) from None
        row = Row(message.sort_key, message.text if message.topic else None)
        try:
            await self._store.remove(message.uaid, row)
        except KeytablesError as error:
            raise responses.storage_refusal(error) from error
        return Response(204, block=self._block)
