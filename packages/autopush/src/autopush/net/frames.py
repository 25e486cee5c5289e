"""RFC 6455 on the server's side, without I/O: the opening handshake, and frames to messages.

Rule: nothing is accepted that the RFC forbids, and nothing is buffered that will be rejected. A
frame is checked by its header, before its payload has arrived:

1. a client masks every frame; no extension is negotiated, so RSV bits are zero (5.1, 5.2);
2. control frames are not fragmented and have at most 125 bytes of payload; they may come between
   the fragments of a message (5.4, 5.5);
3. a text message is valid UTF-8, checked fragment by fragment (8.1);
4. a message, all fragments together, is no longer than the reader's limit.

A violation raises `FrameError` with the close code for the peer.
"""

import binascii
import codecs
from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import IntEnum
from hashlib import sha1
from struct import Struct
from typing import Final, NamedTuple

from autopush.shown import shown

# --- the opening handshake ----------------------------------------------------------------------

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_VERSION: Final = "13"
_UPGRADE: Final = (("Upgrade", "websocket"), ("Connection", "Upgrade"))


class HandshakeAnswer(NamedTuple):
    """The answer to an upgrade request: 101, or a refusal whose `reason` says what was expected."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    reason: str = ""

    @property
    def accepted(self) -> bool:
        return self.status == 101


def answer_handshake(
    method: str, http_version: str, headers: Mapping[str, str], *, subprotocols: Sequence[str] = ()
) -> HandshakeAnswer:
    """Check an upgrade request (4.2). Extensions, such as compression, are never negotiated.

    `http_version` is like "1.1"; `headers` has lower-case names, and repeated lines joined with
    commas. The first of `subprotocols` that the client offers is selected; a client that offers
    none of them is accepted without one.

    A refusal is 426 if the client must ask differently (no upgrade to websocket, another protocol
    version), else 400.
    """
    if method != "GET":
        return HandshakeAnswer(400, (), f"A WebSocket is opened with GET, not {shown(method)}.")
    if http_version != "1.1":
        reason = f"A WebSocket is opened over HTTP/1.1, not {shown(http_version)}."
        return HandshakeAnswer(400, (), reason)
    if not _has_token(headers.get("upgrade", ""), "websocket"):
        reason = "The Upgrade header must name websocket, the service here" + _got(
            headers, "upgrade"
        )
        return HandshakeAnswer(426, _UPGRADE, reason)
    if not _has_token(headers.get("connection", ""), "upgrade"):
        reason = "The Connection header must name Upgrade" + _got(headers, "connection")
        return HandshakeAnswer(426, _UPGRADE, reason)
    if headers.get("sec-websocket-version", "").strip() != _VERSION:
        version = ("Sec-WebSocket-Version", _VERSION)
        reason = f"Sec-WebSocket-Version must be {_VERSION}" + _got(
            headers, "sec-websocket-version"
        )
        return HandshakeAnswer(426, (version, *_UPGRADE), reason)
    key = headers.get("sec-websocket-key", "").strip()
    if not _is_key(key):
        reason = "Sec-WebSocket-Key must be 16 bytes in base64" + _got(headers, "sec-websocket-key")
        return HandshakeAnswer(400, (), reason)
    response = [*_UPGRADE, ("Sec-WebSocket-Accept", accept_key(key))]
    offered = _tokens(headers.get("sec-websocket-protocol", ""))
    selected = next((name for name in subprotocols if name in offered), None)
    if selected is not None:
        response.append(("Sec-WebSocket-Protocol", selected))
    return HandshakeAnswer(101, tuple(response))


def _got(headers: Mapping[str, str], name: str) -> str:
    return f", got {shown(headers[name])}." if name in headers else ", got none."


def accept_key(key: str) -> str:
    """The Sec-WebSocket-Accept for a client's Sec-WebSocket-Key (4.2.2)."""
    digest = sha1(key.encode("ascii") + _GUID, usedforsecurity=False).digest()
    return b64encode(digest).decode("ascii")


def _is_key(key: str) -> bool:
    try:
        return len(key) == 24 and len(binascii.a2b_base64(key, strict_mode=True)) == 16
    except ValueError:  # binascii.Error is one; so is a character beyond ASCII
        return False


MAX_TOKENS: Final = 32
"""Members of a header that are read."""


def _has_token(value: str, token: str) -> bool:
    value = value.lower()
    return value == token or token in _tokens(value)


def _tokens(value: str) -> list[str]:
    return [part.strip(" \t") for part in value.split(",", MAX_TOKENS)[:MAX_TOKENS]]


# --- frames -------------------------------------------------------------------------------------

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

MAX_CONTROL_PAYLOAD: Final = 125
MAX_REASON: Final = MAX_CONTROL_PAYLOAD - 2
"""Bytes of UTF-8 that fit into a close frame after the code."""


class CloseCode(IntEnum):
    """The close codes this package uses itself (RFC 6455, 7.4.1)."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    UNSUPPORTED_DATA = 1003
    NO_STATUS = 1005  # never on the wire: the peer's close frame had no code
    INVALID_DATA = 1007
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    TRY_AGAIN_LATER = 1013


class FrameError(Exception):
    """The peer violated the protocol. `code` and `reason` are for the close frame to it."""

    def __init__(self, code: CloseCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def may_be_sent(code: int) -> bool:
    """Whether a close frame may have `code` (RFC 6455, 7.4, and IANA's registry of close codes)."""
    return 3000 <= code <= 4999 or (1000 <= code <= 1014 and code not in (1004, 1005, 1006))


# --- payloads -----------------------------------------------------------------------------------

_TABLE_SIZE_MIN: Final = 640
"""From this many bytes on, XOR by translation tables is faster than by one long integer."""
_XOR_TABLES: Final = tuple(bytes(byte ^ key for byte in range(256)) for key in range(256))
_REPEAT: Final = tuple(
    int.from_bytes(b"\0\0\0\1" * words) for words in range((_TABLE_SIZE_MIN + 7 >> 2) + 1)
)
"""`_REPEAT[n]` times a four-byte number is that number repeated n times."""


def unmask(data: bytes | bytearray, at: int, length: int) -> bytes:
    """The `length` bytes of payload behind the four-byte masking key at `data[at]` (5.3)."""
    end = at + 4 + length
    if length < _TABLE_SIZE_MIN:
        # Key and payload as one integer, XORed with the repeated key: the key itself becomes 0.
        # A loop over the bytes takes 20 times as long.
        masked = int.from_bytes(data[at:end])
        keys = (masked >> (length << 3)) * _REPEAT[length + 7 >> 2] >> ((-length & 3) << 3)
        return (masked ^ keys).to_bytes(length)
    payload = bytearray(data[at + 4 : end])
    for lane in range(4):
        payload[lane::4] = payload[lane::4].translate(_XOR_TABLES[data[at + lane]])
    return bytes(payload)


def is_utf8(payload: bytes) -> bool:
    if payload.isascii():
        return True
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse_close(payload: bytes) -> tuple[int, str]:
    """Code and reason of a close frame; `CloseCode.NO_STATUS` when it has none (5.5.1).

    Raises `FrameError`: 1002 for a truncated or forbidden code, 1007 for a reason that is not
    UTF-8.
    """
    if not payload:
        return CloseCode.NO_STATUS, ""
    code = int.from_bytes(payload[:2])
    if len(payload) < 2 or not may_be_sent(code):
        raise FrameError(CloseCode.PROTOCOL_ERROR, "invalid close code")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError:
        raise FrameError(CloseCode.INVALID_DATA, "close reason is not UTF-8") from None


# --- frames to the peer -------------------------------------------------------------------------

_SHORT_TEXT: Final = tuple(bytes((0x80 | TEXT, length)) for length in range(126))
_medium_head: Final = Struct(">HH").pack
_long_head: Final = Struct(">HQ").pack


def text_frame(payload: bytes) -> bytes:
    """A whole text message as one frame. `payload` must be UTF-8; it is not checked."""
    length = len(payload)
    if length < 126:
        return _SHORT_TEXT[length] + payload
    if length < 0x10000:
        return _medium_head(0x817E, length) + payload
    return _long_head(0x817F, length) + payload


def control_frame(opcode: int, payload: bytes = b"") -> bytes:
    """A ping, pong or close frame; ValueError if `payload` is longer than 125 bytes."""
    if len(payload) > MAX_CONTROL_PAYLOAD:
        raise ValueError(
            f"a control frame holds at most {MAX_CONTROL_PAYLOAD} bytes, not {len(payload)}"
        )
    return bytes((0x80 | opcode, len(payload))) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """A close frame; a reason that is too long is cut at a character boundary.

    `CloseCode.NO_STATUS` gives a frame without code and reason. Raises `ValueError` for any other
    code that must not be sent.
    """
    if code == CloseCode.NO_STATUS:
        return control_frame(CLOSE)
    if not may_be_sent(code):
        raise ValueError(f"a close frame must not have the code {code}")
    text = reason.encode("utf-8", "replace")[:MAX_REASON]
    text = text.decode("utf-8", "ignore").encode()
    return control_frame(CLOSE, code.to_bytes(2) + text)


# --- frames from the peer -----------------------------------------------------------------------


class FrameReader:
    """Splits a client's bytes into messages and control frames.

    Feed it bytes as they arrive and call `next` until it returns None. It holds at most one
    incomplete message (up to `max_message` bytes), one incomplete frame of it, and what was fed but
    not returned yet. While `idle` it holds nothing and can be dropped.
    """

    __slots__ = ("_buffer", "_decoder", "_max_message", "_message")

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._buffer = bytearray()
        self._message: bytearray | None = None  # the fragments so far of an incomplete message
        self._decoder: codecs.IncrementalDecoder | None = None

    @property
    def idle(self) -> bool:
        return not self._buffer and self._message is None

    @property
    def unread(self) -> bytes:
        """What was fed and not returned by `next`."""
        return bytes(self._buffer)

    @property
    def size(self) -> int:
        """Bytes buffered, including the fragments of an incomplete message."""
        return len(self._buffer) + (0 if self._message is None else len(self._message))

    @property
    def inside_message(self) -> bool:
        """`next` has returned the first fragment of a message, but not the last."""
        return self._message is not None

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """The next (opcode, payload), or None while no frame is complete.

        A TEXT is a whole message; each fragment before its last gives a CONTINUATION with an empty
        payload, so that a call reads at most one frame. A BINARY is returned from its header, with
        an empty payload. After a BINARY, a CLOSE or a `FrameError`, do not call `next` again.
        """
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode = buffer[0] & 0x0F
        self._check_start(buffer[0], buffer[1], opcode)
        if opcode == BINARY:
            return BINARY, b""
        length = buffer[1] & 0x7F
        key = 2
        if length > 125:
            key = 4 if length == 126 else 10
            if len(buffer) < key:
                return None
            length = _extended_length(buffer, key)
        if opcode < CLOSE:
            self._check_size(length)
        end = key + 4 + length
        if len(buffer) < end:
            return None
        payload = unmask(buffer, key, length)
        final = buffer[0] & 0x80 != 0
        del buffer[:end]
        if opcode >= CLOSE:
            return opcode, payload
        message = self._add(payload, opcode, final=final)
        return (CONTINUATION, b"") if message is None else (TEXT, message)

    def _check_start(self, first: int, second: int, opcode: int) -> None:
        if first & 0x70:
            raise FrameError(CloseCode.PROTOCOL_ERROR, "reserved bits are set")
        if not second & 0x80:
            raise FrameError(CloseCode.PROTOCOL_ERROR, "frame is not masked")
        if opcode >= CLOSE:
            if opcode > PONG:
                raise FrameError(CloseCode.PROTOCOL_ERROR, "reserved opcode")
            if not first & 0x80:
                raise FrameError(CloseCode.PROTOCOL_ERROR, "control frame is fragmented")
            if second & 0x7F > MAX_CONTROL_PAYLOAD:
                raise FrameError(CloseCode.PROTOCOL_ERROR, "control frame is too long")
        elif opcode > BINARY:
            raise FrameError(CloseCode.PROTOCOL_ERROR, "reserved opcode")
        elif opcode == CONTINUATION:
            if self._message is None:
                raise FrameError(CloseCode.PROTOCOL_ERROR, "continuation of no message")
        elif self._message is not None:
            raise FrameError(CloseCode.PROTOCOL_ERROR, "message inside another")

    def _check_size(self, length: int) -> None:
        if self._message is not None:
            length += len(self._message)
        if length > self._max_message:
            raise FrameError(
                CloseCode.MESSAGE_TOO_BIG, f"message is longer than {self._max_message} bytes"
            )

    def _add(self, payload: bytes, opcode: int, *, final: bool) -> bytes | None:
        """Add a data frame; returns the whole text message once it is complete."""
        if opcode == TEXT:
            if final:
                if is_utf8(payload):
                    return payload
                raise FrameError(CloseCode.INVALID_DATA, "text is not UTF-8")
            self._message = bytearray()
            self._decoder = codecs.getincrementaldecoder("utf-8")()
        assert self._message is not None
        assert self._decoder is not None
        try:
            self._decoder.decode(payload, final)
        except UnicodeDecodeError:
            raise FrameError(CloseCode.INVALID_DATA, "text is not UTF-8") from None
        self._message += payload
        if not final:
            return None
        message = bytes(self._message)
        self._message = self._decoder = None
        return message


def _extended_length(buffer: bytearray, key: int) -> int:
    """The 16- or 64-bit length before the masking key at `key` (5.2)."""
    length = int.from_bytes(buffer[2:key])
    if key == 10 and length >> 63:
        raise FrameError(CloseCode.PROTOCOL_ERROR, "length has its top bit set")
    if length < (126 if key == 4 else 0x10000):
        raise FrameError(CloseCode.PROTOCOL_ERROR, "length is not in its shortest form")
    return length
