"""The garbage-collection key of a router record: the hour of the month's first connect.

Rule: it is rewritten at most once a month, and its decimal text begins with the year and month it
stands for.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from autopush.store.months import Month

SPREAD: Final = 10


def make(now: float) -> int:
    """The key for a connect at `now` (epoch seconds): YYYYMMHH and 0001 to 0010."""
    hour = datetime.fromtimestamp(now, UTC).strftime("%Y%m%H")
    return int(f"{hour}{random.randint(1, SPREAD):04}")  # noqa: S311 - spreads load, guards nothing


def is_this_month(last_connect: int | None, now: float) -> bool:
    """Whether that key was made in the month of `now`."""
    return last_connect is not None and str(last_connect).startswith(_month(int(now) // 3600))


def keys_of(month: Month) -> Iterator[int]:
    """Every key a record of that month can have: 0000 too, which the original gave out."""
    for hour in range(24):
        for number in range(SPREAD + 1):
            yield int(f"{month.year:04}{month.month:02}{hour:02}{number:04}")


@lru_cache(maxsize=2)
def _month(hour: int) -> str:
    """Year and month of that hour since the epoch."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y%m")
