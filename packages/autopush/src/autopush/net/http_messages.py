"""HTTP messages: what the server and its handler exchange, and responses as bytes on the wire.

A handler needs this module and nothing else of HTTP.

Rule: one response is one bytes object, its framing headers (Date, Content-Length, Connection) are
the server's, and no value that a handler gives can add a header line (RFC 9110 section 5.5).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, NewType

import msgspec

from autopush.net.client_limits import TrustedProxies

HeaderBlock = NewType("HeaderBlock", str)
"""Header lines rendered in advance by `header_block`, for headers that every response has."""

NO_HEADERS = HeaderBlock("")


class Request(msgspec.Struct, gc=False, eq=False):
    """One complete request.

    `method` is upper case; `path` is raw (neither decoded nor normalised) and without the query;
    `query` has no `?`. `headers` has lower-case names, and the lines of a repeated name joined by
    ", " (RFC 9110 section 5.3); values are latin-1. `peer` is the address of the connection's other
    end, behind the PROXY protocol that of the client; "" on a Unix socket. `upgrade`: an `Upgrade`
    is a possible answer. `proxies`: None for a server that believes no proxy. `certificate`: that
    of the client, in DER, as its TLS connection presented it; empty without one.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    peer: str
    keep_alive: bool = True
    body: bytes = b""
    upgrade: bool = False
    http10: bool = False
    proxies: TrustedProxies | None = None
    certificate: bytes = b""

    @property
    def client_address(self) -> str:
        """The address of the client; that of `peer`, or what trusted proxies say of it."""
        forwarded = self.headers.get("x-forwarded-for")
        if forwarded is None or self.proxies is None:
            return self.peer
        return self.proxies.client(self.peer, forwarded)


class Response(msgspec.Struct, gc=False, eq=False):
    """A final response (status 200 to 599).

    The server adds Date, Content-Length and Connection. A line break in a header is an error of the
    handler and becomes a 500.
    """

    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    content_type: str | None = None
    block: HeaderBlock = NO_HEADERS


class Upgrade(msgspec.Struct, gc=False, eq=False):
    """Switch protocols: the server answers 101 and hands the transport to the new protocol.

    `headers` are all headers of the 101, Upgrade and Connection included. `protocol_factory` gets
    the key by which the connection counts (`ConnectionLimits`); the new protocol releases it when
    the connection is lost.
    """

    headers: Sequence[tuple[str, str]]
    protocol_factory: Callable[[str], asyncio.Protocol]


Answer = Response | Upgrade

Handler = Callable[[Request], Answer | Coroutine[Any, Any, Answer]]
"""Answers a request: at once, or by a coroutine where something has to be waited for."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may use: sizes in bytes, times in seconds.

    `max_header_line` bounds the request target too. `head_timeout` and `body_timeout` bound the
    whole head and the whole body, each from its first byte; `idle_timeout` bounds the wait for a
    request, `stall_timeout` how long a client may leave its responses unread.
    """

    max_body: int
    max_header_lines: int = 100
    max_header_line: int = 16384
    max_head: int = 65536
    head_timeout: float = 10
    body_timeout: float = 30
    idle_timeout: float = 75
    stall_timeout: float = 30


def header_block(headers: Sequence[tuple[str, str]]) -> HeaderBlock:
    """Render header lines once; raises ValueError when a line would break the framing."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\r") != len(headers) or text.count("\n") != len(headers) or "\0" in text:
        raise ValueError("a header name or value contains a control character")
    text.encode("latin-1")
    return HeaderBlock(text)


# --- on the wire --------------------------------------------------------------------------------

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_PHRASES: Final = {int(status): status.phrase for status in HTTPStatus}
_STATUS_LINES: Final = {
    status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n" for status in range(200, 600)
}
_CONNECTION: Final = {
    # (keep the connection, the request was HTTP/1.0)
    (True, False): "\r\n",
    (True, True): "connection: keep-alive\r\n\r\n",
    (False, False): "connection: close\r\n\r\n",
    (False, True): "connection: close\r\n\r\n",
}
_KEEP_ALIVE: Final = _CONNECTION[True, False]


def date_line(seconds: float) -> str:
    """The Date header for that time (seconds since the epoch) as a whole line."""
    return f"date: {formatdate(seconds, usegmt=True)}\r\n"


def render_response(
    response: Response, date: str, keep_alive: bool, http10: bool = False, head: bool = False
) -> bytes:
    """The bytes of a final response. `date` is a whole line; `head` leaves out the body.

    Raises ValueError for a header with a line break or outside latin-1, or for a status outside
    200 to 599.
    """
    status = response.status
    text = _STATUS_LINES.get(status)
    if text is None:
        raise ValueError(f"{status} is not the status of a final response")
    text += date + response.block
    for name, value in response.headers:
        if "\n" in value or "\r" in value:
            raise ValueError(f"line break in the value of header {name}")
        text += f"{name}: {value}\r\n"
    if response.content_type is not None:
        if "\n" in response.content_type or "\r" in response.content_type:
            raise ValueError("line break in the content type")
        text += f"content-type: {response.content_type}\r\n"
    body = response.body
    if status == 204 or status == 304:
        head = True
    else:
        text += f"content-length: {len(body)}\r\n"
    text += _KEEP_ALIVE if keep_alive and not http10 else _CONNECTION[keep_alive, http10]
    if head or not body:
        return text.encode("latin-1")
    return text.encode("latin-1") + body


def render_upgrade(upgrade: Upgrade) -> bytes:
    """The bytes of a 101; raises ValueError as `render_response` does."""
    text = "HTTP/1.1 101 Switching Protocols\r\n"
    for name, value in upgrade.headers:
        if "\n" in value or "\r" in value:
            raise ValueError(f"line break in the value of header {name}")
        text += f"{name}: {value}\r\n"
    return f"{text}\r\n".encode("latin-1")
