"""The files of the pages: style, scripts, the service worker, icons.

Rule: they are read once, at the start, and a browser asks each time whether its copy is still the
same, so a service worker never grows old. It is at the root, as it serves every page.
"""

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

_FOLDER: Final = Path(__file__).with_name("static")
_FILES: Final = {
    "/static/dashboard.css": "text/css",
    "/static/dashboard.js": "text/javascript",
    "/static/icon.svg": "image/svg+xml",
    "/notifications/notify.js": "text/javascript",
    "/notifications/icon.png": "image/png",
    "/worker.js": "text/javascript",
}


def routes() -> list[web.RouteDef]:
    return [
        web.get(path, _answering(path.rpartition("/")[2], kind)) for path, kind in _FILES.items()
    ]


def _answering(name: str, kind: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    body = (_FOLDER / name).read_bytes()
    tag = hashlib.sha256(body).hexdigest()[:16]
    charset = None if kind == "image/png" else "utf-8"
    headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: f'"{tag}"'}

    async def answer(request: web.Request) -> web.Response:
        known = request.if_none_match or ()
        if any(of.value in (tag, "*") for of in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type=kind, charset=charset, headers=headers)

    return answer
