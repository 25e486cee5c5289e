"""The start page with its live demo, and `/errors`, to which `more_info` of every refusal points.

They work offline: their CSP forbids loading from other origins.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final
from urllib.parse import urlsplit

from autopush.hosts import origin_of
from autopush.net.http_messages import Request, Response
from autopush.version import VERSION
from autopush.webpush.errors import ERRORS, Errno, reason_phrase

_STATIC: Final = files("autopush.api") / "static"
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_PATHS: Final = {
    "index.html": "/",
    "errors.html": "/errors",
    # At the root, because the scope of a service worker is its folder.
    "service-worker.js": "/service-worker.js",
}
"""Paths of the files that are not under /start/."""
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Pages:
    """`endpoint_url`, `websocket_url`: the public URLs of this service. `accounts_required`: user
    agents need the token of a user. The files are read once.

    :raises ValueError: `endpoint_url` is not an absolute URL
    """

    def __init__(
        self, *, endpoint_url: str, websocket_url: str, accounts_required: bool = False
    ) -> None:
        is_one = urlsplit(endpoint_url).netloc == urlsplit(websocket_url).netloc
        values = {
            "endpoint_url": endpoint_url,
            "websocket_url": websocket_url,
            "addresses": "Its address" if is_one else "Its two addresses",
            "version": VERSION,
            "accounts": "required" if accounts_required else "none",
            "unless_accounts": "" if accounts_required else "hidden",
        }
        # The page may be opened under another name (localhost, 127.0.0.1) than that of the
        # endpoints to which it sends.
        demo = f"script-src 'self'; worker-src 'self'; connect-src 'self' {origin_of(endpoint_url)}"
        self._pages = {}
        for path, kind, body in _files():
            if kind == "html":
                body = _filled(body.decode(), values).encode()
            policy = _POLICY if path == "/errors" else f"{_POLICY}; {demo}"
            self._pages[path] = Response(200, body, _headers(policy), _TYPES[kind])

    def respond(self, request: Request) -> Response | None:
        page = self._pages.get(request.path) if request.method == "GET" else None
        # A copy, to which the caller adds the headers of the route.
        return page and Response(page.status, page.body, page.headers, page.content_type)


@cache
def _files() -> Sequence[tuple[str, str, bytes]]:
    """The path, the kind and the content of each file, pages with the table of errors."""
    files = []
    for file in _STATIC.iterdir():
        kind = file.name.rpartition(".")[2]
        if kind not in _TYPES:  # an editor's backup copy, a folder
            continue
        body = file.read_bytes()
        if kind == "html":
            text = body.decode()
            text = text.replace("<!-- rows -->", "\n".join(map(_row, ERRORS.values())))
            text = text.replace("<!-- sections -->", "\n".join(map(_section, ERRORS.values())))
            body = text.encode()
        files.append((_PATHS.get(file.name, f"/start/{file.name}"), kind, body))
    return files


def _headers(policy: str) -> tuple[tuple[str, str], ...]:
    return (
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-cache"),
    )


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Fill in each `{{name}}`, escaped."""
    for name, value in values.items():
        text = text.replace(f"{{{{{name}}}}}", escape(value))
    return text


def _row(kind: Errno) -> str:
    return (
        f'<tr><td><a href="#{kind.anchor}">{kind:d}</a></td>'
        f"<td>{kind.status} {escape(reason_phrase(kind.status))}</td>"
        f"<td>{escape(kind.title)}</td></tr>"
    )


def _section(kind: Errno) -> str:
    return (
        f'<section class="card error" id="{kind.anchor}" aria-labelledby="{kind.anchor}-title">\n'
        f'<h2 id="{kind.anchor}-title">{kind:d}: {escape(kind.title)}</h2>\n'
        f'<p class="why">HTTP status {kind.status} {escape(reason_phrase(kind.status))}</p>\n'
        f"<p>{escape(kind.help)}</p>\n"
        "</section>"
    )
