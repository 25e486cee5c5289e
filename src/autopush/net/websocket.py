"""A WebSocket connection of a server: RFC 6455 on a raw transport, to be subclassed.

The rule it keeps: an idle connection owns nothing but its slots. No buffer, reader or timer exists
unless something is half read, half said or half closed.

The usual read is one or more whole, short, masked text frames; `data_received` takes these straight
from the bytes. Whatever else comes goes through a `FrameReader`, which lives until it is idle
again. How a connection ends:

    open ── close() ──────────────→ closing ── peer's close frame, timeout, end of stream ──→ over
    open ── peer's close frame ──→ answered, transport closed ─────────────────────────────→ over
    open ── rule broken ─────────→ close frame, our half shut, rest of input dropped ──────→ over
    open ── end of stream, reset, abort() ─────────────────────────────────────────────────→ over

`connection_closed` is called once, on the way to `over`; no hook is called after it.
"""

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Final, cast

from .frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    CloseCode,
    FrameError,
    FrameReader,
    close_frame,
    control_frame,
    is_utf8,
    parse_close,
    text_frame,
    unmask,
)
from .timers import Timer, TimerWheel

_READING_PAUSED: Final = 1
_OUTPUT_PAUSED: Final = 2
_CLOSING: Final = 4  # our close frame is out
_OVER: Final = 8  # nothing that still arrives counts
_TOLD: Final = 16  # connection_closed was called

_NOT_OPEN: Final = _CLOSING | _OVER
_NOT_FAST: Final = _READING_PAUSED | _NOT_OPEN

_FINAL_TEXT: Final = 0x80 | TEXT
_MASKED: Final = 0x80
_SHORTEST_FRAME: Final = 6  # header and masking key of an empty one


class WebSocketProtocol(asyncio.Protocol):
    """The server's end of one WebSocket, from the moment the 101 is written.

    Subclasses declare `__slots__`, override the hooks and call the methods. A hook that raises
    loses the connection: the transport is aborted and the event loop's exception handler told.
    """

    __slots__ = ("_closing", "_pong", "_reader", "_state", "_timer", "_wheel", "transport")

    max_message: ClassVar[int] = 64 * 1024
    """Bytes of payload in a message, all its fragments together; a longer one closes with 1009."""
    write_high_water: ClassVar[int] = 16 * 1024
    """Unsent bytes beyond which output counts as paused; it resumes below a quarter of them."""

    @property
    def close_timeout(self) -> float:
        """Seconds the peer has, once closing began, before the connection is aborted."""
        return 10.0

    transport: asyncio.Transport

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._state = 0
        self._reader: FrameReader | None = None
        self._pong: bytes | None = None  # owed to the peer's latest ping while output is paused
        self._timer: Timer | None = None
        self._closing: tuple[int | None, str] = (None, "")

    # --- hooks ----------------------------------------------------------------------------------

    def text_received(self, payload: bytes) -> None:
        """A whole text message, valid UTF-8."""

    def binary_received(self) -> None:
        """A binary message has begun. Its payload is never read: the connection ends with 1003.

        To end it with another code, call `close`.
        """

    def pong_received(self, payload: bytes) -> None:
        """The answer to a `ping`, or one that was not asked for."""

    def connection_closed(self, code: int | None, reason: str) -> None:
        """The WebSocket is over. Called exactly once, never from within a method called here.

        `code` and `reason` are those of the first close frame, the peer's or ours (1005: the peer's
        bore no code); None when there was none (RFC 6455's 1006).
        """

    def output_paused(self) -> None:
        """The peer reads too slowly: `writable` is false now. May come from within a send."""

    def output_resumed(self) -> None:
        """The peer has caught up: `writable` is true again."""

    # --- methods --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """No close frame was sent or received, and the connection is there."""
        return not self._state & _NOT_OPEN

    @property
    def writable(self) -> bool:
        """Open, and the peer keeps up with what is sent."""
        return not self._state & (_NOT_OPEN | _OUTPUT_PAUSED)

    def send_text(self, payload: bytes) -> None:
        """Send one text message of valid UTF-8. Without effect when not open."""
        if not self._state & _NOT_OPEN:
            self.transport.write(text_frame(payload))

    def send_texts(self, payloads: Iterable[bytes]) -> None:
        """Send several text messages in one write: uvloop sends each write by itself."""
        if not self._state & _NOT_OPEN:
            self.transport.write(b"".join(map(text_frame, payloads)))

    def ping(self, payload: bytes = b"") -> None:
        """Send a ping of up to 125 bytes. Without effect when not open."""
        frame = control_frame(PING, payload)
        if not self._state & _NOT_OPEN:
            self.transport.write(frame)

    def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Begin the closing handshake. Messages that still arrive are dropped.

        A reason beyond 123 bytes is cut. Without effect when not open. Raises `ValueError` for a
        code that must not be sent.
        """
        frame = close_frame(code, reason)
        if self._state & _NOT_OPEN:
            return
        self._closing = code, reason
        self._state |= _CLOSING
        self.transport.write(frame)
        self._give_time()
        self.resume_reading()  # the peer's answer is awaited, paused or not

    def abort(self) -> None:
        """Drop the connection at once, without a close frame. What is unsent is lost."""
        self._state |= _OVER
        self._reader = None
        self.transport.abort()

    def pause_reading(self) -> None:
        """No `text_received` until `resume_reading`. Without effect when not open.

        What has been read already is kept, at most one read of the socket; the rest stays there.
        """
        if not self._state & _NOT_OPEN:
            # The transport is told only if something arrives: most pauses are over before.
            self._state |= _READING_PAUSED

    def resume_reading(self) -> None:
        """Go on after `pause_reading`; what was kept is delivered soon, not from within."""
        if not self._state & _READING_PAUSED:
            return
        self._state &= ~_READING_PAUSED
        if self._reader is not None:
            self.transport.resume_reading()
            self._wheel.loop.call_soon(self._catch_up)

    # --- transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.write_high_water)

    def data_received(self, data: bytes) -> None:
        if self._reader is None and not self._state & _NOT_FAST:
            size = len(data)
            at = 0
            while size - at >= _SHORTEST_FRAME and data[at] == _FINAL_TEXT:
                length = data[at + 1] - _MASKED
                key = at + 2
                if length > 125:
                    if length == 127:
                        break
                    key = at + 4
                    length = data[at + 2] << 8 | data[at + 3]
                    if length < 126 or length > self.max_message:
                        break
                elif length < 0:  # not masked
                    break
                end = key + 4 + length
                if end > size:
                    break
                payload = unmask(data, key, length)
                if not (payload.isascii() or is_utf8(payload)):
                    break
                at = end
                self.text_received(payload)
                if self._state & _NOT_FAST:
                    break
            if at == size:
                return
            if at:
                data = data[at:]
        self._take(data)

    def eof_received(self) -> None:
        """The peer will send no more: the transport closes itself once its output is gone."""
        self._reader = None
        self._state |= _OVER
        self._give_time()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pong = None
        self._finish()

    def pause_writing(self) -> None:
        self._state |= _OUTPUT_PAUSED
        if not self._state & _NOT_OPEN:
            self.output_paused()

    def resume_writing(self) -> None:
        self._state &= ~_OUTPUT_PAUSED
        pong, self._pong = self._pong, None
        if pong is not None and not self._state & _OVER:
            self.transport.write(control_frame(PONG, pong))
        if self.writable:
            self.output_resumed()

    # --- inside ---------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        if self._state & _OVER:
            return
        if self._reader is None:
            self._reader = FrameReader(self.max_message)
        self._reader.feed(data)
        self._deliver()

    def _deliver(self) -> None:
        """Hand on what the reader holds until it is empty, reading is paused or all is over."""
        while self._reader is not None and not self._state & _OVER:
            if self._state & _READING_PAUSED:
                self.transport.pause_reading()
                return
            try:
                event = self._reader.next()
                if event is None:
                    if self._reader.idle:
                        self._reader = None
                    return
                self._handle(*event)
            except FrameError as error:
                self._fail(error.code, error.reason)

    def _handle(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            if not self._state & _CLOSING:
                self.text_received(payload)
        elif opcode == PING:
            if self._state & _OUTPUT_PAUSED:
                self._pong = payload
            else:
                self.transport.write(control_frame(PONG, payload))
        elif opcode == PONG:
            if not self._state & _CLOSING:
                self.pong_received(payload)
        elif opcode == CLOSE:
            self._peer_closed(payload)
        elif opcode == BINARY:
            if not self._state & _CLOSING:
                self.binary_received()
            if not self._state & _OVER:
                self._fail(CloseCode.UNSUPPORTED_DATA, "only text messages are taken")

    def _peer_closed(self, payload: bytes) -> None:
        code, reason = parse_close(payload)
        if not self._state & _CLOSING:
            self._closing = code, reason
            self.transport.write(close_frame(code))
        self.transport.close()
        self._give_time()
        self._finish()

    def _fail(self, code: int, reason: str) -> None:
        """Fail the connection (7.1.7): say why, shut our half, drop what still comes.

        Closing the socket with input unread would reset it, and the peer might never see why.
        """
        if not self._state & _CLOSING:
            self._closing = code, reason
            self.transport.write(close_frame(code, reason))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._give_time()
        self._finish()

    def _finish(self) -> None:
        self._reader = None
        self._state |= _OVER
        if not self._state & _TOLD:
            self._state |= _TOLD
            self.connection_closed(*self._closing)

    def _give_time(self) -> None:
        if self._timer is None:
            self._timer = self._wheel.after(self.close_timeout, self.abort)

    def _catch_up(self) -> None:
        try:
            self._deliver()
        except BaseException:
            self.abort()
            raise
