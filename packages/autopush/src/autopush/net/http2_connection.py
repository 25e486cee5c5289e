"""The client's side of one HTTP/2 connection (RFC 9113), on the protocol library `h2`.

Rule: every request ends in a complete response or an `HttpError` that says whether the server has
certainly not processed it. There is no timeout for it here: its caller cancels it.

A connection holds no task. It sends a PING when nothing was received for `PING_INTERVAL`, is
dropped when no answer comes within `PING_TIMEOUT`, and closes after `IDLE_TIMEOUT` without a
request.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, cast

import h2.config
import h2.connection
import h2.events
import h2.exceptions
from h2.errors import ErrorCodes
from h2.exceptions import FrameTooLargeError
from h2.settings import SettingCodes

from autopush.net.http_client import MAX_RESPONSE, HeaderList, HttpError, HttpResponse
from autopush.net.sliced_input import SlicedInput
from autopush.net.timers import Budget

MAX_STREAMS: Final = 500
"""Concurrent requests, even if the server allows more."""
PING_INTERVAL: Final = 60.0
PING_TIMEOUT: Final = 10.0
IDLE_TIMEOUT: Final = 600.0

MAX_FRAME: Final = 16_384
"""Bytes of a frame without its head; we allow no server more."""
_HEAD_LENGTH: Final = 9
_GOAWAY: Final = 7


class FrameSplitter:
    """Splits the server's bytes into frames and takes GOAWAY out.

    `h2` ends the connection at once on a GOAWAY. RFC 9113, 6.8, lets the streams up to its last one
    finish; else a response in progress would be lost.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0  # of what was not returned yet

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> bytes | int | None:
        """The next complete frame, or the last stream id of a GOAWAY; None if there is none yet.

        :raises FrameTooLargeError: a frame is longer than `MAX_FRAME`
        """
        start, buffer = self._start, self._buffer
        if len(buffer) - start < _HEAD_LENGTH:
            return None
        length = int.from_bytes(buffer[start : start + 3], "big")
        if length > MAX_FRAME:
            raise FrameTooLargeError
        end = start + _HEAD_LENGTH + length
        if end > len(buffer):
            return None
        self._start = end
        if buffer[start + 3] == _GOAWAY and length >= 8:
            last = buffer[start + _HEAD_LENGTH : start + _HEAD_LENGTH + 4]
            return int.from_bytes(last, "big") & 0x7FFF_FFFF
        return bytes(buffer[start:end])


class _Stream:
    __slots__ = ("body", "future", "headers", "started", "status", "unsent")

    def __init__(self, future: "asyncio.Future[HttpResponse]", unsent: bytes, now: float) -> None:
        self.future = future
        self.unsent = unsent
        self.started = now
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()


class Http2Connection(SlicedInput):
    """A pooled connection. `ready`: done when the server's settings are known, or failed with
    `HttpError`; `lost`: done when the connection is gone. `room_changed` is called when another
    request may fit, or the connection takes no more.
    """

    def __init__(
        self,
        room_changed: "Callable[[Http2Connection], None]",
        *,
        ping_interval: float = PING_INTERVAL,
        ping_timeout: float = PING_TIMEOUT,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        super().__init__()
        self._room_changed = room_changed
        self._loop = asyncio.get_running_loop()
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._idle_timeout = idle_timeout
        # By default `h2` keeps Authorization out of HPACK's table; encoding an access token for
        # each request costs as much as all the rest.
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding="latin-1", normalize_outbound_headers=False)
        )
        self._frames = FrameSplitter()
        self._streams: dict[int, _Stream] = {}
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._received_at = self._used_at = self._loop.time()
        self._ping_sent_at: float | None = None
        self._continuation: asyncio.Handle | None = None
        self._is_paused = self._is_draining = False
        self._reason = "the server closed the connection"
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.ready.add_done_callback(_retrieve)
        self.lost: asyncio.Future[None] = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """Takes requests, now or when others are done."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and not self._is_draining

    @property
    def has_room(self) -> bool:
        """Takes a request now."""
        limit = min(self._h2.remote_settings.max_concurrent_streams, MAX_STREAMS)
        return (
            self.usable and self.ready.done() and not self._is_paused and len(self._streams) < limit
        )

    async def request(
        self, method: str, authority: str, target: str, headers: HeaderList, body: bytes
    ) -> HttpResponse:
        """Send a request, only while `has_room`. `headers`: lower-case names.

        :raises HttpError: no complete response
        """
        sent = [
            (":method", method),
            (":scheme", "https"),
            (":authority", authority),
            (":path", target),
            *headers,
        ]
        if body:
            sent.append(("content-length", str(len(body))))
        try:
            number = self._h2.get_next_available_stream_id()
            self._h2.send_headers(number, sent, end_stream=not body)
        except h2.exceptions.NoAvailableStreamIDError:
            self._drain()
            raise HttpError(
                "the connection is used up", processed=False, is_connection=True
            ) from None
        except h2.exceptions.ProtocolError:
            self._drain()  # `h2` may have taken half of it
            raise HttpError(
                "the request is not valid in HTTP/2", processed=False, is_connection=True
            ) from None
        self._used_at = self._loop.time()
        stream = _Stream(self._loop.create_future(), body, self._used_at)
        self._streams[number] = stream
        self._send_body(number, stream)
        self._flush()
        try:
            return await stream.future
        finally:
            if self._streams.get(number) is stream:  # cancelled
                self._reset(number)
                if self._received_at <= stream.started:
                    self._send_ping()  # nothing received since: is the server alive?
                self._flush()
                self._stream_closed()

    def close(self) -> None:
        """Take no more requests; close when those in progress are done."""
        self._drain()

    def abort(self, reason: str = "the connection was closed here") -> None:
        """Drop the connection at once; requests in progress fail."""
        self._reason = reason
        self._is_draining = True
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self.abort("the server does not speak HTTP/2")
            return
        self._h2.initiate_connection()
        self._h2.update_settings({SettingCodes.ENABLE_PUSH: 0})
        self._flush()
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - may quote TLS data
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._continuation is not None:
            self._continuation.cancel()
            with contextlib.suppress(h2.exceptions.ProtocolError):
                while self._process_frame():
                    pass  # responses that came before the end
        if not self.ready.done():
            self.ready.set_exception(HttpError(self._reason, processed=False, is_connection=True))
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            _fail(stream, HttpError(self._reason, is_connection=True))
        self.lost.set_result(None)
        self._room_changed(self)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._room_changed(self)

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        self._ping_sent_at = None
        self._frames.feed(data)
        if self._continuation is None:
            self._process_frames()

    def _process_frames(self) -> None:
        """Process received frames for one time slice; the rest after other connections."""
        self._continuation = None
        budget = Budget(time.perf_counter)
        try:
            while self._process_frame():
                if budget.spend():
                    if self._transport is not None:
                        self._pause_socket(self._transport)
                    self._continuation = self._loop.call_soon(self._process_frames)
                    break
            else:
                if self._transport is not None:
                    self._resume_socket(self._transport)
        except h2.exceptions.ProtocolError:
            self._flush()  # the GOAWAY that says why
            self.abort("the server does not follow HTTP/2")
            return
        self._flush()

    def _process_frame(self) -> bool:
        """Process the next frame; False if none is complete."""
        frame = self._frames.next()
        if isinstance(frame, bytes):
            for event in self._h2.receive_data(frame):
                self._on_event(event)
        elif frame is not None:
            self._on_goaway(frame)
        return frame is not None

    # --- events ---------------------------------------------------------------------------------

    def _on_event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                if (stream := self._streams.get(event.stream_id)) is not None:
                    headers = {str(name): str(value) for name, value in event.headers}
                    status = headers.pop(":status", "")
                    stream.status = int(status) if status.isdecimal() else 0
                    stream.headers = headers
            case h2.events.DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (stream := self._streams.get(event.stream_id)) is not None:
                    stream.body += event.data
                    if len(stream.body) > MAX_RESPONSE:
                        self._reset(event.stream_id)
                        _fail(stream, HttpError("the response is too large"))
                        self._stream_closed()
            case h2.events.StreamEnded():
                self._on_response(event.stream_id)
            case h2.events.StreamReset():
                if (stream := self._streams.pop(event.stream_id, None)) is not None:
                    processed = event.error_code != ErrorCodes.REFUSED_STREAM
                    _fail(stream, HttpError("the server reset the stream", processed=processed))
                    self._stream_closed()
            case h2.events.RemoteSettingsChanged():
                if not self.ready.done():
                    self.ready.set_result(None)
                    self._used_at = self._loop.time()
                    self._set_timer()
                self._send_bodies()
                self._room_changed(self)
            case h2.events.WindowUpdated():
                self._send_bodies()

    def _on_response(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is None:
            return
        if stream.unsent:
            self._reset(number)  # answered before the whole request was sent
        else:
            del self._streams[number]
        if not stream.future.done():
            stream.future.set_result(
                HttpResponse(stream.status, stream.headers, bytes(stream.body))
            )
        self._stream_closed()

    def _on_goaway(self, last_stream: int) -> None:
        for number in [number for number in self._streams if number > last_stream]:
            error = HttpError("the server is going away", processed=False, is_connection=True)
            _fail(self._streams.pop(number), error)
        self._reason = "the server went away"
        if not self.ready.done():
            self.ready.set_exception(HttpError(self._reason, processed=False, is_connection=True))
        self._drain()

    def _stream_closed(self) -> None:
        self._used_at = self._loop.time()
        if self._is_draining:
            self._drain()
        self._room_changed(self)

    def _drain(self) -> None:
        was_draining, self._is_draining = self._is_draining, True
        if self._transport is not None and not self._streams:
            self._h2.close_connection()
            self._flush()
            self._transport.close()
        elif not was_draining:
            self._room_changed(self)

    # --- sending --------------------------------------------------------------------------------

    def _send_bodies(self) -> None:
        for number, stream in self._streams.items():
            self._send_body(number, stream)

    def _send_body(self, number: int, stream: _Stream) -> None:
        # The server has closed the stream; its event follows.
        with contextlib.suppress(h2.exceptions.StreamClosedError):
            while stream.unsent:
                window = self._h2.local_flow_control_window(number)
                size = min(window, self._h2.max_outbound_frame_size)
                if size <= 0:
                    return
                piece, stream.unsent = stream.unsent[:size], stream.unsent[size:]
                self._h2.send_data(number, piece, end_stream=not stream.unsent)

    def _reset(self, number: int) -> None:
        del self._streams[number]
        with contextlib.suppress(h2.exceptions.StreamClosedError):
            self._h2.reset_stream(number, ErrorCodes.CANCEL)

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    # --- keep-alive -----------------------------------------------------------------------------

    def _send_ping(self) -> None:
        if self._ping_sent_at is None and self._transport is not None:
            self._ping_sent_at = self._loop.time()
            self._h2.ping(bytes(8))
            self._set_timer()

    @property
    def _is_idle(self) -> bool:
        return self.ready.done() and not self._streams

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ping_sent_at is not None:
            due = self._ping_sent_at + self._ping_timeout
        else:
            due = self._received_at + self._ping_interval
            if self._is_idle:
                due = min(due, self._used_at + self._idle_timeout)
        self._timer = self._loop.call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        now = self._loop.time()
        if self._ping_sent_at is not None:
            if now >= self._ping_sent_at + self._ping_timeout:
                self.abort("the server does not answer")
                return
        elif self._is_idle and now >= self._used_at + self._idle_timeout:
            self._drain()
            return
        elif now >= self._received_at + self._ping_interval:
            self._send_ping()
            self._flush()
            return
        self._set_timer()


def _fail(stream: _Stream, error: HttpError) -> None:
    if not stream.future.done():
        stream.future.set_exception(error)
        # Nobody reads it if the request was cancelled meanwhile.
        stream.future.add_done_callback(_retrieve)


def _retrieve(future: "asyncio.Future[None] | asyncio.Future[HttpResponse]") -> None:
    if not future.cancelled():
        future.exception()
