"""Outcomes of attempts to send to browsers and mail addresses, and how often they are repeated.

A run that sends holds the lease of the subscriber, makes a few attempts, and stores the outcome in
the row of the lease (`tables.subscriptions`). It says since when nothing has come through, whatever
they were told: a row for each week and each subscriber would be most of the table.
"""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Final

import msgspec

from channelstats.slack.rate_limits import Sleep
from keytables.retries import Backoff

ATTEMPTS: Final = 3
LONGEST_WAIT: Final = 30
"""Seconds that are waited for within a run. Who wants more is left for later."""
BACKOFF: Final = Backoff(2, LONGEST_WAIT, jitter=0.0)
"""Where the other side names no time to wait."""


class Outcome(Enum):
    TAKEN = auto()
    GONE = auto()
    """The recipient will never be reached under this address again."""
    BUSY = auto()
    """It cannot be taken now."""
    FAILED = auto()
    """It is not wanted, or nobody could be reached."""


class Answer(msgspec.Struct, frozen=True):
    """``wait``: seconds that the other side asked for."""

    outcome: Outcome
    wait: int = 0


async def attempts(send: Callable[[], Awaitable[Answer]], sleep: Sleep) -> Answer:
    """Send until it is not busy any more, a few times; what was answered last."""
    for attempt in range(1, ATTEMPTS):
        answer = await send()
        pause = max(answer.wait, BACKOFF.delay(attempt))
        if answer.outcome is not Outcome.BUSY or pause > LONGEST_WAIT:
            return answer
        await sleep(pause)
    return await send()
