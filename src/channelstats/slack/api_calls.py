"""Calls of the Web API that keep to its limits and outlast its troubles.

Rule: a call is repeated when Slack asks for it or the network fails, never when Slack refuses; and
never for ever.
"""

import random
from collections.abc import Callable, Mapping
from typing import Final

from channelstats.slack.api_errors import PASSING, RATE_LIMITED, NoAnswer, code_of, error_of
from channelstats.slack.api_pace import AppKind, Limit, Pace, Sleep, limits
from channelstats.slack.api_transport import Answer, Cut, Params, Transport
from tablestore import Clock

TRIES: Final = 6
"""Tries of a call that meets server errors or cuts."""

HOLDS: Final = 30
"""Times that a call waits because Slack says so."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_LONGEST_HOLD: Final = 3600.0
_USUAL_HOLD: Final = 30.0
"""Seconds to wait where Slack does not say how long."""

_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429


class Calls:
    """Calls methods one by one. ``clock`` counts seconds and never goes back; ``jitter`` returns
    a random number from 0 to 1.
    """

    def __init__(
        self,
        transport: Transport,
        kind: AppKind,
        *,
        clock: Clock,
        sleep: Sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._transport, self._sleep, self._jitter = transport, sleep, jitter
        self._limits = limits(kind)
        self._paces = {
            method: Pace(limit.per_minute, clock=clock, sleep=sleep)
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
        pace = self._paces[method]
        failures = holds = 0
        while True:
            await pace.turn()
            try:
                answer = await self._transport.call(method, params)
            except Cut as cut:
                trouble = str(cut)
            else:
                if answer.status == _TOO_MANY or code_of(answer.body) in RATE_LIMITED:
                    holds += 1
                    pace.hold(_hold_of(method, answer, holds))
                    continue
                if answer.body.get("ok") is True and answer.status < _SERVER_ERROR:
                    return answer.body
                if not _passes(answer):
                    raise error_of(method, answer.body)
                trouble = f"HTTP {answer.status}"
            failures += 1
            if failures == TRIES:
                raise NoAnswer(method, f"{trouble}, {TRIES} times")
            await self._sleep(self._pause(failures))

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
