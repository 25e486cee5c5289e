"""The control API: what a test asks of the service, as HTTP with JSON.

A verb is a method of `Control`: its name is the path, its parameter the body of the POST, what it
returns the answer, and its docstring what the OpenAPI document says.
"""

import hmac
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from autopush.net.http_messages import Request, Response
from autopush.testing.in_memory import InMemoryService
from autopush.testing.steering import AnswerRule, ReceivedPush, text_of
from autopush.testing.user_agents import SimulatedUserAgent, UnreadableBody
from autopush.version import VERSION
from autopush.webpush.errors import PushError

AUTHORIZATION: Final = "authorization"
MAX_TIMEOUT: Final = 600.0
_SHOWN_PUSHES: Final = 5


class ControlRefusal(Exception):  # noqa: N818 - an answer of the control API
    """`status`: of the answer; the text says what was expected."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class SubscribeRequest(msgspec.Struct):
    """`vapid_key`: the only sender's public key, in base64url; null for any sender."""

    vapid_key: str | None = None


class KeysOfUserAgent(msgspec.Struct):
    """Of the user agent: its public key and its secret, in base64url."""

    p256dh: str
    auth: str


class SubscriptionInfo(msgspec.Struct):
    """What `PushSubscription.toJSON()` gives in a browser."""

    endpoint: str
    keys: KeysOfUserAgent


class Target(msgspec.Struct):
    """`endpoint`: of a subscription."""

    endpoint: str


class NextRequest(msgspec.Struct):
    """`timeout`: seconds to wait."""

    endpoint: str
    timeout: float = 5.0


class Message(msgspec.Struct):
    """A message as a page's service worker gets it, and the headers that came with it. `data`: the
    decrypted text (base64 in JSON), null for an empty push; `text`: the same if it is UTF-8. `ttl`:
    as it was sent. `push`: the request that brought it.
    """

    id: str
    data: bytes | None
    text: str | None
    encoding: str | None = None
    ttl: str | None = None
    topic: str | None = None
    urgency: str | None = None
    push: ReceivedPush | None = None


class Switch(msgspec.Struct):
    on: bool = True


class ClockMove(msgspec.Struct):
    """`seconds`: forward, or back if negative."""

    seconds: float


class ClockTime(msgspec.Struct):
    """Seconds since the epoch."""

    now: float


class Control:
    """The verbs."""

    def __init__(self, service: InMemoryService) -> None:
        self._service = service

    async def subscribe(self, wanted: SubscribeRequest) -> SubscriptionInfo:
        """Connect a new user agent with keys of its own, and have it subscribe."""
        agent = await self._service.new_user_agent()
        reply = await agent.subscribe(wanted.vapid_key)
        if reply["status"] != 200:
            await agent.disconnect()
            raise ControlRefusal(400, f"vapid_key: {reply.get('error') or 'not a public key'}")
        self._service.agents[agent.endpoint] = agent
        return SubscriptionInfo(agent.endpoint, KeysOfUserAgent(agent.keys.p256dh, agent.keys.auth))

    async def next(self, wanted: NextRequest) -> Message:
        """The next message for a subscription, decrypted; 408 if none comes in time, 422 if a
        browser could not have read it.
        """
        agent = self._agent(wanted.endpoint)
        try:
            notification, text = await agent.next_message(min(wanted.timeout, MAX_TIMEOUT))
        except TimeoutError:
            raise ControlRefusal(408, self._why_nothing_came(wanted)) from None
        if isinstance(text, UnreadableBody):
            raise ControlRefusal(422, str(text))
        message_id = notification["version"]
        message = Message(message_id, text, text_of(text))
        if (push := await self._service.steering.push_of(message_id)) is not None:
            message.push = push
            message.encoding = push.headers.get("content-encoding")
            message.ttl, message.topic = push.headers.get("ttl"), push.headers.get("topic")
            message.urgency = push.headers.get("urgency")
        return message

    async def received(self) -> list[ReceivedPush]:
        """Every push received so far, in order, with its answer and what was wrong with it."""
        return list(self._service.steering.received)

    async def answer(self, rule: AnswerRule) -> None:
        """Answer the next pushes otherwise, after a delay, or not at all."""
        self._service.steering.rules.append(rule)

    async def hold(self) -> None:
        """Leave pushes unanswered until `release`."""
        self._service.steering.hold()

    async def release(self) -> None:
        """Go on with the pushes that were held, and with all others."""
        self._service.steering.release()

    async def expire(self, target: Target) -> None:
        """Forget the user agent, as the service does with one not seen for months: 410, errno 103.
        Works for browsers too.
        """
        try:
            await self._service.expire(target.endpoint)
        except PushError:
            raise _unknown_endpoint() from None

    async def unsubscribe(self, target: Target) -> None:
        """Have the user unsubscribe: 410, errno 106."""
        agent = self._agent(target.endpoint)
        if not agent.is_connected:
            raise ControlRefusal(409, "its user agent is not connected: `reconnect` first")
        await agent.unsubscribe()

    async def disconnect(self, target: Target) -> None:
        """Drop the user agent's socket: messages are stored, within their TTL."""
        await self._agent(target.endpoint).disconnect()

    async def reconnect(self, target: Target) -> None:
        """Connect the user agent again: it gets what was stored."""
        agent = self._agent(target.endpoint)
        if not agent.is_connected:
            await agent.connect()

    async def refuse_to_store(self, switch: Switch) -> None:
        """Answer as with a full disk: 503, errno 205."""
        self._service.engine.nearly_full = switch.on

    async def require_vapid(self, switch: Switch) -> None:
        """Answer pushes without a VAPID token with 401, errno 120."""
        self._service.require_vapid(on=switch.on)

    async def move_clock(self, move: ClockMove) -> ClockTime:
        """Move the clock of the service, by which messages and VAPID tokens expire."""
        self._service.clock.ahead += move.seconds
        return ClockTime(self._service.clock())

    async def reset(self) -> None:
        """Forget rules and received pushes, release what is held, set clock and switches back."""
        self._service.reset()

    def _agent(self, endpoint: str) -> SimulatedUserAgent:
        agent = self._service.agents.get(endpoint)
        if agent is None:
            raise _unknown_endpoint()
        return agent

    def _why_nothing_came(self, wanted: NextRequest) -> str:
        pushes = [p for p in self._service.steering.received if p.endpoint == wanted.endpoint]
        text = f"no message within {wanted.timeout:g} s"
        if not pushes:
            return f"{text}: nothing was sent to this endpoint"
        return "; ".join([text, *map(str, pushes[-_SHOWN_PUSHES:])])


def _unknown_endpoint() -> ControlRefusal:
    return ControlRefusal(404, "endpoint: expected one of a subscription to this service")


Verb = Callable[..., Coroutine[Any, Any, Any]]
VERBS: Final[Mapping[str, Verb]] = {
    name: verb for name, verb in vars(Control).items() if not name.startswith("_")
}


def types_of(verb: Verb) -> tuple[Any, Any]:
    """Of its parameter, None without one, and of what it returns."""
    *parameter, returned = get_type_hints(verb).values()
    return (parameter[0] if parameter else None), returned


class ControlHandler:
    """The control port. `token`: what each request has to show."""

    def __init__(self, service: InMemoryService, token: str) -> None:
        self._control, self._token = Control(service), token

    async def __call__(self, request: Request) -> Response:
        name = request.path.removeprefix("/")
        if request.method == "GET" and name in ("", "openapi.json"):
            return _json(200, openapi())
        presented = request.headers.get(AUTHORIZATION, "").removeprefix("Bearer ")
        if not hmac.compare_digest(presented.encode(), self._token.encode()):
            return _refusal(401, "expected Authorization: Bearer and the token of this service")
        verb = VERBS.get(name)
        if verb is None:
            return _refusal(404, f"expected one of {', '.join(VERBS)}")
        if request.method != "POST":
            return _refusal(405, "expected POST")
        try:
            given, _ = types_of(verb)
            words = (
                [] if given is None else [msgspec.json.decode(request.body or b"{}", type=given)]
            )
            return _json(200, await verb(self._control, *words))
        except msgspec.ValidationError as error:
            return _refusal(400, str(error))
        except msgspec.DecodeError:
            return _refusal(400, "expected a JSON object")
        except ControlRefusal as refusal:
            return _refusal(refusal.status, str(refusal))


def _json(status: int, document: object) -> Response:
    return Response(status, msgspec.json.encode(document), (), "application/json")


def _refusal(status: int, text: str) -> Response:
    return _json(status, {"error": text})


def openapi() -> dict[str, object]:
    """The document for generators of clients, and for readers."""
    types = [
        each for verb in VERBS.values() for each in types_of(verb) if each not in (None, type(None))
    ]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(map(str, types), schemas, strict=True))

    def content(kind: object) -> dict[str, object]:
        return {
            "content": {"application/json": {"schema": schema_of.get(str(kind), {"type": "null"})}}
        }

    paths = {}
    for name, verb in VERBS.items():
        given, returned = types_of(verb)
        summary = " ".join((verb.__doc__ or "").split())
        answers = {
            "200": {"description": "done", **content(returned)},
            "default": {"description": "refused; `error` says what was expected"},
        }
        operation = {"operationId": name, "summary": summary, "responses": answers}
        if given is not None:
            operation["requestBody"] = content(given)
        paths[f"/{name}"] = {"post": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "autopush test-service", "version": VERSION},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
