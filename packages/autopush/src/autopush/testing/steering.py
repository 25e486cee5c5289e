"""What stands before the public port: records every push, and answers otherwise when told to."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

import msgspec

from autopush.clock import Clock
from autopush.net.http_messages import Answer, Handler, Request, Response, Upgrade
from autopush.testing.mistakes import mistakes
from autopush.testing.user_agents import UnreadableBody, UserAgentKeys
from autopush.webpush.errors import ERRORS, Errno, PushError
from autopush.webpush.tokens import EndpointTokens

MAX_RECEIVED: Final = 10_000
"""Pushes that are remembered."""
ID_TIMEOUT: Final = 5.0
"""Seconds to wait for the answer to a push whose message has already been delivered."""


class Droppable(Protocol):
    def abort(self) -> None:
        """Close the connection without an answer."""


CONNECTION: ContextVar[Droppable] = ContextVar("CONNECTION")
"""That of the request being handled: set where its protocol is made, whose context the loop keeps
for all that it calls on it.
"""


class ReceivedPush(msgspec.Struct, kw_only=True):
    """A push as it was received. `time`: epoch seconds, by the clock of the service. `text`: the
    decrypted body, if it is UTF-8; `data`: the same as bytes, base64 in JSON. `status`: null while
    it has no answer, 0 if its connection was dropped. `mistakes`: what the sender did wrong.
    """

    endpoint: str
    time: float
    headers: dict[str, str]
    size: int
    data: bytes | None
    text: str | None
    mistakes: list[str]
    status: int | None = None
    errno: int | None = None
    retry_after: int | None = None
    message_id: str | None = None

    def __str__(self) -> str:
        said = "; ".join(self.mistakes) or "nothing wrong with it"
        errno = f" (errno {self.errno})" if self.errno else ""
        return f"a push of {self.size} bytes, answered {self.status}{errno}: {said}"


class AnswerRule(msgspec.Struct, kw_only=True):
    """What happens to pushes in place of, or before, what the service does.

    `status`: of the answer, null for that of the service; `errno`: of its body, see the page of
    errors; `retry_after`: seconds, of its header. `delay`: seconds before. `drop`: the connection
    ends without an answer. `times`: how many pushes it is for, null for all. `endpoint`: of the
    only subscription it is for.
    """

    status: int | None = None
    errno: int | None = None
    retry_after: int | None = None
    delay: float = 0.0
    drop: bool = False
    times: int | None = 1
    endpoint: str | None = None

    def __post_init__(self) -> None:
        """:raises ValueError: an answer that cannot be sent"""
        if self.errno is not None and self.errno not in ERRORS:
            raise ValueError(f"errno: there is no {self.errno}; see the page of errors")
        if self.status is None and self.errno is not None:
            self.status = ERRORS[self.errno].status
        if self.status is not None and not 200 <= self.status <= 599:
            raise ValueError(f"status: expected 200 to 599, got {self.status}")
        if self.delay < 0 or (self.times is not None and self.times < 1):
            raise ValueError("delay and times: expected 0 s or more, and 1 or more")


_ERRNO_OF_STATUS: Final = {
    status: errno
    for errno, status in (
        (Errno.INVALID_CRYPTO, 400),
        (Errno.INVALID_AUTHENTICATION, 401),
        (Errno.SENDER_NOT_ALLOWED, 403),
        (Errno.INVALID_ENDPOINT, 404),
        (Errno.INVALID_SUBSCRIPTION, 410),
        (Errno.PAYLOAD_TOO_LARGE, 413),
        (Errno.RATE_EXCEEDED, 429),
        (Errno.UNKNOWN, 500),
        (Errno.BRIDGE_UNREACHABLE, 502),
        (Errno.BACK_OFF, 503),
    )
}
"""What a rule without errno says."""


class Steering:
    """The handler of the public port. `app`: the service's own. `refused`: renders its errors.
    `keys_of`: the keys of a subscription by its endpoint, None if it is a browser's.
    """

    def __init__(
        self,
        app: Handler,
        refused: Callable[[Request, PushError], Response],
        tokens: EndpointTokens,
        clock: Clock,
        keys_of: Callable[[str], UserAgentKeys | None],
    ) -> None:
        self._app, self._refused, self._tokens = app, refused, tokens
        self._clock, self._keys_of = clock, keys_of
        self.received: deque[ReceivedPush] = deque(maxlen=MAX_RECEIVED)
        self.rules: list[AnswerRule] = []
        self._open = asyncio.Event()
        self._answered = asyncio.Condition()
        self.reset()

    def reset(self) -> None:
        """Forget what was received and the rules; release what is held."""
        self.received.clear()
        self.rules.clear()
        self._open.set()

    def hold(self) -> None:
        """Have pushes wait, unanswered, until `release`."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def push_of(self, message_id: str) -> ReceivedPush | None:
        """The push that has become this message; None if it is not known (any more)."""

        def find() -> ReceivedPush | None:
            return next((each for each in self.received if each.message_id == message_id), None)

        async with self._answered:
            # A message may arrive before the answer to its sender.
            is_pending = any(each.status is None for each in self.received)
            if find() is None and is_pending:
                try:
                    await asyncio.wait_for(self._answered.wait_for(find), ID_TIMEOUT)
                except TimeoutError:
                    return None
            return find()

    def __call__(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if request.path.startswith("/wpush/") and request.method == "POST":
            return self._push(request)
        return self._app(request)

    async def _push(self, request: Request) -> Answer:
        push = self._record(request)
        await self._open.wait()
        rule = self._rule_for(push.endpoint)
        if rule is not None:
            await asyncio.sleep(rule.delay)
        if rule is not None and rule.drop:
            CONNECTION.get().abort()
            answer: Answer = Response(503)  # there is nobody to read it
            push.status = 0
        elif rule is not None and rule.status is not None:
            answer = self._steered(request, rule, rule.status)
        else:
            given = self._app(request)
            answer = given if isinstance(given, Response | Upgrade) else await given
        async with self._answered:
            if isinstance(answer, Response) and push.status is None:
                self._note(push, answer)
            self._answered.notify_all()
        return answer

    def _steered(self, request: Request, rule: AnswerRule, status: int) -> Response:
        wait = () if rule.retry_after is None else (("Retry-After", str(rule.retry_after)),)
        if status < 300:
            return Response(status, headers=wait)
        errno = rule.errno or _ERRNO_OF_STATUS.get(status, Errno.UNKNOWN)
        text = "The test service was told to answer so"
        return self._refused(request, PushError(errno, text, headers=wait, status=status))

    def _rule_for(self, endpoint: str) -> AnswerRule | None:
        for rule in self.rules:
            if rule.endpoint in (None, endpoint):
                if rule.times is not None:
                    rule.times -= 1
                    if not rule.times:
                        self.rules.remove(rule)
                return rule
        return None

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    def _record(self, request: Request) -> ReceivedPush:
        endpoint, now = self._tokens.endpoint_url + request.path, self._clock()
        keys, body = self._keys_of(endpoint), request.body
        wrong = mistakes(
            request.path, request.headers, body, tokens=self._tokens, keys=keys, now=now
        )
        wrong += self._ignored(endpoint, now)
        data = _decrypted(keys, body, request.headers)
        push = ReceivedPush(
            endpoint=endpoint,
            time=now,
            headers=dict(request.headers),
            size=len(body),
            data=data,
            text=text_of(data),
            mistakes=wrong,
        )
        self.received.append(push)
        return push

    def _ignored(self, endpoint: str, now: float) -> list[str]:
        """Which earlier answer the sender has not heeded."""
        earlier = [each for each in self.received if each.endpoint == endpoint]
        if any(each.status in (404, 410) for each in earlier):
            return ["sent to a subscription that was answered 404 or 410 before: delete it"]
        wait = max((each.time + (each.retry_after or 0) for each in earlier), default=now) - now
        if wait > 0:
            return [f"sent {wait:.1f} s before the end of a Retry-After that it was given"]
        return []

    def _note(self, push: ReceivedPush, answer: Response) -> None:
        headers = {name.lower(): value for name, value in answer.headers}
        push.status = answer.status
        push.message_id = headers.get("location", "").rpartition("/m/")[2] or None
        wait = headers.get("retry-after", "")
        push.retry_after = int(wait) if wait.isdecimal() else None
        if answer.content_type == "application/json" and answer.status >= 400:
            push.errno = msgspec.json.decode(answer.body, type=_Refusal).errno


class _Refusal(msgspec.Struct):
    errno: int


def _decrypted(keys: UserAgentKeys | None, body: bytes, headers: Mapping[str, str]) -> bytes | None:
    if keys is None or not body:
        return None
    try:
        return keys.decrypt(body, headers)
    except UnreadableBody:
        return None


def text_of(data: bytes | None) -> str | None:
    """UTF-8 as text; None for anything else."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
