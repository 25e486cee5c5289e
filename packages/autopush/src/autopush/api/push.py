"""The API for application servers (RFC 8030): `POST /wpush/{version}/{token}` sends a message,
`DELETE /m/{message_id}` takes it back while it is stored.

Rule: the checks of a push run in the documented order, the cheap ones before the store is asked and
the signature last; a message is answered 201 only when it was delivered or is safe in the store (or
has a TTL of 0 and its user agent is not connected).
"""

from autopush.api import responses
from autopush.api.push_metrics import PushMetrics, router_type_of
from autopush.api.request_log import PushLine, RequestLog
from autopush.api.signature_queue import SignatureQueue
from autopush.clock import Clock
from autopush.delivery.bridge_contract import RouterResponse
from autopush.delivery.bridged import BridgedUser, Bridges
from autopush.delivery.router import DeliveryResult, UserAgentRouter
from autopush.limits import PushLimits
from autopush.net.http_messages import HeaderBlock, Request, Response
from autopush.protocol.effects import Row
from autopush.store import PushStore
from autopush.store.users import WEBPUSH
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.errors import Errno, Header, PushError
from autopush.webpush.headers import check_content
from autopush.webpush.identifiers import (
    IdFactory,
    microseconds_of,
    new_message_id,
    parse_message_id,
)
from autopush.webpush.keyring import KeyRing
from autopush.webpush.notification import Notification
from autopush.webpush.vapid import Verifier, check_access
from keytables import KeytablesError


class PushHandler:
    """Takes messages. `max_ttl`: seconds; `max_data`: bytes of body."""

    def __init__(
        self,
        *,
        tokens: EndpointTokens,
        verifier: Verifier,
        router: UserAgentRouter,
        bridges: Bridges,
        limits: PushLimits,
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
        self._limits = limits
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
            self._limits.check_push(endpoint, credentials, began)
            recipient = await self._router.find(endpoint.uaid, endpoint.channel_id)
            content = check_content(
                headers, request.body, max_ttl=self._max_ttl, max_data=self._max_data
            )
            if credentials is not None:
                claims = credentials.claims
                if claims is None:
                    claims = await self._signatures.verify(credentials, endpoint.uaid)
                self._verifier.check(claims, self._clock())
                if self._limits.has_sender_rate:
                    self._limits.check_sender_rate(credentials, began)
            topic, order = content.topic, self._ids.next()
            message_id = new_message_id(
                self._ring, endpoint.uaid, endpoint.channel_id, topic, order
            )
            notification = Notification(
                uaid=endpoint.uaid,
                channel_id=endpoint.channel_id,
                version=message_id,
                ttl=content.ttl,
                timestamp=int(self._clock()),
                topic=topic,
                data=content.data,
                headers=content.headers,
                sort_time=order if topic is None else None,
                topic_order=0 if topic is None else microseconds_of(order),
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


class DeleteHandler:
    """Deletes stored messages.

    Rule: the message id is the capability, so an id of this service is always answered 204, whether
    something was stored or not; only that very message is deleted, never one that replaced it.
    """

    def __init__(
        self, store: PushStore, limits: PushLimits, ring: KeyRing, block: HeaderBlock
    ) -> None:
        self._store = store
        self._limits = limits
        self._ring = ring
        self._block = block

    async def __call__(self, text: str) -> Response:
        """Delete the message wherever it is stored.

        :raises PushError: 400/102, not a message id of this service; 429/203, too many of its
            endpoint are deleted; 503, the store failed
        """
        try:
            message = parse_message_id(self._ring, text)
        except ValueError:
            raise PushError.invalid(
                Errno.INVALID_ENDPOINT, "Invalid message ID", status=400
            ) from None
        self._limits.check_deletion(message.uaid + message.channel_id)
        row = Row(message.sort_key, message.text if message.topic else None)
        try:
            await self._store.remove(message.uaid, row)
        except KeytablesError as error:
            raise responses.storage_refusal(error) from error
        return Response(204, block=self._block)
