"""Outcomes of attempts to send, and how often they are repeated: for Slack, browsers and mail.

A run that sends holds a lease, makes a few attempts, and stores the outcome in the row of the
lease. There are two kinds of rows:

    what is posted in Slack   the row of the report and its destination (`tables.sent_reports`): it
                              may have a file, which another run goes on with
    what subscribers are told the row of the subscriber (`tables.subscriptions`): it says since when
                              nothing has come through, whatever they were told; and a row for each
                              of 57 weeks and each subscriber would be most of the table
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
