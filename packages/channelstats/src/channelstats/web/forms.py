"""What a form says that was sent here.

Rule: it comes in time, is small and written as our pages write forms; anything else is refused.
"""

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

PATIENCE: Final = 10.0
"""Seconds that the body of a form may take."""

_KIND: Final = "application/x-www-form-urlencoded"


async def form_of(request: web.Request) -> dict[str, str]:
    """Its fields; of several with one name, the last.

    :raises web.HTTPException: it is no form, is too large, or does not come
    """
    if request.content_type != _KIND:
        raise web.HTTPUnsupportedMediaType
    try:
        async with asyncio.timeout(PATIENCE):
            body = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    return dict(parse_qsl(body.decode(errors="replace")))
