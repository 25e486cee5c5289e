"""Bytes in, requests out: the reading half of an HTTP/1.1 connection (RFC 9112), without I/O.

The rule: what is wrong with a request becomes a status and a reason in `refusal`, never an
exception; after it nothing more is read.

The caller feeds slices no longer than `step`, the smallest limit of a head. A head inside one slice
is therefore within the limits without counting; only one that spans slices is measured.
"""

from typing import Never

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from autopush.net.http_heads import METHODS, NAMES, header_name, split_target
from autopush.net.http_messages import Limits, Request

BETWEEN, HEAD, BODY, EXPECTED_BODY = range(4)
"""Phases. `EXPECTED_BODY`: the client waits for 100 Continue before it sends the body."""

_LARGEST_STEP = 8192  # some 300 of the shortest requests, parsed without a break
_LONGEST_METHOD = 32  # with line ends before it; a slice may end within
_FRAMING_PER_BYTE = 8  # of chunked bodies: room for chunks of one byte


class _Refused(Exception):  # noqa: N818 - not an error, the way out of the parser
    """Stops the parser; `refusal` says why."""


def slice_length(limits: Limits) -> int:
    """The `step` that goes with `limits`."""
    return max(1, min(_LARGEST_STEP, limits.max_header_line, limits.max_head) - _LONGEST_METHOD)


class RequestReader:
    """Reads the requests of one connection.

    `ready` holds the complete ones, oldest first; `refusal` is the (status, reason) that ends the
    connection. `rest` is not None once a head offers an upgrade: nothing behind that head is parsed
    until `restart`, and `rest` is what the slice held behind it. `stopped`: one of the two is set.
    """

    __slots__ = (
        "_body",
        "_fed",
        "_headers",
        "_limits",
        "_parser",
        "_replay",
        "_request",
        "_room",
        "_url",
        "peer",
        "phase",
        "ready",
        "refusal",
        "rest",
        "stopped",
    )

    def __init__(self, limits: Limits, peer: str) -> None:
        self._limits = limits
        self.peer = peer
        self.ready: list[Request] = []
        self.refusal: tuple[int, str] | None = None
        self.rest: bytes | None = None
        self.stopped = False
        self._parser = HttpRequestParser(self)
        self.phase = BETWEEN
        self._fed = 0  # bytes of whole slices since the phase began
        self._url = b""
        self._headers: dict[str, str] | None = None  # those of the head, while it is read
        self._room = 0  # header lines that may still come in the head, then in the trailer section
        self._body: bytes | bytearray = b""
        self._request: Request | None = None
        self._replay = False

    def feed(self, piece: bytes | memoryview) -> None:
        """Read one slice. Not to be called after a refusal, nor while `rest` is set."""
        spans = self.phase
        if spans:
            self._fed += len(piece)
        try:
            self._parser.feed_data(piece)
            if spans and self.phase:
                self._measure_slices()
        except HttpParserUpgrade as stop:
            self._stop(bytes(piece[stop.args[0] :]))
        except HttpParserError as exc:
            self.stopped = True
            if self.refusal is None:
                self.refusal = (400, str(exc))
        except _Refused:
            pass

    def restart(self) -> bytes:
        """Stay with HTTP after an upgrade was offered; returns what is to be fed next."""
        rest = self.rest or b""
        self.rest = None
        self.stopped = False
        self._parser = HttpRequestParser(self)
        return rest

    def close(self) -> None:
        """Let go of the parser, which refers to this object."""
        del self._parser

    # -- the parser's calls ----------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        if self.phase == BETWEEN:
            self.phase = HEAD
            self._fed = 0
            self._url = url
            self._headers = {}
            self._room = self._limits.max_header_lines
        else:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._room = room = self._room - 1
        if room < 0:
            self._refuse(431, f"more than {self._limits.max_header_lines} header lines")
        headers = self._headers
        if headers is None:  # a trailer field; nobody asked for it
            return
        try:
            key = NAMES[name]
        except KeyError:
            key = header_name(name)
        if key in headers:
            if key == "host":
                self._refuse(400, "more than one Host header")
            headers[key] += ", " + value.rstrip().decode("latin-1")
        else:
            headers[key] = value.rstrip().decode("latin-1")

    def on_headers_complete(self) -> None:
        headers = self._headers
        self._headers = None
        self._room = self._limits.max_header_lines
        self.phase = BODY
        if headers is None:  # `_stop` made this head: the true one was read before
            self._replay = False
            return
        if self._fed:
            self._measure(headers)
            self._fed = 0
        keep_alive = self._parser.should_keep_alive()
        http10 = False
        if not keep_alive or "connection" in headers:  # else it can only be HTTP/1.1
            version = self._parser.get_http_version()
            http10 = version == "1.0"
            if not http10 and version != "1.1":
                self._refuse(400, "the HTTP version is neither 1.1 nor 1.0")
        method = METHODS.get(self._parser.get_method())
        if method is None:
            self._refuse(501, "method not implemented")
        target = self._url.decode("latin-1")
        if target[0] != "/":
            target = self._absolute(method, target, headers)
        if "host" not in headers and not http10:
            self._refuse(400, "missing Host header")
        path, _, query = target.partition("?")
        has_body = False
        if "content-length" in headers:
            has_body = self._announced(headers["content-length"])
        elif "transfer-encoding" in headers:
            has_body = True
            if http10:
                self._refuse(400, "Transfer-Encoding in HTTP/1.0")
            if headers["transfer-encoding"].lower() != "chunked":
                self._refuse(501, "the only transfer coding is chunked")
        if "expect" in headers and not http10:
            if headers["expect"].lower() != "100-continue":
                self._refuse(417, "the only expectation is 100-continue")
            if has_body:
                self.phase = EXPECTED_BODY
        upgrade = False
        if "upgrade" in headers:
            if http10:
                del headers["upgrade"]  # RFC 9110 section 7.8: ignored
            if self._parser.should_upgrade():
                # The parser stops behind this head, but a body has to be read all the same.
                self._replay = has_body
                upgrade = not has_body and not http10
        self._request = Request(
            method, path, query, headers, self.peer, keep_alive, b"", upgrade, http10
        )

    def on_body(self, data: bytes) -> None:
        body = self._body
        if len(body) + len(data) > self._limits.max_body:
            self._refuse(413, "body too large")
        if not body:
            self._body = data
        elif type(body) is bytearray:
            body += data
        else:
            self._body = bytearray(body)
            self._body += data

    def on_message_complete(self) -> None:
        request = self._request
        if request is None or self._replay:
            return
        self._request = None
        body = self._body
        if body:
            request.body = body if type(body) is bytes else bytes(body)
            self._body = b""
        self.phase = BETWEEN
        self.ready.append(request)

    # -- what they need now and then -------------------------------------------------------------

    def _refuse(self, status: int, reason: str) -> Never:
        self.refusal = (status, reason)
        self.stopped = True
        raise _Refused

    def _absolute(self, method: str, target: str, headers: dict[str, str]) -> str:
        parts = split_target(method, target)
        if parts is None:
            self._refuse(400, "the request target is neither a path nor an http URL")
        host, path = parts
        if host and "host" in headers:
            headers["host"] = host  # RFC 9112 section 3.2.2: it takes precedence
        return path

    def _announced(self, text: str) -> bool:
        """Whether a body follows, of that length; the parser let only digits pass."""
        try:
            length = int(text)
        except ValueError:  # thousands of digits
            self._refuse(400, "unreadable Content-Length")
        if length > self._limits.max_body:
            self._refuse(413, "body too large")
        return length > 0

    def _measure(self, headers: dict[str, str]) -> None:
        """Hold a head that came in several slices to the limits, however it was sliced."""
        limits = self._limits
        total = len(self._url)
        if total > limits.max_header_line:
            self._refuse(414, "request target too long")
        for name, value in headers.items():
            line = len(name) + 2 + len(value)
            if line > limits.max_header_line:
                self._refuse(431, "header line too long")
            total += line + 2
        if total > limits.max_head:
            self._refuse(431, "header block too large")

    def _measure_slices(self) -> None:
        """Hold what is not complete yet to the limits, by the slices that lie within it."""
        limits = self._limits
        if self.phase == HEAD:
            if self._fed > limits.max_head:
                if not self._headers and len(self._url) > limits.max_header_line:
                    self._refuse(414, "request target too long")
                self._refuse(431, "header block too large")
        elif self._fed > _FRAMING_PER_BYTE * limits.max_body + limits.max_head:
            self._refuse(413, "body too large with the framing of its chunks")

    def _stop(self, rest: bytes) -> None:
        self.rest = rest
        self.stopped = True
        if not self._replay:
            return
        # The body is still to come: a parser that reads it as if no upgrade had been offered.
        request = self._request
        length = request.headers.get("content-length") if request is not None else None
        framing = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
        phase = self.phase
        behind = self.restart()
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        self.phase = phase
        if behind:
            self.feed(behind)
