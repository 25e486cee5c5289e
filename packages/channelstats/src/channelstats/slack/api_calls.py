"""Calls of the Web API that keep to its limits and outlast its troubles.

Rule: a call is repeated when Slack asks for it or the network fails, never when Slack refuses; and
never for ever. What must not be done twice is repeated only where Slack has surely not done it.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from channelstats.slack.api_errors import PASSING, RATE_LIMITED, NoAnswer, code_of, error_of
from channelstats.slack.api_pace import AppKind, Limit, Pace, Sleep, limits
from channelstats.slack.api_transport import Answer, Body, Cut, Params, Transport
from keytables import Clock

TRIES: Final = 6
"""Tries of a call that meets server errors or cuts."""

HOLDS: Final = 30
"""Times that a call waits because Slack says so."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_LONGEST_HOLD: Final = 3600.0
_USUAL_HOLD: Final = 30.0
"""Seconds to wait where Slack does not say how long."""

_LONG_HOLD: Final = 60.0
"""Seconds; whoever waits longer is told of it."""

_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429


class Calls:
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
        self._paces = {
            method: Pace(limit.per_minute, clock=clock, sleep=sleep, seconds=limit.seconds)
            for method, limit in self._limits.items()
        }

    def limit(self, method: str) -> Limit:
        return self._limits[method]

    async def close(self) -> None:
        await self._transport.close()

    async def call(self, method: str, params: Params) -> Mapping[str, object]:
        """Call a method; return the body of the answer.

        :raises SlackError: Slack refuses, or there is no answer in spite of repetition
        """
        return (await self.answer(method, params)).body

    async def answer(self, method: str, params: Params) -> Answer:
        """The same, with what is said beside the body."""
        return await self._repeated(method, partial(self._transport.call, method, params))

    async def write(self, method: str, body: Body, *, once: bool = False) -> Mapping[str, object]:
        """Call a method that changes something; return the body of the answer. ``once``: it is not
        repeated where it may have been done.

        :raises SlackError: as in `call`; after a `NoAnswer` it may have been done
        """
        asked = partial(self._transport.write, method, body)
        return (await self._repeated(method, asked, once=once)).body

    async def upload(self, method: str, url: str, data: bytes) -> None:
        """Bring a file to an address that ``method`` gave for it.

        :raises SlackError: it is not there
        """
        await self._repeated(method, partial(self._transport.upload, url, data))

    async def _repeated(
        self, method: str, ask: Callable[[], Awaitable[Answer]], *, once: bool = False
    ) -> Answer:
        """The answer to what is asked, as often as it takes."""
        pace = self._paces[method]
        failures = holds = 0
        while True:
            await pace.turn()
            unsent = False
            try:
                answer = await ask()
            except Cut as cut:
                trouble, unsent = str(cut), cut.unsent
            else:
                if answer.status == _TOO_MANY or code_of(answer.body) in RATE_LIMITED:
                    holds += 1
                    self._hold(method, pace, _hold_of(method, answer, holds))
                    continue
                if answer.body.get("ok") is True and answer.status < _SERVER_ERROR:
                    return answer
                if not _passes(answer):
                    raise error_of(method, answer.body)
                trouble = f"HTTP {answer.status}"
            failures += 1
            if once and not unsent:
                raise NoAnswer(method, trouble)
            if failures == TRIES:
                raise NoAnswer(method, f"{trouble}, {TRIES} times")
            await self._sleep(self._pause(failures))

    def _hold(self, method: str, pace: Pace, seconds: float) -> None:
        """Wait with a method; of those that are told so at once, one says it."""
        if pace.hold(seconds) > _LONG_HOLD:
            self._say(f"Slack asks to wait {seconds:,.0f} s before the next {method}")

    def _pause(self, failures: int) -> float:
        longest = min(_FIRST_PAUSE * (1 << (failures - 1)), _LONGEST_PAUSE)
        return longest * (0.5 + self._jitter() / 2)


def _passes(answer: Answer) -> bool:
    """Whether the trouble is on Slack's side, or on the way."""
    return (
        answer.status >= _SERVER_ERROR
        or code_of(answer.body) in PASSING
        or "error" not in answer.body
    )


def _hold_of(method: str, answer: Answer, holds: int) -> float:
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
