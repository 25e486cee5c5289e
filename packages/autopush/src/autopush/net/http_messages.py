"""What the HTTP shell and its handler say to each other: request, response, upgrade, limits.

Plain values without behaviour; who handles a request needs this module and nothing else of HTTP.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NewType

import msgspec

HeaderBlock = NewType("HeaderBlock", str)
"""Header lines rendered beforehand by `header_block`, for what every answer carries."""

NO_HEADERS = HeaderBlock("")


class Request(msgspec.Struct, gc=False, eq=False):
    """One complete request.

    `method` is upper case; `path` is raw (neither decoded nor normalised) and without the query;
    `query` has no `?`. `headers` has lower-case names, and the lines of a repeated name joined by
    ", " (RFC 9110 section 5.3); values are latin-1. `peer` is the client's address, "" on a Unix
    socket. `upgrade` tells that an `Upgrade` answer is possible.
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

    @property
    def http_version(self) -> str:
        """Either "1.1" or "1.0"."""
        return "1.0" if self.http10 else "1.1"


class Response(msgspec.Struct, gc=False, eq=False):
    """A final answer (status 200 to 599).

    The shell adds Date, Content-Length and Connection. A line break in a header is an error of the
    handler and becomes a 500.
    """

    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    content_type: str | None = None
    block: HeaderBlock = NO_HEADERS


class Upgrade(msgspec.Struct, gc=False, eq=False):
    """Leave HTTP: the shell answers 101 and gives the transport to the new protocol.

    `headers` is all that the answer carries, Upgrade and Connection included.
    """

    headers: Sequence[tuple[str, str]]
    protocol_factory: Callable[[], asyncio.Protocol]


Handler = Callable[[Request], Coroutine[Any, Any, Response | Upgrade]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may ask for: sizes in bytes, times in seconds.

    `max_header_line` bounds the request target too. `head_timeout` and `body_timeout` bound the
    whole head and the whole body, each from its first byte; `idle_timeout` bounds the wait for a
    request, `stall_timeout` how long a client may leave its answers unread.
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
