"""`POST /wpush/{version}/{token}`: an application server sends a message (RFC 8030, section 5).

Rule: the checks run in the documented order, the cheap ones before the store is asked and the
signature last; a message is answered 201 only when it was delivered or is safe in the store (or has
a TTL of 0 and nobody is there).
"""

from autopush import answers
from autopush.clock import Clock
from autopush.net.http_messages import HeaderBlock, Request, Response
from autopush.routing.webpush import WebPushRouter
from autopush.web.verifications import Verifications
from autopush.webpush.admission import admit
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.headers import check_content
from autopush.webpush.keyring import KeyRing
from autopush.webpush.message_id import IdFactory, new_id
from autopush.webpush.notification import Notification
from autopush.webpush.vapid import Verifier
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

    async def __call__(self, request: Request, version: str | None, token: str) -> Response:
        """Check, route, answer.

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
        endpoint = admitted.endpoint
        try:
            recipient = await self._router.find(endpoint.uaid, endpoint.channel_id)
            content = check_content(
                headers, request.body, max_ttl=self._max_ttl, max_data=self._max_data
            )
            now = self._clock()
            verified = admitted.verified
            if admitted.credentials is not None:
                verified = await self._verifications.verify(admitted.credentials)
                self._verifier.remember(headers["authorization"], verified)
            if verified is not None:
                self._verifier.check(verified, now)
            sort_time = None if content.topic else self._ids.next()
            message_id = new_id(
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
            await self._router.route(recipient, notification)
        except KeytablesError as error:
            raise answers.storage_refusal(error) from error
        return Response(
            201,
            f'{{"message-id":"{message_id}"}}'.encode(),
            (
                ("Location", f"{self._tokens.endpoint_url}/m/{message_id}"),
                ("TTL", str(content.ttl)),
            ),
            "application/json",
            self._block,
        )
