"""The files of the pages: style, script, icon.

Rule: they are read once, at the start, and a browser asks each time whether its copy is still the
same.
"""

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

_FOLDER: Final = Path(__file__).with_name("static")
_FILES: Final = {
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def routes() -> list[web.RouteDef]:
    return [web.get(f"/static/{name}", _answering(name, kind)) for name, kind in _FILES.items()]


def _answering(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = (_FOLDER / name).read_bytes()
    tag = hashlib.sha256(body).hexdigest()[:16]
    headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: f'"{tag}"'}

    async def answer(request: web.Request) -> web.Response:
        known = request.if_none_match or ()
        if any(of.value in (tag, "*") for of in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)

    return answer
