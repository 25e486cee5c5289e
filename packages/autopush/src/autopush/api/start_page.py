"""The start page: what this is, how to point Firefox at it, and a live demo. Works offline.

Rule: its files are read once, at the start, and served with a policy that forbids everything from
other origins.
"""

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Final

from autopush.net.http_messages import Request, Response
from autopush.version import VERSION
from autopush.webpush.syntax import origin_of

STATIC: Final = files("autopush.api") / "static"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FILES: Final = {
    "/": "index.html",
    # At the root, because the scope of a service worker is its folder.
    "/service-worker.js": "service-worker.js",
    **{
        f"/start/{name}": name
        for name in (
            "copy.js",
            "demo.js",
            "health.js",
            "icon.svg",
            "program.js",
            "sender-key.js",
            "steps.js",
            "style.css",
            "trouble.js",
            "webpush.js",
        )
    },
}


class StartPage:
    """Serves `/` and the files it needs.

    `endpoint_url` and `websocket_url` are the public URLs of this service.

    :raises ValueError: `endpoint_url` is not an absolute URL
    """

    def __init__(self, *, endpoint_url: str, websocket_url: str) -> None:
        values = {
            "endpoint_url": endpoint_url,
            "websocket_url": websocket_url,
            "version": VERSION,
        }
        headers = page_headers(_policy(origin_of(endpoint_url)))
        self._pages = {}
        for path, name in _FILES.items():
            body = (STATIC / name).read_bytes()
            kind = name.rpartition(".")[2]
            if kind == "html":
                body = fill_page(body.decode(), values).encode()
            self._pages[path] = Response(200, body, headers, _TYPES[kind])

    def respond(self, request: Request) -> Response | None:
        """The file of that path, None when there is none."""
        page = self._pages.get(request.path) if request.method == "GET" else None
        # A copy, to which the caller adds the headers of the route.
        return page and Response(page.status, page.body, page.headers, page.content_type)


def _policy(endpoint: str) -> str:
    # The page may be opened under another name of this machine (localhost, 127.0.0.1) than that of
    # its endpoints, and sends to them all the same.
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        f"connect-src 'self' {endpoint}; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def page_headers(policy: str) -> tuple[tuple[str, str], ...]:
    """The headers of a page for people; `policy` is its Content-Security-Policy."""
    return (
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-cache"),
    )


def fill_page(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{{name}}` by its value, escaped."""
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", escape(value))
    return text
