"""User agents that were not seen for months: found by the index of the router table, and dropped.

Rule: work follows the keys of garbage collection, hour by hour of a month; nothing is scanned. What
the index says is only where to look: see `removal`.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Final

from autopush.store import last_connect
from autopush.store.months import Month
from autopush.store.pace import Pace
from autopush.store.removal import BATCH, Batch, Removal
from keytables import Cursor, Item

INDEX: Final = "AccessIndex"
PAGE: Final = 250
"""Items of the index in one answer, about 30 KB."""
AT_ONCE: Final = 11
"""Keys that are looked into at the same time: those of an hour."""


def months_ago(now: float, fewest: int, most: int) -> list[Month]:
    """The months from `fewest` to `most` months before that of `now`, latest first."""
    month, found = Month.at(now), []
    for number in range(most + 1):
        if number >= fewest:
            found.append(month)
        month = month.previous
    return found


async def find_old_users(
    removal: Removal, months: Iterable[Month], *, pace: Pace
) -> dict[int, int]:
    """How many user agents the index has under each key of these months; keys without any are
    left out. Reads only.
    """
    keys = [key for month in months for key in last_connect.keys_of(month)]
    found: dict[int, int] = {}
    for first in range(0, len(keys), AT_ONCE):
        some = keys[first : first + AT_ONCE]
        counts = await asyncio.gather(*(_count(removal, key, pace) for key in some))
        found |= {key: count for key, count in zip(some, counts, strict=True) if count}
    return found


async def drop_old_users(
    removal: Removal, keys: Iterable[int], *, pace: Pace, batch_size: int = BATCH
) -> AsyncGenerator[Batch, None]:
    """Drop the user agents that the index has under these keys, a batch with each step.

    :raises Throttled: the store was too busy for too long; run it again later
    """
    waiting: list[Item] = []
    for key in keys:
        async for page in _pages(removal, key, pace):
            waiting += page
            while len(waiting) >= batch_size:
                yield await _drop(removal, waiting[:batch_size], pace)
                del waiting[:batch_size]
    if waiting:
        yield await _drop(removal, waiting, pace)


async def _drop(removal: Removal, batch: list[Item], pace: Pace) -> Batch:
    before = removal.dropped
    await pace.wait_for(len(batch))
    await pace.patiently(partial(removal.drop_unseen, batch))
    return Batch(len(batch), removal.dropped - before)


async def _count(removal: Removal, key: int, pace: Pace) -> int:
    return sum([len(page) async for page in _pages(removal, key, pace)])


async def _pages(removal: Removal, key: int, pace: Pace) -> AsyncGenerator[list[Item], None]:
    cursor: Cursor | None = None
    while True:
        read = partial(removal.router.query_index, INDEX, key, limit=PAGE, after=cursor)
        page = await pace.patiently(read)
        yield page.items
        cursor = page.cursor
        if cursor is None:
            break
