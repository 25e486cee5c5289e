"""A WebSocket connection of a server: RFC 6455 on a raw transport, to be subclassed.

The rule it keeps: an idle connection owns nothing but its slots. No buffer, reader or timer exists
unless something is half read, half said or half closed; and nothing stays half for ever.

The usual read is one or more whole, short, masked text frames; `data_received` takes these straight
from the bytes. Whatever else comes goes through a `FrameReader`, which lives until it is idle
again. Input is held back while the owner has paused it, while the peer does not read our output
(else answers would pile up) and when this turn's share is used up (`turns`); what was read stays in
the `FrameReader` and the socket is not read. `_catch_up` goes on. How a connection ends:

    open ── close() ──────────────→ closing ── peer's close frame, timeout, end of stream ──→ over
    open ── peer's close frame ──→ answered, transport closed ─────────────────────────────→ over
    open ── rule broken ─────────→ close frame, our half shut, rest of input dropped ──────→ over
    open ── end of stream, reset, abort() ─────────────────────────────────────────────────→ over

`connection_closed` is called once, on the way to `over`; no hook is called after it.
"""

import asyncio
from collections.abc import Callable, Iterable
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
from .turns import LARGE_READ, Share

_READING_PAUSED: Final = 1  # by the owner
_OUTPUT_PAUSED: Final = 2  # the peer does not read
_YIELDED: Final = 4  # `_catch_up` is on its way
_STOPPED: Final = 8  # the socket is not read
_CLOSING: Final = 16  # our close frame is out
_OVER: Final = 32  # nothing that still arrives counts
_TOLD: Final = 64  # connection_closed was called

_NOT_OPEN: Final = _CLOSING | _OVER
_HELD: Final = _READING_PAUSED | _OUTPUT_PAUSED | _YIELDED
_NOT_FAST: Final = _HELD | _NOT_OPEN

_FINAL_TEXT: Final = 0x80 | TEXT
_MASKED: Final = 0x80
_SHORTEST_FRAME: Final = 6  # header and masking key of an empty one


class WebSocketProtocol(asyncio.Protocol):
    """The server's end of one WebSocket, from the moment the 101 is written.

    Subclasses declare `__slots__`, override the hooks and call the methods. A hook that raises
    loses the connection: the transport is aborted and the event loop's exception handler told.
    """

    __slots__ = ("_closing", "_deadline", "_reader", "_state", "_wheel", "transport")

    max_message: ClassVar[int] = 64 * 1024
    """Bytes of payload in a message, all its fragments together; a longer one closes with 1009."""
    write_high_water: ClassVar[int] = 16 * 1024
    """Unsent bytes beyond which output counts as paused; it resumes below a quarter of them."""
    output_timeout: ClassVar[float] = 60.0
    """Seconds output may stay paused before the connection is aborted."""
    message_timeout: ClassVar[float] = 30.0
    """Seconds from a message's first byte to its last; a longer one closes with 1008."""

    @property
    def close_timeout(self) -> float:
        """Seconds the peer has, once closing began, before the connection is aborted."""
        return 10.0

    transport: asyncio.Transport

    def __init__(self, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._state = 0
        self._reader: FrameReader | None = None
        # One at a time: for the end once it has begun, else for the peer to read what we send, else
        # for the rest of a message.
        self._deadline: Timer | None = None
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
        """The peer reads too slowly: `writable` is false now. May come from within a send.

        Nothing is received until it has caught up.
        """

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
        self._begin_closing(code, reason, frame)
        self._read_on()  # the peer's answer is awaited, whatever was paused

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
        self._state &= ~_READING_PAUSED
        self._read_on()

    # --- transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.write_high_water)

    def data_received(self, data: bytes) -> None:
        size = len(data)
        if size > LARGE_READ:
            self._yield()
        if self._reader is None and not self._state & _NOT_FAST:
            share: Share | None = None
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
                if at == size:
                    return
                if self._state & _NOT_FAST:
                    break
                if share is None:
                    share = Share()
                if share.used_up():
                    self._yield()
                    break
            if at:
                data = data[at:]
        self._take(data)

    def eof_received(self) -> None:
        """The peer will send no more: the transport closes itself once its output is gone."""
        self._reader = None
        if not self._state & _NOT_OPEN:
            self._set_deadline(self.close_timeout, self.abort)
        self._state |= _OVER

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._clear_deadline()
        self._finish()

    def pause_writing(self) -> None:
        self._state |= _OUTPUT_PAUSED
        if not self._state & _NOT_OPEN:
            self._stop()
            self._set_deadline(self.output_timeout, self.abort)
            self.output_paused()

    def resume_writing(self) -> None:
        self._state &= ~_OUTPUT_PAUSED
        if not self._state & _NOT_OPEN:
            self._clear_deadline()
            self._read_on()
            self.output_resumed()

    # --- holding input back ---------------------------------------------------------------------

    def _held(self) -> int:
        """Whether input has to wait.

        Once our close frame is out only for the next turn: then input asks for no answer but pongs,
        and these are left out while output is paused.
        """
        return self._state & (_YIELDED if self._state & _CLOSING else _HELD)

    def _stop(self) -> None:
        if not self._state & _STOPPED:
            self._state |= _STOPPED
            self.transport.pause_reading()

    def _start(self) -> None:
        if self._state & _STOPPED:
            self._state &= ~_STOPPED
            self.transport.resume_reading()

    def _yield(self) -> None:
        """Hold input back until the next turn of the loop."""
        if not self._state & (_YIELDED | _OVER):
            self._state |= _YIELDED
            self._wheel.loop.call_soon(self._catch_up)

    def _read_on(self) -> None:
        """Go on soon with what is held back, unless something else holds it."""
        if self._state & _STOPPED and not self._held():
            self._yield()

    def _catch_up(self) -> None:
        self._state &= ~_YIELDED
        try:
            self._deliver()
        except BaseException:
            self.abort()
            raise

    # --- inside ---------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        if self._state & _OVER:
            return
        if self._reader is None:
            self._reader = FrameReader(self.max_message)
        self._reader.feed(data)
        self._deliver()

    def _deliver(self) -> None:
        """Hand on what the reader holds until it is empty, input has to wait or all is over."""
        share = Share()
        while not self._state & _OVER:
            if self._held():
                self._stop()
                return
            try:
                event = None if self._reader is None else self._reader.next()
                if event is None:
                    self._run_dry()
                    return
                self._frame_taken()
                self._handle(*event)
            except FrameError as error:
                self._fail(error.code, error.reason)
            if share.used_up():
                self._yield()

    def _run_dry(self) -> None:
        """All that was read is delivered, but for the beginning of a frame or a message."""
        if self._reader is not None:
            if self._reader.idle:
                self._reader = None
            elif self._deadline is None:
                self._set_deadline(self.message_timeout, self._message_too_slow)
        self._start()

    def _frame_taken(self) -> None:
        """What follows has time of its own, unless it is the same message still."""
        if (
            self._deadline is not None
            and not self._state & _NOT_OPEN
            and self._reader is not None
            and not self._reader.inside_message
        ):
            self._clear_deadline()

    def _message_too_slow(self) -> None:
        self._deadline = None
        if self._held():  # the rest may be there, and it is we who do not read it
            self._set_deadline(self.message_timeout, self._message_too_slow)
        else:
            self._fail(CloseCode.POLICY_VIOLATION, "the message took too long")

    def _handle(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            if not self._state & _CLOSING:
                self.text_received(payload)
        elif opcode == PING:
            if not self._state & _OUTPUT_PAUSED:
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
            self._begin_closing(code, reason, close_frame(code))
        self.transport.close()
        self._finish()

    def _fail(self, code: int, reason: str) -> None:
        """Fail the connection (7.1.7): say why, shut our half, drop what still comes.

        Closing the socket with input unread would reset it, and the peer might never see why.
        """
        if not self._state & _CLOSING:
            self._begin_closing(code, reason, close_frame(code, reason))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._start()
        self._finish()

    def _begin_closing(self, code: int | None, reason: str, frame: bytes) -> None:
        """Our close frame goes out, the only one; the peer has `close_timeout` from now on."""
        self._closing = code, reason
        self._state |= _CLOSING
        self._set_deadline(self.close_timeout, self.abort)
        self.transport.write(frame)

    def _finish(self) -> None:
        self._reader = None
        self._state |= _OVER
        if not self._state & _TOLD:
            self._state |= _TOLD
            self.connection_closed(*self._closing)

    def _set_deadline(self, seconds: float, callback: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = self._wheel.after(seconds, callback)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
