"""What other nodes may ask of this one: `PUT /push`, `PUT /notif`, `DELETE /notif`.

Rule: served on the internal port only. Whoever reaches it may end connections and inject
notifications.
"""

from typing import Final

from autopush import responses
from autopush.connection.acked import Acked
from autopush.connection.registry import Registry
from autopush.dockerflow import Dockerflow
from autopush.net.http_messages import Request, Response
from autopush.protocol.rules import NORMAL_CLOSURE
from autopush.store.messages import row_of
from autopush.webpush.identifiers import canonical_uaid, sort_time_of
from autopush.webpush.keyring import KeyRing
from autopush.webpush.notification import from_node
from keytables import KeytablesError

NOT_CONNECTED = "Client not connected."
ACKS_END: Final = 2.5
"""Seconds; the node that asks waits for three."""


class NodeApi:
    """Handler of the internal port. User agents are named by UAID, dashed or not."""

    def __init__(
        self, registry: Registry, acked: Acked, ring: KeyRing, dockerflow: Dockerflow
    ) -> None:
        self._registry = registry
        self._acked = acked
        self._ring = ring
        self._dockerflow = dockerflow

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        match request.method, *request.path.strip("/").split("/"):
            case "PUT", "push", uaid:
                return await self._push(canonical_uaid(uaid), request.body)
            case "PUT", "notif", uaid:
                return self._check(canonical_uaid(uaid))
            case "DELETE", "notif", uaid, connected_at:
                return await self._end_duplicate(canonical_uaid(uaid), connected_at)
        return await self._dockerflow.respond(request) or responses.not_found()

    async def _push(self, uaid: str | None, body: bytes) -> Response:
        user = self._registry.find(uaid) if uaid else None
        if uaid is None or user is None:
            return responses.text(404, NOT_CONNECTED)
        try:
            notification = from_node(uaid, body)
            if notification.topic is None:
                notification.sort_time = sort_time_of(self._ring, notification.version)
        except ValueError as error:
            return responses.text(400, str(error))
        row = row_of(notification) if notification.stored else None
        try:
            taken = await user.hand_over(notification, row)
        except KeytablesError:
            # Only what is stored is looked up. Whoever asks will have it looked for there.
            return responses.text(503, "The store does not answer.")
        if taken:
            return responses.text(200, "Client accepted for delivery")
        return responses.text(503, "Client busy.")

    def _check(self, uaid: str | None) -> Response:
        user = self._registry.find(uaid) if uaid else None
        if user is None:
            return responses.text(404, NOT_CONNECTED)
        if user.check_storage():
            return responses.text(200, "Notification check started")
        return responses.text(202, "Flagged for Notification check")

    async def _end_duplicate(self, uaid: str | None, connected_at: str) -> Response:
        if uaid is None:
            return responses.text(200, "")
        user = self._registry.find(uaid)
        there = user is not None and connected_at == str(user.connected_at)
        if user is not None and there:
            user.leave(NORMAL_CLOSURE)
        # The node that asks reads storage next: it must not find what was acked here.
        await self._acked.none_left(uaid, ACKS_END)
        return responses.text(200, "Terminated duplicate" if there else "")
