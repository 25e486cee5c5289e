"""Responses as bytes on the wire.

The rule: one answer is one bytes object, its framing headers (Date, Content-Length, Connection) are
the shell's, and nothing a handler puts into a header can add a line (RFC 9110 section 5.5).
"""

from email.utils import formatdate
from http import HTTPStatus

from autopush.net.http_messages import Response, Upgrade

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_STATUS_LINES = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n" for status in range(200, 600)
}
_CONNECTION = {
    # (keep the connection, the request was HTTP/1.0)
    (True, False): "\r\n",
    (True, True): "connection: keep-alive\r\n\r\n",
    (False, False): "connection: close\r\n\r\n",
    (False, True): "connection: close\r\n\r\n",
}
_KEEP = _CONNECTION[True, False]


def date_line(seconds: float) -> str:
    """The Date header of that time (seconds since the epoch) as a whole line."""
    return f"date: {formatdate(seconds, usegmt=True)}\r\n"


def render(
    response: Response, date: str, keep_alive: bool, http10: bool = False, head: bool = False
) -> bytes:
    """The bytes of a final answer. `date` is a whole line; `head` leaves out the body.

    Raises ValueError for a header with a line break or outside latin-1, or for a status outside
    200 to 599.
    """
    status = response.status
    text = _STATUS_LINES.get(status)
    if text is None:
        raise ValueError(f"{status} is not the status of a final answer")
    text += date + response.block
    for name, value in response.headers:
        if "\n" in value or "\r" in value:
            raise ValueError(f"line break in the value of header {name}")
        text += f"{name}: {value}\r\n"
    if response.content_type is not None:
        text += f"content-type: {response.content_type}\r\n"
    body = response.body
    if status == 204 or status == 304:
        head = True
    else:
        text += f"content-length: {len(body)}\r\n"
    text += _KEEP if keep_alive and not http10 else _CONNECTION[keep_alive, http10]
    if head or not body:
        return text.encode("latin-1")
    return text.encode("latin-1") + body


def render_upgrade(upgrade: Upgrade) -> bytes:
    """The bytes of a 101; raises ValueError as `render` does."""
    text = "HTTP/1.1 101 Switching Protocols\r\n"
    for name, value in upgrade.headers:
        if "\n" in value or "\r" in value:
            raise ValueError(f"line break in the value of header {name}")
        text += f"{name}: {value}\r\n"
    return f"{text}\r\n".encode("latin-1")
