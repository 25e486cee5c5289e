"""Calls of the Web API and its listings: kept to the limits of each method, and retried.

Rule: a call is repeated when Slack asks for it or the network fails, never when Slack refuses; and
never for ever. What must not be done twice is repeated only where Slack has surely not done it.

Rule: a listing goes on until Slack gives no further cursor; a short page is not its end. If a
cursor has expired it begins from the start, so what it yields may come twice.

slack_sdk's own retry handlers and its iteration over pages are not used: they call Slack before its
limit allows it, sleep where nobody else can watch the time, and repeat what must not be done twice.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Final, Generic, TypeVar

import msgspec

from channelstats.slack.errors import (
    PASSING,
    RATE_LIMITED,
    InvalidCursor,
    NoAnswer,
    code_of,
    error_of,
)
from channelstats.slack.objects import Broken, object_of
from channelstats.slack.rate_limits import AppKind, RateLimiter, Sleep, limits
from channelstats.slack.transport import ApiResponse, Body, Params, Transport, TransportError
from keytables import Clock

_T = TypeVar("_T")

Check = Callable[[], Awaitable[None]]

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


class Page(msgspec.Struct, Generic[_T], frozen=True):
    """What one call gave, without the ``broken``: of those, what is wrong with each. ``limited``:
    the workspace's plan hides older messages.
    """

    items: list[_T]
    broken: list[str]
    limited: bool = False


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
        self._transport, self._sleep, self._jitter = transport, sleep, jitter
        self._say = say
        self._limits = limits(kind)
        self._limiters = {
            method: RateLimiter(limit.per_minute, clock=clock, sleep=sleep, seconds=limit.seconds)
            for method, limit in self._limits.items()
        }

    async def close(self) -> None:
        await self._transport.close()

    async def call(self, method: str, params: Params) -> Mapping[str, object]:
        """Call a method; return the body of the answer.

        :raises SlackError: Slack refuses, or there is no answer in spite of repetition
        """
        return (await self.answer(method, params)).body

    async def answer(self, method: str, params: Params) -> ApiResponse:
        """The same, with what is said beside the body."""
        return await self._with_retries(method, partial(self._transport.call, method, params))

    async def write(
        self, method: str, body: Body, *, once: bool = False, before: Check | None = None
    ) -> Mapping[str, object]:
        """Call a method that changes something; return the body of the answer. ``once``: it is not
        repeated where it may have been done. ``before`` each request, this is awaited; an error of
        it ends the call.

        :raises SlackError: as in `call`; after a `NoAnswer` it may have been done
        """
        asked = partial(self._transport.write, method, body)
        return (await self._with_retries(method, asked, once=once, before=before)).body

    async def upload(self, method: str, url: str, data: bytes) -> None:
        """Bring a file to an address that ``method`` gave for it.

        :raises SlackError: it is not there
        """
        await self._with_retries(method, partial(self._transport.upload, url, data))

    async def pages(
        self, method: str, key: str, kind: type[_T], asked: Params, *, most: int | None = None
    ) -> AsyncIterator[Page[_T]]:
        """Every page of a listing whose items are under ``key``, ``most`` of them.

        :raises SlackError: as in `call`, and where there are more
        """
        limit, cursor, restarts = self._limits[method].items, "", 0
        for number in count(1):
            at: Params = {"cursor": cursor} if cursor else {}
            try:
                body = await self.call(method, {**asked, "limit": limit, **at})
            except InvalidCursor:
                if not cursor or restarts == RESTARTS:
                    raise
                cursor, restarts = "", restarts + 1
                continue
            values = body.get(key)
            if not isinstance(values, list):
                raise NoAnswer(method, f"an answer without a list {key!r}")
            yield _page(values, kind, limited=body.get("is_limited") is True)
            following = _next_cursor(body)
            if not following:
                return
            if following == cursor:
                raise NoAnswer(method, "the listing does not get on")
            if number == most:
                raise NoAnswer(method, f"more than {most} pages")
            cursor = following

    async def _with_retries(
        self,
        method: str,
        ask: Callable[[], Awaitable[ApiResponse]],
        *,
        once: bool = False,
        before: Check | None = None,
    ) -> ApiResponse:
        """The answer to what is asked, as often as it takes."""
        limiter = self._limiters[method]
        failures = holds = 0
        while True:
            await limiter.acquire()
            if before is not None:
                await before()
            unsent = False
            try:
                answer = await ask()
            except TransportError as error:
                trouble, unsent = str(error), error.unsent
            else:
                if answer.status == _TOO_MANY or code_of(answer.body) in RATE_LIMITED:
                    holds += 1
                    seconds = limiter.hold(_hold_of(method, answer, holds))
                    if seconds > _LONG_HOLD:  # one of several that wait at once is reported
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
            pause = min(_FIRST_PAUSE * (1 << (failures - 1)), _LONGEST_PAUSE)
            await self._sleep(pause * (0.5 + self._jitter() / 2))


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


def _page(values: list[object], kind: type[_T], *, limited: bool) -> Page[_T]:
    items, broken = [], []
    for value in values:
        try:
            items.append(object_of(value, kind))
        except Broken as error:
            broken.append(str(error))
    return Page(items, broken, limited)


def _next_cursor(body: Mapping[str, object]) -> str:
    """Where a listing goes on; "" at its end."""
    metadata = body.get("response_metadata")
    cursor = metadata.get("next_cursor") if isinstance(metadata, dict) else None
    return cursor if isinstance(cursor, str) else ""
