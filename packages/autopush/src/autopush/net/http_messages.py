"""HTTP messages: what server and handler exchange, and responses as bytes.

A handler needs no other module of HTTP.

Rule: a response is one bytes object, its framing headers (Date, Content-Length, Connection) are the
server's, and no value from a handler can add a header line (RFC 9110 section 5.5).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, NewType

import msgspec

from autopush.net.client_limits import TrustedProxies

HeaderBlock = NewType("HeaderBlock", str)
"""Header lines rendered once by `header_block`, for headers that every response has."""

NO_HEADERS = HeaderBlock("")


class Request(msgspec.Struct, gc=False, eq=False):
    """One complete request.

    `method` is upper case; `path` is raw (neither decoded nor normalised), without the query;
    `query` has no `?`. `headers`: lower-case names, repeated lines joined by ", " (RFC 9110 section
    5.3), latin-1 values. `peer`: the address of the connection's other end, or of the client behind
    the PROXY protocol; "" on a Unix socket. `upgrade`: the answer may be an `Upgrade`. `proxies`:
    None trusts no proxy. `certificate`: the client's, in DER, as presented in TLS; empty without
    one.
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
        """`peer`, or the client that trusted proxies report."""
        forwarded = self.headers.get("x-forwarded-for")
        if forwarded is None or self.proxies is None:
            return self.peer
        return self.proxies.client(self.peer, forwarded)


class Response(msgspec.Struct, array_like=True, gc=False, eq=False):
    """A final response (status 200 to 599); the server adds Date, Content-Length and Connection.

    A line break in a header is an error of the handler and becomes a 500.
    """

    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    content_type: str | None = None
    block: HeaderBlock = NO_HEADERS


class Upgrade(msgspec.Struct, gc=False, eq=False):
    """Switch protocols: the server answers 101 and hands the transport to the new protocol. With
    the status 200 that writes the body, which ends with the connection.

    `headers` are all headers of the answer; those of a 101 include Upgrade and Connection.
    `protocol_factory` gets the connection's key (`ConnectionLimits`), which the new protocol
    releases when the connection is lost.
    """

    headers: Sequence[tuple[str, str]]
    protocol_factory: Callable[[str], asyncio.Protocol]
    status: int = 101


Answer = Response | Upgrade

Handler = Callable[[Request], Answer | Coroutine[Any, Any, Answer]]
"""Answers a request directly, or by a coroutine if it has to wait."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for one client: sizes in bytes, times in seconds.

    `max_header_line` includes the request target. `larger_bodies`: by path, instead of `max_body`.
    `head_timeout` and `body_timeout` run from the first byte of the head or body to its last;
    `idle_timeout` limits the wait for a request, `stall_timeout` how long responses stay unread.
    """

    max_body: int
    max_header_lines: int = 100
    max_header_line: int = 16384
    max_head: int = 65536
    head_timeout: float = 10
    body_timeout: float = 30
    idle_timeout: float = 75
    stall_timeout: float = 30
    larger_bodies: Mapping[str, int] = field(default_factory=dict)


def header_block(headers: Sequence[tuple[str, str]]) -> HeaderBlock:
    """Render header lines once; ValueError if one would break the framing."""
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
    """The Date header line for a time in seconds since the epoch."""
    return f"date: {formatdate(seconds, usegmt=True)}\r\n"


def render_response(
    response: Response, date: str, keep_alive: bool, http10: bool = False, head: bool = False
) -> bytes:
    """The bytes of a final response. `date` is a whole line; `head` omits the body.

    Raises ValueError for a header with a line break or outside latin-1, or a status outside 200 to
    599.
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
    """The head that the new protocol follows; raises ValueError as `render_response` does."""
    text = "HTTP/1.1 101 Switching Protocols\r\n"
    if upgrade.status != 101:
        text = f"{_STATUS_LINES[upgrade.status]}connection: close\r\n"
    for name, value in upgrade.headers:
        if "\n" in value or "\r" in value:
            raise ValueError(f"line break in the value of header {name}")
        text += f"{name}: {value}\r\n"
    return f"{text}\r\n".encode("latin-1")
