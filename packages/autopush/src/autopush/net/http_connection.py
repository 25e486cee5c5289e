"""One HTTP/1.1 connection of the server: read, call the handler, answer in order.

The rule: while an answer is outstanding nothing further is parsed, nor when this turn's share is
used up (`turns`). What the client sends meanwhile stays in one buffer of at most one read, then in
the kernel; so no client makes a queue grow or the others wait.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from autopush.net.eager import begin
from autopush.net.http_messages import Request, Response, Upgrade
from autopush.net.http_reader import BETWEEN, BODY, EXPECTED_BODY, HEAD, RequestReader
from autopush.net.http_render import CONTINUE, render, render_upgrade
from autopush.net.turns import LARGE_READ, Share

if TYPE_CHECKING:
    from autopush.net.http import HttpServer
    from autopush.net.timers import Timer

# What the deadline is for. For a handler there is none: it has its own.
_REQUEST, _REST_OF_HEAD, _REST_OF_BODY, _HANDLER, _READER, _CLOSE = range(6)

_NEVER = float("inf")
_LINGER_SECONDS = 2.0
_LINGER_BYTES = 1 << 20


class HttpConnection(asyncio.Protocol):
    """The protocol of one client; made by `HttpServer.protocol`."""

    __slots__ = (
        "_answering",
        "_closing",
        "_due",
        "_fires",
        "_gated",
        "_held",
        "_last",
        "_linger",
        "_paused",
        "_reader",
        "_server",
        "_stalled",
        "_timer",
        "_transport",
        "_wait",
        "_yielded",
    )

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._reader = RequestReader(server.limits, "")
        self._transport: asyncio.Transport | None = None
        self._answering: Request | None = None  # by a handler that is waiting
        self._held: bytes | memoryview | None = None  # read, not yet parsed
        self._last = False  # nothing follows the answer to what is read already
        # Nothing is parsed while `_gated`: answering, or stalled, or yielded, or closing.
        self._gated = False
        self._stalled = False
        self._yielded = False  # `_catch_up` is on its way
        self._closing = False
        self._paused = False
        self._linger = 0  # bytes still to be thrown away while closing
        # One timer, left alone when the deadline moves back: it looks at `_due` when it fires.
        self._timer: Timer | None = None
        self._fires = _NEVER
        self._due = _NEVER
        self._wait = _REQUEST

    # -- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.opened(self):
            self._transport.abort()
            return
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self._reader.peer = str(peer[0])
        self._await(_REQUEST, self._server.limits.idle_timeout)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        # A handler that is waiting goes on: what was accepted is finished.
        self._leave()

    def data_received(self, data: bytes) -> None:
        if self._gated:
            self._hold(data)
            return
        server = self._server
        if len(data) > server.step:
            self._held = data
            if len(data) > LARGE_READ:
                self._yield()
            else:
                self._go_on()
            return
        reader = self._reader
        reader.feed(data)
        ready = reader.ready
        if ready:
            self._serve(ready.pop(0))
            if ready or reader.phase or reader.stopped:
                self._go_on()
        elif reader.phase or reader.stopped:
            self._go_on()
        elif self._wait == _REQUEST and data.strip(b"\r\n"):
            # The method is not complete: a head all the same. Stray line ends are not.
            self._await(_REST_OF_HEAD, server.limits.head_timeout)

    def eof_received(self) -> bool:
        """The client sends no more; it may still wait for answers to what it sent."""
        transport = self._transport
        if transport is None or self._closing or not self._gated or not transport.can_write_eof():
            return False
        self._last = True
        return True

    def pause_writing(self) -> None:
        self._stalled = self._gated = True
        if not self._closing:
            self._await(_READER, self._server.limits.stall_timeout)

    def resume_writing(self) -> None:
        self._stalled = False
        if self._closing or self._transport is None:
            return
        if self._answering is not None:
            self._wait = _HANDLER
            return
        self._await(_REQUEST, self._server.limits.idle_timeout)
        self._gated = self._yielded
        self._go_on()

    # -- called by the server --------------------------------------------------------------------

    def finish(self) -> None:
        """Close as soon as nothing is being read or answered."""
        self._last = True
        if not self._gated and self._reader.phase == BETWEEN:
            self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- reading ---------------------------------------------------------------------------------

    def _hold(self, data: bytes) -> None:
        """Keep what comes before its turn, and stop reading."""
        transport = self._transport
        if transport is None:
            return
        if self._closing:
            self._linger -= len(data)
            if self._linger < 0:
                transport.abort()
            return
        self._held = bytes(self._held) + data if self._held else data
        self._pause()

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _yield(self) -> None:
        """Leave the rest to the next turn of the loop."""
        self._yielded = self._gated = True
        self._pause()
        self._server.wheel.loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._yielded = False
        if self._transport is None or self._closing or self._stalled or self._answering is not None:
            return
        self._gated = False
        self._go_on()

    def _go_on(self) -> None:
        """Parse and answer what is there as far as possible, then say what is waited for."""
        reader = self._reader
        ready = reader.ready
        share: Share | None = None
        while not self._gated:
            if ready:
                self._serve(ready.pop(0))
            elif reader.refusal is not None:
                self._refuse(*reader.refusal)
                return
            elif reader.rest is not None:  # the offer to upgrade was not taken up
                behind = reader.restart()
                self._held = behind + self._held if self._held else behind
            elif self._held:
                step = self._server.step
                view = memoryview(self._held)
                self._held = view[step:] if len(view) > step else None
                reader.feed(view[:step])
            else:
                self._run_dry(reader.phase)
                return
            if share is None:
                share = Share()
            if share.used_up() and (ready or self._held) and not self._gated:
                self._yield()

    def _run_dry(self, phase: int) -> None:
        """All that was read is answered, but for the beginning of a request."""
        transport = self._transport
        if transport is None:
            return
        if phase == BETWEEN:
            if self._last and self._wait == _REQUEST:
                self._close()
                return
        elif phase == HEAD:
            if self._wait != _REST_OF_HEAD:
                self._await(_REST_OF_HEAD, self._server.limits.head_timeout)
        else:
            if phase == EXPECTED_BODY:
                self._reader.phase = BODY
                transport.write(CONTINUE)
            if self._wait != _REST_OF_BODY:
                self._await(_REST_OF_BODY, self._server.limits.body_timeout)
        if self._paused:
            self._paused = False
            transport.resume_reading()

    # -- answering -------------------------------------------------------------------------------

    def _serve(self, request: Request) -> None:
        """Have one request answered, now or by a task that is waited for."""
        server = self._server
        try:
            answer = begin(server.handler(request))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the client gets an answer
            self._respond(request, server.crashed(exc, request))
            return
        if type(answer) is Response:
            self._respond(request, answer)
        elif isinstance(answer, asyncio.Task):
            self._answering = request
            self._gated = True
            self._wait = _HANDLER
            answer.add_done_callback(self._answered)
        else:
            self._answer(request, answer)

    def _answered(self, task: "asyncio.Task[Response | Upgrade]") -> None:
        request = cast(Request, self._answering)
        self._answering = None
        answer: Response | Upgrade
        if task.cancelled():
            answer = self._server.error_response(503, "the request was given up")
        else:
            exc = task.exception()
            if exc is None:
                answer = task.result()
            elif isinstance(exc, Exception):
                answer = self._server.crashed(exc, request)
            else:
                raise exc
        if self._transport is None:
            return
        self._gated = self._stalled
        self._answer(request, answer)
        if not self._gated:
            self._go_on()

    def _answer(self, request: Request, answer: Response | Upgrade) -> None:
        if type(answer) is Response:
            self._respond(request, answer)
        elif type(answer) is Upgrade and request.upgrade:
            self._upgrade(request, answer)
        else:
            what = type(answer).__name__
            exc = TypeError(f"the handler answered {what} to a request without an upgrade")
            self._respond(request, self._server.crashed(exc, request))

    def _respond(self, request: Request, response: Response) -> None:
        transport = self._transport
        if transport is None:
            return
        server = self._server
        keep_alive = request.keep_alive and not (self._last and not self._reader.ready)
        now = server.now()
        try:
            data = render(
                response, server.date(now), keep_alive, request.http10, request.method == "HEAD"
            )
        except ValueError as exc:
            data = render(server.crashed(exc, request), server.date(now), keep_alive)
        if not self._stalled:
            self._wait = _REQUEST
            self._due = now + server.limits.idle_timeout
        transport.write(data)
        if not keep_alive:
            self._close()

    def _upgrade(self, request: Request, upgrade: Upgrade) -> None:
        """Give the transport away, with what was read behind the head."""
        transport = cast(asyncio.Transport, self._transport)
        try:
            data = render_upgrade(upgrade)
            protocol = upgrade.protocol_factory()
        except Exception as exc:  # noqa: BLE001 - nothing is written yet: it can still be a 500
            self._respond(request, self._server.crashed(exc, request))
            return
        rest = self._reader.rest or b""
        if self._held:
            rest += self._held
        paused = self._paused
        self._leave()
        transport.write(data)
        transport.set_protocol(protocol)
        if paused:
            transport.resume_reading()  # before the new protocol has its say about it
        protocol.connection_made(transport)
        if rest:
            protocol.data_received(rest)

    # -- closing ---------------------------------------------------------------------------------

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what could not be read, and close such that the client can read the answer.

        RFC 9112 section 9.6: closing with unread input resets the connection, and the reset may
        overtake the answer. So only our side is closed, and input is thrown away for a while.
        """
        transport = self._transport
        if transport is None:
            return
        server = self._server
        response = server.error_response(status, reason)
        transport.write(render(response, server.date(server.now()), False))
        self._linger_on(transport)

    def _linger_on(self, transport: asyncio.Transport) -> None:
        self._await(_CLOSE, _LINGER_SECONDS)
        self._closing = self._gated = True
        self._held = None
        self._linger = _LINGER_BYTES
        if transport.can_write_eof():
            transport.write_eof()
        if self._paused:
            self._paused = False
            transport.resume_reading()

    def _close(self) -> None:
        """Close when what was written has gone out."""
        transport = self._transport
        if transport is None or self._closing:
            return
        if self._held:
            self._linger_on(transport)
            return
        self._closing = self._gated = True
        self._reader.ready.clear()
        if transport.get_write_buffer_size():
            self._await(_CLOSE, self._server.limits.stall_timeout)
        transport.close()

    def _leave(self) -> None:
        """The transport is gone, or somebody else's."""
        self._transport = None
        self._gated = True
        self._held = None
        self._reader.ready.clear()
        self._reader.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._server.closed(self)

    # -- the deadline ----------------------------------------------------------------------------

    def _await(self, wait: int, seconds: float) -> None:
        self._wait = wait
        self._due = due = self._server.now() + seconds
        if due < self._fires:
            if self._timer is not None:
                self._timer.cancel()
            self._fires = due
            self._timer = self._server.wheel.after(seconds, self._on_timer)

    def _on_timer(self) -> None:
        server = self._server
        left = self._due - server.now()
        if self._wait == _HANDLER:
            left = server.limits.idle_timeout
        if left > 0:
            self._fires = server.now() + left
            self._timer = server.wheel.after(left, self._on_timer)
            return
        self._timer = None
        self._fires = _NEVER
        if self._wait == _REQUEST:
            self._close()
        elif self._wait == _REST_OF_HEAD:
            self._refuse(408, "the request head took too long")
        elif self._wait == _REST_OF_BODY:
            self._refuse(408, "the request body took too long")
        else:
            self.abort()
