"""A WebSocket connection of a server: RFC 6455 on an asyncio transport, to be subclassed.

Rule: an idle connection owns nothing but its slots. A buffer, reader or timer exists only while a
message is incomplete, output is paused or the connection is closing, each with a time limit.

The usual read is one or more whole, short, masked text frames, an empty pong or a close frame,
parsed directly in `data_received`. All else goes through a `FrameReader`, which is dropped when
idle. Input is blocked while the owner has paused it, while the peer does not read our output (else
answers would pile up) and when the time slice (`Budget`) is used up: the socket is not read, and
`_on_next_turn` continues with what the `FrameReader` holds. How a connection ends:

    open ── close() ──────────────→ closing ── peer's close frame, timeout, end of stream ──→ closed
    open ── peer's close frame ──→ answered, transport closed ─────────────────────────────→ closed
    open ── protocol error ──────→ close frame, our half shut, rest of input dropped ──────→ closed
    open ── end of stream, reset, abort() ─────────────────────────────────────────────────→ closed

`connection_closed` is called once, on the way to `closed`; no hook is called after it.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, cast

from autopush.net.client_limits import TOO_MUCH, BufferedBytes
from autopush.net.frames import (
    BINARY,
    CLOSE,
    MAX_CONTROL_PAYLOAD,
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
from autopush.net.sliced_input import (
    FIRST_OWN_BIT,
    LINGER_SECONDS,
    SOCKET_PAUSED,
    YIELDED,
    SlicedInput,
)
from autopush.net.timers import LARGE_READ, Budget, Timer, TimerWheel

# The bits of `_state`, beside those of `SlicedInput`.
_READING_PAUSED: Final = FIRST_OWN_BIT  # by the owner
_OUTPUT_PAUSED: Final = FIRST_OWN_BIT << 1  # the peer does not read
_CLOSING: Final = FIRST_OWN_BIT << 2  # our close frame was sent
_CLOSED: Final = FIRST_OWN_BIT << 3  # input is dropped
_REPORTED: Final = FIRST_OWN_BIT << 4  # connection_closed was called

_NOT_OPEN: Final = _CLOSING | _CLOSED
_INPUT_BLOCKED: Final = _READING_PAUSED | _OUTPUT_PAUSED | YIELDED
_NOT_FAST: Final = _INPUT_BLOCKED | _NOT_OPEN

_UNLIMITED: Final = BufferedBytes()

_FINAL_TEXT: Final = 0x80 | TEXT
_MASKED: Final = 0x80
_SHORTEST_FRAME: Final = 6  # header and masking key of an empty one
_EMPTY_PONG: Final = bytes((0x80 | PONG, _MASKED))  # without its key
_FINAL_CLOSE: Final = 0x80 | CLOSE
_EMPTY_PING: Final = control_frame(PING)


class WebSocketProtocol(SlicedInput):
    """The server's end of one WebSocket, from the moment the 101 is written.

    Subclasses declare `__slots__`, override the hooks and call the methods. A hook that raises
    loses the connection: the transport is aborted and the event loop's exception handler called.
    """

    __slots__ = ("_closing", "_deadline", "_reader", "_wheel", "transport")

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
        """Seconds from the start of closing until the connection is aborted."""
        return 10.0

    @property
    def buffered(self) -> BufferedBytes:
        """Counts the incomplete messages of this and other connections."""
        return _UNLIMITED

    transport: asyncio.Transport

    def __init__(self, wheel: TimerWheel) -> None:
        super().__init__()
        self._wheel = wheel
        self._reader: FrameReader | None = None
        # One at a time: for the closing handshake, else for paused output, else for the rest of a
        # message.
        self._deadline: Timer | None = None
        self._closing: tuple[int | None, str] = (None, "")

    # --- hooks ----------------------------------------------------------------------------------

    def text_received(self, payload: bytes) -> None:
        """A whole text message, valid UTF-8."""

    def binary_received(self) -> None:
        """A binary message has begun. It is not read: the connection closes with 1003, or with the
        code given to `close` here.
        """

    def pong_received(self, payload: bytes) -> None:
        """The answer to a `ping`, or an unsolicited pong."""

    def frame_received(self) -> None:
        """A frame that completes no message: a ping, a pong, or a fragment before the last one;
        after `close` also each message, as it is dropped.
        """

    def connection_closed(self, code: int | None, reason: str) -> None:
        """The WebSocket is closed. Called exactly once, never from within a method called here.

        `code` and `reason` are those of the first close frame, the peer's or ours (1005: the peer's
        had no code); None when there was none (RFC 6455's 1006).
        """

    def output_paused(self) -> None:
        """The peer reads too slowly: `writable` is false, and nothing is received until
        `output_resumed`. May be called within a send.
        """

    def output_resumed(self) -> None:
        """`writable` is true again."""

    # --- methods --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """No close frame was sent or received, and the transport is connected."""
        return not self._state & _NOT_OPEN

    @property
    def writable(self) -> bool:
        return not self._state & (_NOT_OPEN | _OUTPUT_PAUSED)

    def send_text(self, payload: bytes) -> None:
        """Send one text message of valid UTF-8. No effect when not open."""
        if not self._state & _NOT_OPEN:
            self.transport.write(text_frame(payload))

    def send_texts(self, payloads: Iterable[bytes]) -> None:
        """Send several text messages in one write: uvloop sends each write by itself."""
        if not self._state & _NOT_OPEN:
            self.transport.write(b"".join(map(text_frame, payloads)))

    def ping(self, payload: bytes = b"") -> None:
        """Send a ping of up to 125 bytes. No effect when not open."""
        frame = control_frame(PING, payload) if payload else _EMPTY_PING
        if not self._state & _NOT_OPEN:
            self.transport.write(frame)

    def close(self, code: int = CloseCode.NORMAL, reason: str = "") -> None:
        """Start the closing handshake. Messages that still arrive are dropped.

        A reason beyond 123 bytes is cut. No effect when not open. Raises `ValueError` for a code
        that must not be sent.
        """
        frame = close_frame(code, reason)
        if not self._state & _NOT_OPEN:
            self._start_closing(code, reason, frame)
            self._resume_input()  # to read the peer's close frame, whatever was paused

    def abort(self) -> None:
        """Drop the connection at once, without a close frame. Unsent output is lost."""
        self._state |= _CLOSED
        self._drop_reader()
        self.transport.abort()

    def give_up(self) -> None:
        """Drop the incomplete message and close with 1013: all clients' total is too large."""
        self._fail(CloseCode.TRY_AGAIN_LATER, TOO_MUCH)

    @property
    def can_move(self) -> bool:
        """Whether another process could go on with the socket at some time: not under TLS."""
        is_plain = self.transport.get_extra_info("ssl_object") is None
        return is_plain and not self._state & _NOT_OPEN

    async def begin_move(self) -> tuple[int, bytes] | None:
        """Stop reading; returns the descriptor of the socket, and the input not handled yet, for
        another process. None if that cannot go on with it now: unsent output, within a message.
        The owner sends nothing from the call on.

        Then `leave_socket`, or `resume_reading` to go on here.
        """
        self.pause_reading()
        if not self._state & _NOT_OPEN:
            self._pause_socket(self.transport)
        # What is written in one turn of the loop, uvloop sends at its end, and does not count.
        await asyncio.sleep(0)
        reader = self._reader
        if (
            not self.can_move
            or self.transport.get_write_buffer_size()
            or (reader is not None and reader.inside_message)
        ):
            return None
        descriptor: int = self.transport.get_extra_info("socket").fileno()
        return descriptor, b"" if reader is None else reader.unread

    def await_socket(self) -> None:
        """Until `connection_made`, do nothing: the socket comes from another process."""
        self._state |= _CLOSED

    def leave_socket(self) -> bool:
        """Drop the connection, which another process has; no hook is called any more. False if it
        was closed meanwhile, and the hooks were or will be called.
        """
        if self._state & _REPORTED:
            return False
        self._state |= _CLOSED | _REPORTED
        self._drop_reader()
        self._clear_deadline()
        self.transport.set_protocol(asyncio.Protocol())
        self.transport.abort()  # closes this descriptor only
        return True

    def pause_reading(self) -> None:
        """No `text_received` until `resume_reading`. No effect when not open.

        At most one read of the socket is kept; the rest stays in the kernel.
        """
        if not self._state & _NOT_OPEN:
            # The transport is paused only if something arrives: most pauses end before that.
            self._state |= _READING_PAUSED

    def resume_reading(self) -> None:
        """Undo `pause_reading`; kept input is delivered in the next turn of the loop."""
        self._state &= ~_READING_PAUSED
        self._resume_input()

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._state &= ~_CLOSED
        self.transport.set_write_buffer_limits(high=self.write_high_water)

    def data_received(self, data: bytes) -> None:
        size = len(data)
        if size > LARGE_READ:
            self._yield_to_loop()
        if self._reader is None and not self._state & _NOT_FAST:
            if size == _SHORTEST_FRAME and data.startswith(_EMPTY_PONG):
                self.pong_received(b"")
                self.frame_received()
                return
            if (
                0 <= size - _SHORTEST_FRAME <= MAX_CONTROL_PAYLOAD
                and data[0] == _FINAL_CLOSE
                and data[1] == _MASKED + size - _SHORTEST_FRAME
            ):
                self._on_close_frame(unmask(data, 2, size - _SHORTEST_FRAME))
                return
            budget: Budget | None = None
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
                if budget is None:
                    budget = Budget(self._wheel.clock)
                if budget.spend():
                    self._yield_to_loop()
                    break
            if at:
                data = data[at:]
        self._feed(data)

    def eof_received(self) -> None:
        """The peer sends no more: the transport closes itself once its output is sent."""
        self._drop_reader()
        if not self._state & _NOT_OPEN:
            self._set_deadline(self.close_timeout, self.abort)
        self._state |= _CLOSED

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._clear_deadline()
        self._report_closed()

    def pause_writing(self) -> None:
        self._state |= _OUTPUT_PAUSED
        if not self._state & _NOT_OPEN:
            self._pause_socket(self.transport)
            self._set_deadline(self.output_timeout, self.abort)
            self.output_paused()

    def resume_writing(self) -> None:
        self._state &= ~_OUTPUT_PAUSED
        if not self._state & _NOT_OPEN:
            self._clear_deadline()
            self._resume_input()
            self.output_resumed()

    # --- blocking input -------------------------------------------------------------------------

    def _input_blocked(self) -> int:
        """Whether input has to wait. After our close frame only for the next turn: then only pings
        need an answer, and get none while output is paused.
        """
        return self._state & (YIELDED if self._state & _CLOSING else _INPUT_BLOCKED)

    def _yield_to_loop(self) -> None:
        if not self._state & _CLOSED:
            self._yield_to(self._wheel.loop)

    def _resume_input(self) -> None:
        """Process kept input in the next turn, unless input is blocked."""
        if self._state & SOCKET_PAUSED and not self._input_blocked():
            self._yield_to_loop()

    def _on_next_turn(self) -> None:
        self._state &= ~YIELDED
        try:
            self._process_buffer()
        except BaseException:
            self.abort()
            raise

    # --- frames that need a reader --------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        if self._state & _CLOSED:
            return
        if self._reader is None:
            self._reader = FrameReader(self.max_message)
        self._reader.feed(data)
        self._process_buffer()

    def _process_buffer(self) -> None:
        """Handle frames until none is complete, input is blocked or the WebSocket is closed."""
        budget = Budget(self._wheel.clock)
        while not self._state & _CLOSED:
            if self._input_blocked():
                self._pause_socket(self.transport)
                if self._reader is not None:
                    self.buffered.hold(self, self._reader.size)
                return
            try:
                event = None if self._reader is None else self._reader.next()
                if event is None:
                    self._on_buffer_empty()
                    return
                self._on_frame()
                self._handle(*event)
            except FrameError as error:
                self._fail(error.code, error.reason)
            if budget.spend():
                self._yield_to_loop()

    def _on_buffer_empty(self) -> None:
        """All input is delivered, except for an incomplete frame or message."""
        if self._reader is not None:
            if self._reader.idle:
                self._drop_reader()
            else:
                if self._deadline is None:
                    self._set_deadline(self.message_timeout, self._on_message_timeout)
                self.buffered.hold(self, self._reader.size)
        self._resume_socket(self.transport)

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader = None
            self.buffered.hold(self, 0)

    def _on_frame(self) -> None:
        """The next message has its own deadline; further frames of the same message do not."""
        if (
            self._deadline is not None
            and not self._state & _NOT_OPEN
            and self._reader is not None
            and not self._reader.inside_message
        ):
            self._clear_deadline()

    def _on_message_timeout(self) -> None:
        self._deadline = None
        if self._input_blocked():  # the rest may have arrived: our reading is paused
            self._set_deadline(self.message_timeout, self._on_message_timeout)
        else:
            self._fail(CloseCode.POLICY_VIOLATION, "the message took too long")

    def _handle(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT and not self._state & _CLOSING:
            self.text_received(payload)
        elif opcode == CLOSE:
            self._on_close_frame(payload)
        elif opcode == BINARY:
            if not self._state & _CLOSING:
                self.binary_received()
            if not self._state & _CLOSED:
                self._fail(CloseCode.UNSUPPORTED_DATA, "only text messages are accepted")
        else:
            if opcode == PING and not self._state & _OUTPUT_PAUSED:
                self.transport.write(control_frame(PONG, payload))
            elif opcode == PONG and not self._state & _CLOSING:
                self.pong_received(payload)
            self.frame_received()

    def _on_close_frame(self, payload: bytes) -> None:
        try:
            code, reason = parse_close(payload)
        except FrameError as error:
            self._fail(error.code, error.reason)
            return
        if not self._state & _CLOSING:
            self._start_closing(code, reason, control_frame(CLOSE, payload[:2]))  # its own code
        self.transport.close()
        self._report_closed()

    def _fail(self, code: int, reason: str) -> None:
        """Fail the connection (7.1.7): send a close frame, shut our half, drop further input."""
        if not self._state & _CLOSING:
            self._start_closing(code, reason, close_frame(code, reason))
        if not self._end_output(self.transport):
            # Only both directions can be closed, once the peer had time to read the frame.
            seconds = min(LINGER_SECONDS, self.close_timeout)
            self._set_deadline(seconds, self.transport.close)
        self._report_closed()

    def _start_closing(self, code: int | None, reason: str, frame: bytes) -> None:
        """Send our only close frame; the peer has `close_timeout` from now on."""
        self._closing = code, reason
        self._state |= _CLOSING
        self._set_deadline(self.close_timeout, self.abort)
        self.transport.write(frame)

    def _report_closed(self) -> None:
        self._drop_reader()
        self._state |= _CLOSED
        if not self._state & _REPORTED:
            self._state |= _REPORTED
            self.connection_closed(*self._closing)

    def _set_deadline(self, seconds: float, callback: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = self._wheel.after(seconds, callback)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
