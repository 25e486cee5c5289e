"""HTTP/1.1 requests from bytes, without I/O (RFC 9112): httptools with our limits and checks.

Rule: an invalid request becomes a status and a reason in `error`, never an exception; nothing is
parsed after it.

The caller feeds slices of at most `slice_size`, the smallest limit of a head. So a head inside one
slice is within the limits; only one that spans slices is measured.
"""

import re
from typing import Final, Never

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from autopush.net.client_limits import TrustedProxies
from autopush.net.http_messages import Limits, Request
from autopush.shown import shown

IDLE, HEAD, BODY, AWAITING_CONTINUE = range(4)
"""Phases. `AWAITING_CONTINUE`: the client waits for 100 Continue before it sends the body."""

OTHER_PROTOCOL: Final = "this is "
"""Beginning of the reason for refusing a client that speaks another protocol."""

_MAX_SLICE: Final = 8192  # some 300 of the shortest requests, parsed without a break
_MAX_METHOD: Final = 32  # with line ends before it; a slice may end within
_FRAMING_PER_BYTE: Final = 8  # of chunked bodies: room for chunks of one byte

_MAX_START: Final = 4096
_TLS_HANDSHAKE: Final = b"\x16"
"""The type of a TLS record that every connection begins with (RFC 8446, section 5.1)."""
_HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n"
"""RFC 9113, section 3.4."""
_REQUEST_LINE: Final = re.compile(
    rb"(?P<method>[A-Za-z-]{1,20})(?= )(?:[^\r\n]{0,4096} HTTP/(?P<version>[0-9.]{1,5})\r?\n)?"
)

_METHODS: Final = {
    name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
}

_COMMON_HEADERS: Final = """
    Accept Accept-Encoding Accept-Language Authorization Cache-Control Connection Content-Encoding
    Content-Length Content-Type Cookie Crypto-Key Encryption Encryption-Key Expect Forwarded Host
    If-None-Match Keep-Alive Origin Pragma Prefer Referer Sec-Fetch-Dest Sec-Fetch-Mode
    Sec-Fetch-Site Sec-WebSocket-Extensions Sec-WebSocket-Key Sec-WebSocket-Protocol
    Sec-WebSocket-Version Topic Transfer-Encoding TTL Upgrade Urgency User-Agent X-Forwarded-For
    X-Forwarded-Proto X-Real-IP
"""
_MAX_CACHED_NAMES: Final = 512
_MAX_CACHED_NAME: Final = 40

_names: dict[bytes, str] = {}
"""Header names as sent, to lower case: the common ones, then others up to a bound."""
for _name in _COMMON_HEADERS.split():
    for _spelling in (_name, _name.lower(), _name.title()):
        _names[_spelling.encode()] = _name.lower()


def _header_name(name: bytes) -> str:
    text = name.decode("latin-1").lower()
    if len(_names) < _MAX_CACHED_NAMES and len(name) <= _MAX_CACHED_NAME:
        _names[name] = text
    return text


def _split_target(method: str, target: str) -> tuple[str, str] | None:
    """Host (or "") and path with query of an absolute or asterisk form, None for others.

    RFC 9112 section 3.2; the asterisk is for OPTIONS only.
    """
    if target == "*":
        return ("", "*") if method == "OPTIONS" else None
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() not in ("http", "https"):
        return None
    end = len(rest)
    for mark in "/?":
        position = rest.find(mark)
        if 0 <= position < end:
            end = position
    host, path = rest[:end], rest[end:]
    if not host:
        return None
    return host, path if path.startswith("/") else "/" + path


def _complaint(said: str, start: bytes) -> str:
    """What is wrong with bytes that are no HTTP/1.1. `said`: by httptools; `start`: the first bytes
    of what was read last.
    """
    if start[:1] == _TLS_HANDSHAKE or (start[:1] == b"\x80" and start[2:3] == b"\x01"):
        return f"{OTHER_PROTOCOL}TLS, but the port takes plain HTTP: use http:// or ws://"
    if start.startswith(_HTTP2_PREFACE) or "HTTP/2" in said or "PRI/" in said:
        return f"{OTHER_PROTOCOL}HTTP/2, but the port takes HTTP/1.1 only"
    if start.startswith((b"PROXY ", b"\r\n\r\n\0\r\nQUIT")):
        return f"{OTHER_PROTOCOL}a header of the PROXY protocol, which the port does not take"
    line = _REQUEST_LINE.match(start)
    for part in ("method", "version"):
        if line is not None and part in said.lower() and line[part] is not None:
            return f"{said}: {shown(line[part].decode('ascii'))}"
    return said


class _StopParsing(Exception):  # noqa: N818 - not an error, the way out of httptools
    """Raised in a callback of httptools once `error` is set."""


def slice_size(limits: Limits) -> int:
    """Bytes in the largest slice that may be fed."""
    return max(1, min(_MAX_SLICE, limits.max_header_line, limits.max_head) - _MAX_METHOD)


class RequestParser:
    """The requests of one connection.

    `ready`: complete requests, oldest first. `error`: the (status, reason) that ends the
    connection. `unparsed`: set once a head offers an upgrade, to what followed it in its slice;
    nothing more is parsed until `decline_upgrade`. `stopped`: one of the two is set. `held`: bytes
    fed of the incomplete request, or up to a slice more.
    """

    __slots__ = (
        "_body",
        "_headers",
        "_limits",
        "_lines_left",
        "_max_body",
        "_parser",
        "_phase_bytes",
        "_repeating_head",
        "_request",
        "_url",
        "certificate",
        "error",
        "held",
        "peer",
        "phase",
        "proxies",
        "ready",
        "stopped",
        "unparsed",
    )

    def __init__(self, limits: Limits, peer: str, proxies: TrustedProxies | None = None) -> None:
        self._limits = limits
        self.peer = peer
        self.proxies = proxies
        self.certificate = b""
        self.ready: list[Request] = []
        self.error: tuple[int, str] | None = None
        self.unparsed: bytes | None = None
        self.stopped = False
        self.held = 0
        self._parser = HttpRequestParser(self)
        self.phase = IDLE
        self._phase_bytes = 0  # bytes of whole slices since the phase began
        self._url = b""
        self._headers: dict[str, str] | None = None  # of the head, while it is parsed
        self._lines_left = 0  # header lines still allowed in the head, then in the trailer section
        self._max_body = limits.max_body
        self._body: bytes | bytearray = b""
        self._request: Request | None = None
        self._repeating_head = False

    def feed(self, data: bytes | memoryview) -> None:
        """Parse one slice. Must not be called while `stopped`."""
        continued = self.phase
        if continued:
            self._phase_bytes += len(data)
        try:
            self._parser.feed_data(data)
            if self.phase:
                self.held += len(data)
                if continued:
                    self._check_partial_size()
        except HttpParserUpgrade as stop:
            self.held += len(data)
            self._on_upgrade_offered(bytes(data[stop.args[0] :]))
        except HttpParserError as exc:
            self.stopped = True
            if self.error is None:
                self.error = (400, _complaint(str(exc), bytes(data[:_MAX_START])))
        except _StopParsing:
            pass

    def decline_upgrade(self) -> bytes:
        """Continue with HTTP after an upgrade was offered; return what to feed next."""
        unparsed = self.unparsed or b""
        self.unparsed = None
        self.stopped = False
        self._parser = HttpRequestParser(self)
        return unparsed

    def close(self) -> None:
        """Drop the incomplete request, and the parser, which refers to this object: a cycle.
        Nothing may be fed afterwards; may be called again.
        """
        if hasattr(self, "_parser"):
            del self._parser
        self._url = self._body = b""
        self._headers = self._request = None
        self.ready.clear()

    # -- callbacks of httptools ------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        if self.phase == IDLE:
            self.phase = HEAD
            self._phase_bytes = 0
            self.held = 0
            self._url = url
            self._headers = {}
            self._lines_left = self._limits.max_header_lines
        else:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines_left = lines_left = self._lines_left - 1
        if lines_left < 0:
            self._reject(431, f"more than {self._limits.max_header_lines} header lines")
        headers = self._headers
        if headers is None:  # a trailer field: dropped
            return
        try:
            key = _names[name]
        except KeyError:
            key = _header_name(name)
        if key in headers:
            if key == "host":
                self._reject(400, "more than one Host header")
            headers[key] += ", " + value.rstrip().decode("latin-1")
        else:
            headers[key] = value.rstrip().decode("latin-1")

    def on_headers_complete(self) -> None:
        headers = self._headers
        self._headers = None
        self._lines_left = self._limits.max_header_lines
        self.phase = BODY
        if headers is None:  # from `_on_upgrade_offered`; the real head is parsed
            self._repeating_head = False
            return
        if self._phase_bytes:
            self._check_head_size(headers)
            self._phase_bytes = 0
        keep_alive = self._parser.should_keep_alive()
        http10 = False
        if not keep_alive or "connection" in headers:  # else it can only be HTTP/1.1
            version = self._parser.get_http_version()
            http10 = version == "1.0"
            if not http10 and version != "1.1":
                self._reject(400, f"the HTTP version is neither 1.1 nor 1.0, got {version}")
        method = _METHODS.get(self._parser.get_method())
        if method is None:
            name = self._parser.get_method().decode("latin-1")
            self._reject(501, f"method not implemented: {shown(name)}")
        target = self._url.decode("latin-1")
        if target[0] != "/":
            target = self._absolute_form(method, target, headers)
        if "host" not in headers and not http10:
            self._reject(400, "missing Host header")
        path, _, query = target.partition("?")
        limits = self._limits
        if limits.larger_bodies:
            self._max_body = limits.larger_bodies.get(path, limits.max_body)
        has_body = self._body_follows(headers, http10)
        if "expect" in headers and not http10:
            if headers["expect"].lower() != "100-continue":
                given = shown(headers["expect"])
                self._reject(417, f"the only expectation is 100-continue, got {given}")
            if has_body:
                self.phase = AWAITING_CONTINUE
        upgrade = False
        if "upgrade" in headers:
            if http10:
                del headers["upgrade"]  # RFC 9110 section 7.8: ignored
            if self._parser.should_upgrade():
                # httptools stops after this head, but a body has to be parsed all the same.
                self._repeating_head = has_body
                upgrade = not has_body and not http10
        self._request = Request(
            method,
            path,
            query,
            headers,
            self.peer,
            keep_alive,
            b"",
            upgrade,
            http10,
            self.proxies,
            self.certificate,
        )

    def on_body(self, data: bytes) -> None:
        body = self._body
        if len(body) + len(data) > self._max_body:
            self._reject(413, f"{self._too_large()}, got more")
        if not body:
            self._body = data
        elif type(body) is bytearray:
            body += data
        else:
            self._body = bytearray(body)
            self._body += data

    def on_message_complete(self) -> None:
        request = self._request
        if request is None or self._repeating_head:
            return
        self._request = None
        body = self._body
        if body:
            request.body = body if type(body) is bytes else bytes(body)
            self._body = b""
        self.phase = IDLE
        self.ready.append(request)

    # -- checks ----------------------------------------------------------------------------------

    def _reject(self, status: int, reason: str) -> Never:
        self.error = (status, reason)
        self.stopped = True
        raise _StopParsing

    def _too_large(self) -> str:
        return f"body too large: at most {self._max_body} bytes"

    def _absolute_form(self, method: str, target: str, headers: dict[str, str]) -> str:
        parts = _split_target(method, target)
        if parts is None:
            self._reject(
                400, f"the request target is neither a path nor an http URL, got {shown(target)}"
            )
        host, path = parts
        if host and "host" in headers:
            headers["host"] = host  # RFC 9112 section 3.2.2: it takes precedence
        return path

    def _body_follows(self, headers: dict[str, str], http10: bool) -> bool:
        """Whether a body follows the head; its length is checked as far as the head says it."""
        if "content-length" in headers:
            try:
                length = int(headers["content-length"])
            except ValueError:  # thousands of digits; httptools lets nothing else pass
                self._reject(400, "unreadable Content-Length")
            if length > self._max_body:
                self._reject(413, f"{self._too_large()}, got {length}")
            return length > 0
        if "transfer-encoding" not in headers:
            return False
        if http10:
            self._reject(400, "Transfer-Encoding in HTTP/1.0")
        if headers["transfer-encoding"].lower() != "chunked":
            given = shown(headers["transfer-encoding"])
            self._reject(501, f"the only transfer coding is chunked, got {given}")
        return True

    def _check_head_size(self, headers: dict[str, str]) -> None:
        """Check a head that spans slices; the result does not depend on the slicing."""
        limits = self._limits
        total = len(self._url)
        if total > limits.max_header_line:
            self._reject(414, f"request target too long: {total} bytes of {limits.max_header_line}")
        for name, value in headers.items():
            line = len(name) + 2 + len(value)
            if line > limits.max_header_line:
                size = f"{line} bytes of {limits.max_header_line}"
                self._reject(431, f"header line too long: {size}, in {shown(name)}")
            total += line + 2
        if total > limits.max_head:
            self._reject(431, f"header block too large: {total} bytes of {limits.max_head}")

    def _check_partial_size(self) -> None:
        """Check what is incomplete, by the size of its slices."""
        limits = self._limits
        if self.phase == HEAD:
            if self._phase_bytes > limits.max_head:
                if not self._headers and len(self._url) > limits.max_header_line:
                    self._reject(
                        414, f"request target too long: more than {limits.max_header_line} bytes"
                    )
                self._reject(431, f"header block too large: more than {limits.max_head} bytes")
        elif self._phase_bytes > _FRAMING_PER_BYTE * self._max_body + limits.max_head:
            self._reject(413, f"{self._too_large()}, got more with the framing of its chunks")

    def _on_upgrade_offered(self, unparsed: bytes) -> None:
        self.unparsed = unparsed
        self.stopped = True
        if not self._repeating_head:
            return
        # A body follows: a new parser gets a head of the same framing without the offer.
        request = self._request
        length = request.headers.get("content-length") if request is not None else None
        framing = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
        phase = self.phase
        data = self.decline_upgrade()
        self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        self.phase = phase
        if data:
            self.feed(data)
