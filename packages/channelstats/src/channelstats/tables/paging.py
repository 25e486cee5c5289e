"""Many items: written in batches, read in pages.

Rule: no more than one batch or page of them is in hand at a time.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from keytables import Item, TableHandle

BATCH: Final = 1000
"""Rows submitted at once: what one transaction of the embedded engine takes."""

_T = TypeVar("_T")


def batches(things: Iterable[_T], size: int = BATCH) -> Iterator[list[_T]]:
    """The things in lists of at most ``size``."""
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch


async def everything(table: TableHandle) -> AsyncIterator[list[Item]]:
    """All items of a table, a page at a time."""
    page = await table.scan()
    yield page.items
    while page.cursor is not None:
        page = await table.scan(after=page.cursor)
        yield page.items
