"""What a connection node answers: WebSockets to user agents, calls to other nodes.

Rule: every call on the internal port is authenticated: it can end connections or inject messages.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from autopush.admission import MIN_TOKEN, account_of
from autopush.api import responses
from autopush.api.browsers import OwnOrigins
from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import Dockerflow, InternalPages, LogCheck
from autopush.delivery.answering import Answer as CallAnswer
from autopush.delivery.answering import Answering
from autopush.delivery.calls import FindConnection, NodeCall, Outcome
from autopush.delivery.node import ConnectionNode
from autopush.delivery.node_http import answer_to, from_http
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.user_agent import UserAgentConnection
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.frames import answer_handshake
from autopush.net.http_messages import Answer, Handler, Request, Response, Upgrade
from autopush.net.node_auth import (
    REQUEST_HEADER,
    RESPONSE_HEADER,
    SCHEME,
    Call,
    Opened,
    Sessions,
    Unauthenticated,
)
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.webpush.errors import Errno, PushError

SUBPROTOCOL: Final = "push-notification"
EXPLANATION: Final = (
    "This is the WebSocket port of a push service. User agents connect to it; set Firefox's\n"
    "dom.push.serverURL to {url} and see {page} for the rest.\n"
)
NODES_ONLY: Final = (("WWW-Authenticate", SCHEME),)
REFUSALS_INTERVAL: Final = 60.0
"""Seconds between log lines about calls refused for the same reason."""

_CALLS: Final = ("/i/", "/push/", "/notif/")
"""Path prefixes of calls; `/push/` and `/notif/` are those of the original and older versions."""

CONSOLE: Final = "/console"

Reply = Answer | Coroutine[Any, Any, Answer]

_log = logs.get(__name__)


@dataclass(eq=False)
class UpgradeHandler:
    """Makes WebSockets of requests; also the handler of a port that is for WebSockets alone. An
    invalid upgrade gets a 4xx with the reason, never a 5xx.

    `rates`: of new WebSockets, by address.
    """

    node: ConnectionNode
    dockerflow: Dockerflow
    log_check: LogCheck
    errors: ErrorResponses
    refusals: LimitRefusals
    rates: TokenBuckets
    websocket_url: str
    start_page: str

    def __post_init__(self) -> None:
        self._origins = OwnOrigins(self.websocket_url, self.start_page)
        self._path = urlsplit(self.websocket_url).path
        self._with_token = tuple({"/ws/", self._path.rstrip("/") + "/"} - {"/"})

    def takes(self, request: Request) -> bool:
        """Whether the request asks for a WebSocket, at a path that has one: `/`, `/ws` or that of
        the public URL, perhaps with the token of an account as one more segment.
        """
        path = request.path
        return "websocket" in request.headers.get("upgrade", "").lower() and (
            path in ("/", "/ws", self._path)
            or path.startswith(self._with_token)
            or (path.count("/") == 1 and len(path) > MIN_TOKEN)
        )

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
            """:raises ConnectionRefused: its address has too many, or too many new ones"""
            limits, address = self.node.connection_limits, request.client_address
            if self._origins.is_foreign(request):
                key = limits.recount(key, address, from_page=True)
            if self.rates.wait_for_token(key):
                raise limits.refusal("connection_rate", address)
            return UserAgentConnection(self.node, client, key)

        return Upgrade(answer.headers, connection)

    async def _page(self, request: Request) -> Response:
        page = await self.dockerflow.respond(request) or self.log_check.respond(request)
        return page or self._explain(request)

    def _explain(self, request: Request) -> Response:
        if request.method == "HEAD" and LogCheck.has(request.path):
            return Response(200)
        if request.path not in ("/", self._path):
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
    """Handler of the internal port: authenticated calls of nodes, and pages for anyone. `console`:
    of the worker that has it; it asks who comes.
    """

    answering: Answering
    nodes: Nodes
    placement: Placement
    sessions: Sessions
    pages: InternalPages
    errors: ErrorResponses
    console: Handler | None = None

    def __post_init__(self) -> None:
        self._lines = RepeatLimiter(1, REFUSALS_INTERVAL)

    def __call__(self, request: Request) -> Reply:
        """Synchronous where possible, so that one write answers all requests of one read."""
        path = request.path
        if not path.startswith(_CALLS):
            if self.console is not None and path.startswith(CONSOLE):
                return self.console(request)
            return self._page(request)
        signature = request.headers.get(REQUEST_HEADER, "")
        try:
            call = self.sessions.receive(request.method, path, request.body, signature)
        except Unauthenticated as refusal:
            return self._refuse(request, str(refusal))
        if isinstance(call, Opened):
            proof = ((RESPONSE_HEADER, call.proof),)
            return responses.text(call.status, call.session, proof)
        try:
            asked = from_http(request.method, call.path, request.body)
            answer = self._answer(asked)
        except ValueError as error:
            return _signed(call, responses.text(400, str(error)))
        if isinstance(answer, Outcome):
            return _signed(call, _response(asked, answer))
        return _signed_later(call, asked, answer)

    def _answer(self, call: NodeCall) -> CallAnswer:
        if isinstance(call, FindConnection) and not self.answering.registry.find(call.uaid):
            # Whoever asks for any instance need not know which worker has the user.
            owner = self.placement.owner_node(call.uaid)
            if owner is not None:
                return self.nodes.find_connection(owner, call.uaid)
        return self.answering(call)

    async def _page(self, request: Request) -> Response:
        page = await self.pages.respond(request)
        return page or self.errors.of(responses.not_found())

    def _refuse(self, request: Request, reason: str) -> Response:
        count = self._lines.admit(reason)
        if count is not None:
            event = "A call on the internal port was refused"
            _log.warning(event, reason=reason, peer=request.peer, **count)
        return responses.text(401, f"Not a call of a node: {reason}.", NODES_ONLY)


def _signed(call: Call, response: Response) -> Response:
    response.headers = ((RESPONSE_HEADER, call.proof(response.status, response.body)),)
    return response


async def _signed_later(
    call: Call, asked: NodeCall, answer: Coroutine[Any, Any, Outcome]
) -> Response:
    try:
        response = _response(asked, await answer)
    except ValueError as error:
        response = responses.text(400, str(error))
    return _signed(call, response)


def _response(asked: NodeCall, outcome: Outcome) -> Response:
    return responses.text(*answer_to(asked, outcome))
