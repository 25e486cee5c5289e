"""The page that explains every error, to which `more_info` of the refusals leads. Works offline.

Rule: it is made from the table of errors, once, at the start.
"""

from html import escape
from typing import Final

from autopush.api.start_page import STATIC, fill_page, page_headers
from autopush.net.http_messages import Response
from autopush.version import VERSION
from autopush.webpush.errors import ERRORS, ErrorKind, reason_phrase

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class ErrorsPage:
    """Serves `/errors`. The errors of HTTP come from the table, the rest is in the file."""

    def __init__(self) -> None:
        text = fill_page((STATIC / "errors.html").read_text("utf-8"), {"version": VERSION})
        text = text.replace("<!-- rows -->", "\n".join(map(_row, ERRORS.values())))
        text = text.replace("<!-- sections -->", "\n".join(map(_section, ERRORS.values())))
        self._body = text.encode()
        self._headers = page_headers(_POLICY)

    def response(self) -> Response:
        """The page, in a response of its own, to which the caller adds the headers of the route."""
        return Response(200, self._body, self._headers, "text/html; charset=utf-8")


def _row(kind: ErrorKind) -> str:
    return (
        f'<tr><td><a href="#{kind.anchor}">{kind.errno:d}</a></td>'
        f"<td>{kind.status} {escape(reason_phrase(kind.status))}</td>"
        f"<td>{escape(kind.title)}</td></tr>"
    )


def _section(kind: ErrorKind) -> str:
    return (
        f'<section class="card error" id="{kind.anchor}" aria-labelledby="{kind.anchor}-title">\n'
        f'<h2 id="{kind.anchor}-title">{kind.errno:d}: {escape(kind.title)}</h2>\n'
        f'<p class="why">HTTP status {kind.status} {escape(reason_phrase(kind.status))}</p>\n'
        f"<p>{escape(kind.help)}</p>\n"
        "</section>"
    )
