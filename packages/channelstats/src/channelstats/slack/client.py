"""Calls of the Web API and its listings: kept to the limits of each method, and retried.

Rule: a call is repeated when Slack asks for it or the network fails, never when Slack refuses; and
never for ever. What must not be done twice is repeated only where Slack has surely not done it.

Rule: a listing goes on until Slack gives no further cursor; a short page is not its end. If a
cursor has expired it begins from the start, so what it yields may come twice.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from channelstats.slack.errors import (
    PASSING,
    RATE_LIMITED,
    InvalidCursor,
    NoAnswer,
    code_of,
    error_of,
)
from channelstats.slack.objects import objects_of
from channelstats.slack.rate_limits import AppKind, RateLimiter, Sleep, limits
from keytables import Clock
from keytables.retries import Backoff

_T = TypeVar("_T")

# ── one request ──────────────────────────────────────────────────────────────────────────────────

Params = Mapping[str, str | int | bool]

Body = Mapping[str, object]
"""What a method that writes is given: whatever JSON holds."""


class ApiResponse(msgspec.Struct, frozen=True):
    """What was answered. ``body`` is empty where it was no JSON object; ``scopes`` are the token's,
    where Slack says them.
    """

    status: int
    body: Mapping[str, object]
    retry_after: str = ""
    scopes: str = ""


class TransportError(Exception):
    """There was no answer, or half of one. The message is the kind of trouble. ``unsent``: Slack
    has not even been reached, so it has done nothing.
    """

    def __init__(self, trouble: str, *, unsent: bool = False) -> None:
        super().__init__(trouble)
        self.unsent = unsent


class SlackCall(msgspec.Struct, frozen=True):
    """A ``method`` that reads with ``params`` or writes with a ``body``; or ``data`` for a ``url``
    that it gave.
    """

    method: str
    params: Params = {}
    body: Body | None = None
    url: str = ""
    data: bytes = b""


class Transport(Protocol):
    async def send(self, call: SlackCall) -> ApiResponse:
        """Make a call once, without judging what is answered.

        :raises TransportError: there was no whole answer; it may have been done all the same
        """
        ...


# ── calls and listings ───────────────────────────────────────────────────────────────────────────

RESTARTS: Final = 5
"""Times that a listing begins from the start."""

TRIES: Final = 6
"""Tries of a call that meets server errors or broken connections."""

HOLDS: Final = 30
"""Times that a call waits because Slack says so."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_LONGEST_HOLD: Final = 3600.0
_USUAL_HOLD: Final = 30.0
"""Seconds to wait where Slack does not say how long."""

_LONG_HOLD: Final = 60.0
"""Seconds; a longer wait is reported."""

_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429


class ListingPage(msgspec.Struct, Generic[_T], frozen=True):
    """What one call gave, without the ``broken``: of those, what is wrong with each. ``limited``:
    the workspace's plan hides older messages.
    """

    items: list[_T]
    broken: list[str]
    limited: bool = False


Check: TypeAlias = Callable[[], Awaitable[None]]


class SlackClient:
    """Calls methods one by one. ``clock`` counts seconds and never goes back; ``jitter`` returns
    a random number from 0 to 1; ``say`` is given a line where Slack has us wait long.
    """

    def __init__(
        self,
        transport: Transport,
        kind: AppKind,
        *,
        clock: Clock,
        sleep: Sleep,
        jitter: Callable[[], float] = random.random,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._transport, self._sleep = transport, sleep
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, 0.5, random=jitter)
        self._say = say
        self._limits = limits(kind)
        self._limiters = {
            method: RateLimiter(limit.per_minute, clock=clock, sleep=sleep, seconds=limit.seconds)
            for method, limit in self._limits.items()
        }

    async def call(self, method: str, params: Params) -> Mapping[str, object]:
        """Call a method; return the body of the answer.

        :raises SlackError: Slack refuses, or there is no answer in spite of repetition
        """
        return (await self.answer(method, params)).body

    async def answer(self, method: str, params: Params) -> ApiResponse:
        """The same, with what is said beside the body."""
        return await self._with_retries(SlackCall(method, params))

    async def write(
        self, method: str, body: Body, *, once: bool = False, before: Check | None = None
    ) -> Mapping[str, object]:
        """Call a method that changes something; return the body of the answer. ``once``: it is not
        repeated where it may have been done. ``before`` each request, this is awaited; an error of
        it ends the call.

        :raises SlackError: as in `call`; after a `NoAnswer` it may have been done
        """
        call = SlackCall(method, body=body)
        return (await self._with_retries(call, once=once, before=before)).body

    async def upload(self, method: str, url: str, data: bytes) -> None:
        """Bring a file to an address that ``method`` gave for it.

        :raises SlackError: it is not there
        """
        await self._with_retries(SlackCall(method, url=url, data=data))

    async def pages(
        self, method: str, key: str, kind: type[_T], asked: Params
    ) -> AsyncIterator[ListingPage[_T]]:
        """Every page of a listing whose items are under ``key``.

        :raises SlackError: as in `call`
        """
        limit, cursor, restarts = self._limits[method].items, "", 0
        cursors = set[str]()
        while True:
            at: Params = {"cursor": cursor} if cursor else {}
            try:
                body = await self.call(method, {**asked, "limit": limit, **at})
            except InvalidCursor:
                if not cursor or restarts == RESTARTS:
                    raise
                cursor, restarts = "", restarts + 1
                cursors.clear()
                continue
            values = body.get(key)
            if not isinstance(values, list):
                raise NoAnswer(method, f"an answer without a list {key!r}")
            yield ListingPage(*objects_of(values, kind), limited=body.get("is_limited") is True)
            following = _next_cursor(body)
            if not following:
                return
            if following in cursors:
                raise NoAnswer(method, "the same cursor came twice")
            cursors.add(following)
            cursor = following

    async def _with_retries(
        self, call: SlackCall, *, once: bool = False, before: Check | None = None
    ) -> ApiResponse:
        """The answer to what is asked, as often as it takes."""
        method, limiter = call.method, self._limiters[call.method]
        failures = holds = 0
        while True:
            await limiter.acquire()
            if before is not None:
                await before()
            unsent = False
            try:
                answer = await self._transport.send(call)
            except TransportError as error:
                trouble, unsent = str(error), error.unsent
            else:
                if answer.status == _TOO_MANY or code_of(answer.body) in RATE_LIMITED:
                    holds += 1
                    seconds = _hold_of(method, answer, holds)
                    if limiter.hold(seconds) > _LONG_HOLD:  # one of several that wait is reported
                        self._say(f"Slack asks to wait {seconds:,.0f} s before the next {method}")
                    continue
                if answer.body.get("ok") is True and answer.status < _SERVER_ERROR:
                    return answer
                if (
                    answer.status < _SERVER_ERROR
                    and "error" in answer.body
                    and code_of(answer.body) not in PASSING
                ):
                    raise error_of(method, answer.body)
                trouble = f"HTTP {answer.status}"
            failures += 1
            if once and not unsent:
                raise NoAnswer(method, trouble)
            if failures == TRIES:
                raise NoAnswer(method, f"{trouble}, {TRIES} times")
            await self._sleep(self._backoff.delay(failures))


def _hold_of(method: str, answer: ApiResponse, holds: int) -> float:
    """Seconds for which Slack wants not to be asked."""
    try:
        seconds = float(answer.retry_after)
    except ValueError:
        seconds = _USUAL_HOLD
    if not 0 <= seconds <= _LONGEST_HOLD:
        raise NoAnswer(method, f"rate limited for {answer.retry_after[:20]} seconds")
    if holds > HOLDS:
        raise NoAnswer(method, f"rate limited {HOLDS} times in a row")
    return seconds


def _next_cursor(body: Mapping[str, object]) -> str:
    """Where a listing goes on; "" at its end."""
    metadata = body.get("response_metadata")
    cursor = metadata.get("next_cursor") if isinstance(metadata, dict) else None
    return cursor if isinstance(cursor, str) else ""
