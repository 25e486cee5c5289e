"""The two ports of a connection node: WebSockets for user agents, HTTP for other nodes.

Rule: every call on the internal port is authenticated: it can end connections or inject messages.
"""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from autopush.admission import account_of
from autopush.api import responses
from autopush.api.browsers import OwnOrigins
from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import Dockerflow, InternalPages, LogCheck
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.delivery.node import ConnectionNode
from autopush.delivery.user_agent import UserAgentConnection
from autopush.delivery.versions import OtherVersions
from autopush.limits import LimitRefusals
from autopush.net.client_limits import ConnectionRate
from autopush.net.frames import answer_handshake
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.net.node_auth import (
    REQUEST_HEADER,
    RESPONSE_HEADER,
    SCHEME,
    Call,
    Opened,
    Sessions,
    Unauthenticated,
)
from autopush.protocol.effects import NORMAL_CLOSURE, REPLACED
from autopush.store.messages import row_of
from autopush.store.users import SIMPLEPUSH
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import canonical_uaid
from autopush.webpush.notification import Notification, VersionUpdate, from_node
from autopush.webpush.tokens import KeyRing, parse_message_id
from autopush.webpush.urgency import HIGHEST, known_urgency
from keytables import KeytablesError

SUBPROTOCOL: Final = "push-notification"
EXPLANATION: Final = (
    "This is the WebSocket port of a push service. User agents connect to it; set Firefox's\n"
    "dom.push.serverURL to {url} and see {page} for the rest.\n"
)
CONNECTED: Final = "Client connected."
NOT_CONNECTED: Final = "Client not connected."
ACKS_NOT_SAVED: Final = "Client gone, its acks are not saved yet."
ACKS_TIMEOUT: Final = 1.5
"""Seconds before the caller gets 503. After three it would take this node for stopped."""
NODES_ONLY: Final = (("WWW-Authenticate", SCHEME),)
REFUSALS_INTERVAL: Final = 60.0
"""Seconds between log lines about calls refused for the same reason."""

_CALLS: Final = ("/i/", "/push/", "/notif/")
"""Path prefixes of calls; `/push/` and `/notif/` are those of the original and older versions."""

Reply = Response | Coroutine[Any, Any, Response]

_log = logs.get(__name__)


@dataclass(eq=False)
class UpgradeHandler:
    """Handler of the WebSocket port. An invalid upgrade gets a 4xx with the reason, never a 5xx.

    `connection_rate`: of the port, for pages of other origins, which count by address.
    """

    node: ConnectionNode
    dockerflow: Dockerflow
    log_check: LogCheck
    errors: ErrorResponses
    refusals: LimitRefusals
    websocket_url: str
    start_page: str
    connection_rate: ConnectionRate | None = None

    def __post_init__(self) -> None:
        self._origins = OwnOrigins(self.websocket_url, self.start_page)

    def __call__(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if "upgrade" not in request.headers:
            return self._page(request)
        version = "1.0" if request.http10 else "1.1"
        answer = answer_handshake(
            request.method, version, request.headers, subprotocols=(SUBPROTOCOL,)
        )
        if not answer.accepted:
            return responses.text(answer.status, f"{answer.reason}\n", headers=answer.headers)
        if not self.node.is_accepting:
            self.refusals.add("connections", request.client_address)
            return responses.text(503, "Too many connections.\n", headers=(("Retry-After", "30"),))
        if request.body or "transfer-encoding" in request.headers:
            return responses.text(400, "A WebSocket is opened without a body.\n")
        headers, account = request.headers, ""
        if self.node.accounts is not None:
            account = account_of(request)
            try:
                self.node.accounts.admit_connection(account, request.client_address)
            except PushError as refusal:
                return self.errors.of(refusal)
        client = self.node.clients.find(
            headers.get("user-agent", ""), headers.get("host", ""), account
        )

        def connection(key: str) -> UserAgentConnection:
            """:raises ConnectionRefused: its address has too many"""
            if self._origins.is_foreign(request):
                key = self.node.connection_limits.recount(
                    key, request.client_address, self.connection_rate, from_page=True
                )
            return UserAgentConnection(self.node, client, key)

        return Upgrade(answer.headers, connection)

    async def _page(self, request: Request) -> Response:
        page = await self.dockerflow.respond(request) or self.log_check.respond(request)
        return page or self._explain(request)

    def _explain(self, request: Request) -> Response:
        if request.method == "HEAD" and LogCheck.has(request.path):
            return Response(200)
        if request.path not in ("/", urlsplit(self.websocket_url).path):
            # Not the explanation: clients take a 200 for the service they look for.
            missing = f"No page has this path, on the WebSocket port; see {self.start_page}"
            return self.errors.of(
                PushError(Errno.INVALID_ENDPOINT, missing, phrase="Page not found")
            )
        explanation = EXPLANATION.format(url=self.websocket_url, page=self.start_page)
        if request.method in ("GET", "HEAD"):
            return responses.text(200, explanation)
        return responses.text(405, explanation, headers=(("Allow", "GET, HEAD"),))


@dataclass(eq=False)
class NodePort:
    """Handler of the internal port: authenticated calls of nodes, and pages for anyone."""

    api: "NodeApi"
    sessions: Sessions
    pages: InternalPages
    errors: ErrorResponses

    def __post_init__(self) -> None:
        self._lines = RepeatLimiter(1, REFUSALS_INTERVAL)

    def __call__(self, request: Request) -> Reply:
        """Synchronous where possible, so that one write answers all requests of one read."""
        path = request.path
        if not path.startswith(_CALLS):
            return self._page(request)
        signature = request.headers.get(REQUEST_HEADER, "")
        try:
            call = self.sessions.receive(request.method, path, request.body, signature)
        except Unauthenticated as refusal:
            return self._refuse(request, str(refusal))
        if isinstance(call, Opened):
            proof = ((RESPONSE_HEADER, call.proof),)
            return responses.text(call.status, call.session, proof)
        reply = self.api(request.method, call.path, request.body)
        return _signed(call, reply) if isinstance(reply, Response) else _signed_later(call, reply)

    async def _page(self, request: Request) -> Response:
        page = await self.pages.respond(request)
        return page or self.errors.of(responses.not_found())

    def _refuse(self, request: Request, reason: str) -> Response:
        count = self._lines.admit(reason)
        if count is not None:
            event = "A call on the internal port was refused"
            _log.warning(event, reason=reason, peer=request.peer, **count)
        return responses.text(401, f"Not a call of a node: {reason}.", NODES_ONLY)


@dataclass(eq=False)
class SiblingPort:
    """Handler of the same calls by other workers of this service, which need no signature.

    `instance_path`: begins the path; "" for calls of another version, which has the same instance.
    """

    api: "NodeApi"
    instance_path: str = ""

    def __call__(self, request: Request) -> Reply:
        if not request.path.startswith(self.instance_path):
            return responses.text(404, NOT_CONNECTED)  # to this worker's predecessor
        return self.api(request.method, request.path[len(self.instance_path) :], request.body)


def _signed(call: Call, response: Response) -> Response:
    response.headers = ((RESPONSE_HEADER, call.proof(response.status, response.body)),)
    return response


async def _signed_later(call: Call, reply: Coroutine[Any, Any, Response]) -> Response:
    return _signed(call, await reply)


@dataclass(eq=False)
class NodeApi:
    """Calls of other nodes: `PUT /push`, `PUT /notif`, `DELETE /notif`; `GET /notif` is for the
    command `diagnose`. The UAID in a path may be dashed or not.
    """

    registry: Registry
    ring: KeyRing
    others: OtherVersions = field(default_factory=lambda: OtherVersions(None))

    def __post_init__(self) -> None:
        self._lines = RepeatLimiter(1, REFUSALS_INTERVAL)

    def __call__(self, method: str, path: str, body: bytes = b"") -> Reply:
        """Answer one call. The caller replaces the headers of the response."""
        if self.others.exist:
            return self._answer_for_all(method, path, body)
        return self._answer(method, path, body)

    async def _answer_for_all(self, method: str, path: str, body: bytes) -> Response:
        """For a user agent that is not here, the other versions of this worker are asked first."""
        _, uaid, *_ = [*path.strip("/").split("/"), ""]
        if self.registry.find(canonical_uaid(uaid) or "") is None:
            response = await self.others.ask(method, path, body)
            # One that has ended a duplicate knows its own acks only.
            if response is not None and (method != "DELETE" or response.status != 200):
                return response
        reply = self._answer(method, path, body)
        return reply if isinstance(reply, Response) else await reply

    def _answer(self, method: str, path: str, body: bytes) -> Reply:
        match method, *path.strip("/").split("/"):
            case "PUT", "push", uaid:
                return self._push(canonical_uaid(uaid), body)
            case "PUT", "push", uaid, "subscribed":
                # The sender has not read whether the channel is subscribed. It says so in the path:
                # an older version refuses an unknown path, but ignores a member or a header.
                return self._push(canonical_uaid(uaid), body, only_subscribed=True)
            case "PUT", "notif", uaid:
                return self._check(canonical_uaid(uaid), body)
            case "GET", "notif", uaid:
                user = self.registry.find(canonical_uaid(uaid) or "")
                return (
                    responses.text(200, CONNECTED) if user else responses.text(404, NOT_CONNECTED)
                )
            case "DELETE", "notif", uaid, connected_at:
                return self._end_duplicate(canonical_uaid(uaid), connected_at)
        return responses.text(400, "No such call.")

    def _push(self, uaid: str | None, body: bytes, *, only_subscribed: bool = False) -> Reply:
        user = self.registry.find(uaid) if uaid else None
        if uaid is None or user is None:
            return self._absent(uaid)
        try:
            notification = from_node(uaid, body)
        except ValueError as error:
            return responses.text(400, str(error))
        if isinstance(notification, VersionUpdate) is not (user.messages.router_type == SIMPLEPUSH):
            return responses.text(400, "The user agent is of another router type.")
        if only_subscribed and not user.is_subscribed(notification.channel_id):
            return responses.text(409, "The channel is not known to be subscribed.")
        is_row_known = self._find_row(notification)
        if notification.stored:
            if not is_row_known:
                return self._read_instead(user)
            return self._push_stored(user, notification)
        return _delivered(user.deliver(notification, None))

    def _find_row(self, notification: Notification) -> bool:
        """Set the sort time, which older nodes do not send. False: this node lacks the id's key."""
        if notification.topic is not None or notification.sort_time is not None:
            return True
        try:
            notification.sort_time = parse_message_id(self.ring, notification.version).sort_time
        except ValueError:
            return False
        return True

    def _read_instead(self, user: ConnectedUser) -> Response:
        """Have storage read: a message whose row is unknown cannot be checked against acks."""
        count = self._lines.admit("unreadable id")
        if count is not None:
            _log.warning(
                "The ID of a stored message cannot be read, so storage is read instead: the node "
                "that sent it uses a crypto_key that this one does not have",
                **count,
            )
        user.check_storage()
        return _delivered(delivered=False)

    async def _push_stored(self, user: ConnectedUser, notification: Notification) -> Response:
        try:
            return _delivered(await user.deliver_from_peer(notification, row_of(notification)))
        except KeytablesError:
            # The other node will have the store checked.
            return responses.text(503, "The store does not answer.")

    def _check(self, uaid: str | None, urgency: bytes) -> Response:
        user = self.registry.find(uaid) if uaid else None
        if user is None:
            return self._absent(uaid)
        # Empty from an older version, for which storage is read in any case.
        if user.check_storage(known_urgency(urgency.decode("latin-1")) or HIGHEST):
            return responses.text(200, "Notification check started")
        return responses.text(202, "Flagged for Notification check")

    def _absent(self, uaid: str | None) -> Response:
        """503 while acks are unsaved: a 404 would remove this node from the router record."""
        if uaid is not None and self.registry.acked.has_undeleted(uaid):
            return responses.text(503, ACKS_NOT_SAVED)
        return responses.text(404, NOT_CONNECTED)

    async def _end_duplicate(self, uaid: str | None, connected_at: str) -> Response:
        if uaid is None:
            return responses.text(200, "")
        user = self.registry.find(uaid)
        is_duplicate = user is not None and connected_at == str(user.connected_at)
        if user is not None and is_duplicate:
            user.disconnect(NORMAL_CLOSURE, REPLACED)
        # The calling node reads storage next and must not find what was acked here.
        await self.registry.acked.all_deleted(uaid, ACKS_TIMEOUT)
        if self.registry.acked.has_undeleted(uaid):
            return responses.text(503, ACKS_NOT_SAVED)
        return responses.text(200, "Terminated duplicate" if is_duplicate else "")


def _delivered(delivered: bool) -> Response:
    if delivered:
        return responses.text(200, "Client accepted for delivery")
    return responses.text(503, "Client busy.")
