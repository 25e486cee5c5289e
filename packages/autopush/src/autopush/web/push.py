"""`POST /wpush/{version}/{token}`: an application server sends a message (RFC 8030, section 5).

Rule: the checks run in the documented order, the cheap ones before the store is asked and the
signature last; a message is answered 201 only when it was delivered or is safe in the store (or has
a TTL of 0 and nobody is there).
"""

from collections.abc import Coroutine
from typing import Any

from autopush import answers
from autopush.clock import Clock
from autopush.net.http_messages import HeaderBlock, Request, Response
from autopush.routing.webpush import Recipient, WebPushRouter
from autopush.web.verifications import Verifications
from autopush.webpush.admission import Admitted, admit
from autopush.webpush.endpoint_token import Endpoint, EndpointTokens
from autopush.webpush.headers import Content, check_content
from autopush.webpush.keyring import KeyRing
from autopush.webpush.message_id import IdFactory, new_id
from autopush.webpush.notification import Notification
from autopush.webpush.vapid import Verified, Verifier
from keytables import KeytablesError


class PushHandler:
    """Takes messages. `max_ttl`: seconds; `max_data`: bytes of body."""

    def __init__(
        self,
        *,
        tokens: EndpointTokens,
        verifier: Verifier,
        router: WebPushRouter,
        ring: KeyRing,
        ids: IdFactory,
        clock: Clock,
        max_ttl: int,
        max_data: int,
        block: HeaderBlock,
    ) -> None:
        self._tokens = tokens
        self._verifier = verifier
        self._verifications = Verifications(verifier)
        self._router = router
        self._ring = ring
        self._ids = ids
        self._clock = clock
        self._max_ttl = max_ttl
        self._max_data = max_data
        self._block = block

    def __call__(
        self, request: Request, version: str | None, token: str
    ) -> Response | Coroutine[Any, Any, Response]:
        """Check, route, answer; at once if neither the store nor a signature is waited for.

        :raises PushError: the message is refused
        """
        headers = request.headers
        admitted = admit(
            self._tokens,
            self._verifier,
            version,
            token,
            headers.get("authorization"),
            headers.get("crypto-key"),
        )
        user = self._router.connected(admitted.endpoint.uaid, admitted.endpoint.channel_id)
        if user is None or admitted.credentials is not None:
            return self._find_and_route(request, admitted)
        content = check_content(
            headers, request.body, max_ttl=self._max_ttl, max_data=self._max_data
        )
        notification = self._notification(admitted.endpoint, content, admitted.verified)
        if self._router.deliver(user, notification) is not None:
            return self._created(notification)
        return self._route(user, notification)

    async def _find_and_route(self, request: Request, admitted: Admitted) -> Response:
        endpoint = admitted.endpoint
        try:
            recipient = await self._router.find(endpoint.uaid, endpoint.channel_id)
            content = check_content(
                request.headers, request.body, max_ttl=self._max_ttl, max_data=self._max_data
            )
            verified = admitted.verified
            if admitted.credentials is not None:
                verified = await self._verifications.verify(admitted.credentials)
                self._verifier.remember(request.headers["authorization"], verified)
        except KeytablesError as error:
            raise answers.storage_refusal(error) from error
        return await self._route(recipient, self._notification(endpoint, content, verified))

    async def _route(self, recipient: Recipient, notification: Notification) -> Response:
        try:
            await self._router.route(recipient, notification)
        except KeytablesError as error:
            raise answers.storage_refusal(error) from error
        return self._created(notification)

    def _notification(
        self, endpoint: Endpoint, content: Content, verified: Verified | None
    ) -> Notification:
        now = self._clock()
        if verified is not None:
            self._verifier.check(verified, now)
        sort_time = None if content.topic else self._ids.next()
        return Notification(
            uaid=endpoint.uaid,
            channel_id=endpoint.channel_id,
            version=new_id(
                self._ring, endpoint.uaid, endpoint.channel_id, content.topic, sort_time
            ),
            ttl=content.ttl,
            timestamp=int(now),
            topic=content.topic,
            data=content.data,
            headers=content.headers,
            sort_time=sort_time,
            urgency=content.urgency,
        )

    def _created(self, notification: Notification) -> Response:
        message_id = notification.version
        return Response(
            201,
            f'{{"message-id":"{message_id}"}}'.encode(),
            (
                ("Location", f"{self._tokens.endpoint_url}/m/{message_id}"),
                ("TTL", str(notification.ttl)),
            ),
            "application/json",
            self._block,
        )
