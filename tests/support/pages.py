"""What a query or a scan returns, page after page."""

from collections.abc import Awaitable, Callable
from typing import Any

from keytables import Item, Page


async def pages_of(read: Callable[..., Awaitable[Page]], *given: Any, **options: Any) -> list[Page]:
    """All pages: the first one, and each that follows the cursor of the one before."""
    found = [await read(*given, **options)]
    while (cursor := found[-1].cursor) is not None:
        found.append(await read(*given, after=cursor, **options))
    return found


async def items_of(read: Callable[..., Awaitable[Page]], *given: Any, **options: Any) -> list[Item]:
    """The items of all pages."""
    return [item for page in await pages_of(read, *given, **options) for item in page.items]
