"""An HTTP/1.1 server: `HttpServer` and the asyncio protocol of its connections.

Rule: nothing is parsed while an answer is outstanding or the time slice (`Budget`) is used up.
Meanwhile input stays in one buffer of at most one read, then in the kernel, so no client makes a
queue grow or the others wait.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from types import CoroutineType
from typing import Final, cast

from autopush.net.client_limits import (
    TOO_MUCH,
    BufferedBytes,
    ConnectionLimits,
    ConnectionRefused,
    TrustedProxies,
    unmapped,
)
from autopush.net.http_messages import (
    CONTINUE,
    Answer,
    Handler,
    Limits,
    Request,
    Response,
    Upgrade,
    date_line,
    render_response,
    render_upgrade,
)
from autopush.net.http_parser import AWAITING_CONTINUE, BODY, HEAD, IDLE, RequestParser, slice_size
from autopush.net.sliced_input import LINGER_SECONDS, SOCKET_PAUSED, YIELDED, SlicedInput
from autopush.net.timers import LARGE_READ, Budget, Deadline, TimerWheel

# Purposes of a connection's deadline. A handler has its own timeouts, so none applies then.
_FOR_REQUEST, _FOR_HEAD, _FOR_BODY, _FOR_HANDLER, _FOR_WRITING, _FOR_CLOSE = range(6)

_LINGER_BYTES: Final = 1 << 20

MIN_IDLE: Final = 1.0
"""Seconds that a connection must be idle before it is closed for a new one."""
_MAX_EXAMINED: Final = 16
"""Connections examined to find an idle one."""


@dataclass(eq=False)
class HttpServer:
    """Serves `handler` on every connection whose protocol comes from `protocol`.

    A returned answer is sent at once; a coroutine becomes a task. (A task costs 2 to 3 µs and a
    turn of the loop, a tenth of the rest of a request; an eager task of Python 3.12 still 1 µs.) An
    exception of either goes to `on_crash`, which makes the response.

    `error_response(status, reason)` makes the server's own answers; `reason` is a few words.
    `proxies` determine `Request.client_address`. `connection_limits` and `buffered` are shared with
    other servers of the worker; `max_connections` returns the current limit of this server alone,
    without upgraded connections. `clock` (seconds since the epoch) is for the Date header.
    """

    handler: Handler
    _: KW_ONLY
    limits: Limits
    wheel: TimerWheel
    error_response: Callable[[int, str], Response]
    on_crash: Callable[[Exception, Request], Response]
    proxies: TrustedProxies | None = None
    connection_limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    buffered: BufferedBytes = field(default_factory=BufferedBytes)
    max_connections: Callable[[], int] | None = None
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self.connection_limits.add_server(self)
        self.slice_size = slice_size(self.limits)
        self.now = self.wheel.loop.time
        self._refusals: dict[str, Response] = {}
        self._date = ""
        self._date_until = float("-inf")
        self._connections: OrderedDict[HttpConnection, None] = OrderedDict()
        self.is_draining = False
        self.is_shutting_down = False
        self._drained: asyncio.Event | None = None

    def protocol(
        self, peer: str = "", take_key: Callable[[], str] | None = None
    ) -> "HttpConnection":
        """The protocol of one new connection; for `loop.create_server`.

        `peer`: the client's address if it is not the socket's. `take_key`: returns the connection's
        key if `connection_limits` counts it already.
        """
        return HttpConnection(self, peer, take_key)

    @property
    def connections(self) -> int:
        """Open connections, without upgraded ones."""
        return len(self._connections)

    async def shutdown(self, timeout: float) -> None:  # noqa: ASYNC109 - part of the contract
        """Close idle connections, let requests finish, abort the rest after `timeout` seconds.

        The owner of the listening sockets closes them before.
        """
        self.is_shutting_down = True
        for connection in list(self._connections):
            connection.close_when_idle()
        await self._finished(timeout)
        for connection in list(self._connections):
            connection.abort()

    async def drain(self, timeout: float) -> None:  # noqa: ASYNC109 - as `shutdown`
        """Serve each connection until its next answer, at most `timeout` seconds: another process
        accepts new ones, and an idle client may be about to send a request.
        """
        self.is_draining = True
        for connection in self._connections:
            connection.close_after_answer()
        await self._finished(timeout)

    async def _finished(self, seconds: float) -> None:
        """Wait up to `seconds` until no connection is open."""
        if self._connections:
            self._drained = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), seconds)

    def close_idle(self) -> bool:
        """Close an idle connection; False if none was found."""
        connections = self._connections
        now = self.now()
        # Those first that were accepted, or examined, longest ago.
        for _ in range(min(_MAX_EXAMINED, len(connections))):
            connection = next(iter(connections))
            if connection.idle_for(now) >= MIN_IDLE:
                del connections[connection]
                connection.abort()
                return True
            connections.move_to_end(connection)
        return False

    # -- for connections -------------------------------------------------------------------------

    def add(self, connection: "HttpConnection") -> bool:
        """Add a connection; False if there are too many."""
        if self.max_connections is not None:
            full = len(self._connections) >= self.max_connections()
            if full and not self.close_idle():
                return False
        self._connections[connection] = None
        return True

    def remove(self, connection: "HttpConnection") -> None:
        self._connections.pop(connection, None)
        if self._drained is not None and not self._connections:
            self._drained.set()

    def refusal(self, status: int, reason: str) -> Response:
        """The response to a refused connection; cached by its reason."""
        response = self._refusals.get(reason)
        if response is None:
            response = self._refusals[reason] = self.error_response(status, reason)
        return response

    def date(self, now: float) -> str:
        """The Date line for `now` (loop time); rendered once a second."""
        if now >= self._date_until:
            seconds = self.clock()
            self._date = date_line(seconds)
            self._date_until = now + 1.0 - seconds % 1.0
        return self._date


class HttpConnection(SlicedInput):
    """The protocol of one client: parse, call the handler, answer in order."""

    __slots__ = (
        "_blocked",
        "_buffer",
        "_closing",
        "_counted_as",
        "_deadline",
        "_held",
        "_last",
        "_linger_bytes",
        "_parser",
        "_purpose",
        "_request",
        "_server",
        "_take_key",
        "_transport",
        "_writing_paused",
    )

    def __init__(self, server: HttpServer, peer: str, take_key: Callable[[], str] | None) -> None:
        super().__init__()
        self._server = server
        self._take_key = take_key
        self._counted_as: str | None = None  # None: not counted (yet)
        self._held = 0  # incomplete bytes, as counted in `server.buffered`
        self._parser = RequestParser(server.limits, peer, server.proxies)
        self._transport: asyncio.Transport | None = None
        self._request: Request | None = None  # its handler is suspended
        self._buffer: bytes | memoryview | None = None  # read, not yet parsed
        self._last = server.is_draining  # nothing follows the answer to what was read so far
        # Nothing is parsed while `_blocked`: a handler is suspended, the client does not read its
        # answers, the time slice was used up, or the connection is closing.
        self._blocked = False
        self._writing_paused = False
        self._closing = False
        self._linger_bytes = 0  # input still to be dropped in a lingering close
        self._deadline = Deadline(server.wheel, self._on_deadline)
        self._purpose = _FOR_REQUEST

    # -- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        server, parser = self._server, self._parser
        if self._take_key is not None:
            self._counted_as = self._take_key()
            self._take_key = None
        if server.is_shutting_down:
            self._transport.abort()
            return
        has_room = server.add(self)
        if not parser.peer:
            peer = transport.get_extra_info("peername")
            if isinstance(peer, tuple):
                parser.peer = unmapped(str(peer[0]))
        try:
            if not has_room:
                raise server.connection_limits.refusal("connections", parser.peer)
            if self._counted_as is None:
                self._counted_as = server.connection_limits.count(parser.peer)
        except ConnectionRefused as refusal:
            self._refuse(refusal)
            return
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            parser.certificate = tls.getpeercert(True) or b""
        self._wait(_FOR_REQUEST, server.limits.idle_timeout)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        # A suspended handler runs to its end: what was accepted is finished.
        self._detach()

    def data_received(self, data: bytes) -> None:
        if self._blocked:
            self._keep(data)
            return
        server = self._server
        if len(data) > server.slice_size:
            self._buffer = data
            if len(data) > LARGE_READ and self._transport is not None:
                self._yield_to_loop(self._transport)
            else:
                self._process_buffer()
            return
        parser = self._parser
        parser.feed(data)
        ready = parser.ready
        if ready:
            if self._held:
                self._hold(0)
            self._handle(ready.pop(0))
            if (ready or parser.phase or parser.stopped) and not self._blocked:
                self._process_buffer()
        elif parser.phase or parser.stopped:
            self._process_buffer()
        elif self._purpose == _FOR_REQUEST and data.strip(b"\r\n"):
            # The method is not complete: a head has begun. Empty lines before it do not count.
            self._wait(_FOR_HEAD, server.limits.head_timeout)

    def eof_received(self) -> bool:
        """The client sends no more; it may still wait for answers."""
        transport = self._transport
        if transport is None or self._closing or not self._blocked or not transport.can_write_eof():
            return False
        self._last = True
        return True

    def pause_writing(self) -> None:
        self._writing_paused = self._blocked = True
        if not self._closing:
            self._wait(_FOR_WRITING, self._server.limits.stall_timeout)

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._closing or self._transport is None:
            return
        if self._request is not None:
            self._purpose = _FOR_HANDLER
            return
        self._wait(_FOR_REQUEST, self._server.limits.idle_timeout)
        self._blocked = bool(self._state & YIELDED)
        self._process_buffer()

    # -- called by the server --------------------------------------------------------------------

    def close_after_answer(self) -> None:
        self._last = True

    def close_when_idle(self) -> None:
        """Close as soon as no request is being read or answered."""
        self._last = True
        if not self._blocked and self._parser.phase == IDLE:
            self._close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def idle_for(self, now: float) -> float:
        """Seconds spent waiting for a request or its rest; 0 while waiting for neither."""
        limits = self._server.limits
        timeouts = {
            _FOR_REQUEST: limits.idle_timeout,
            _FOR_HEAD: limits.head_timeout,
            _FOR_BODY: limits.body_timeout,
        }
        seconds = timeouts.get(self._purpose)
        return 0.0 if seconds is None else now - (self._deadline.due - seconds)

    # -- called by the buffered bytes ------------------------------------------------------------

    def give_up(self) -> None:
        """Answer 503 and close."""
        self._held = 0
        if self._blocked:  # an earlier answer is outstanding
            self.abort()
        else:
            self._reject(503, TOO_MUCH)

    # -- reading ---------------------------------------------------------------------------------

    def _keep(self, data: bytes) -> None:
        """Buffer what was read while blocked, and stop reading."""
        transport = cast(asyncio.Transport, self._transport)
        if self._closing:
            self._linger_bytes -= len(data)
            if self._linger_bytes < 0:
                transport.abort()
            return
        self._buffer = bytes(self._buffer) + data if self._buffer else data
        self._pause_socket(transport)
        self._hold(len(self._buffer))

    def _hold(self, size: int) -> None:
        self._held = size
        self._server.buffered.hold(self, size)

    def _yield_to_loop(self, transport: asyncio.Transport) -> None:
        self._blocked = True
        self._pause_socket(transport)
        self._yield_to(self._server.wheel.loop)

    def _on_next_turn(self) -> None:
        self._state &= ~YIELDED
        if (
            self._transport is None
            or self._closing
            or self._writing_paused
            or self._request is not None
        ):
            return
        self._blocked = False
        self._process_buffer()

    def _process_buffer(self) -> None:
        """Parse and answer the input as far as possible, then set the deadline."""
        parser = self._parser
        ready = parser.ready
        budget: Budget | None = None
        while not self._blocked:
            if ready:
                self._handle(ready.pop(0))
            elif parser.error is not None:
                self._reject(*parser.error)
                return
            elif parser.unparsed is not None:  # the handler declined the upgrade
                data = parser.decline_upgrade()
                self._buffer = data + self._buffer if self._buffer else data
            elif self._buffer:
                size = self._server.slice_size
                view = memoryview(self._buffer)
                self._buffer = view[size:] if len(view) > size else None
                parser.feed(view[:size])
            else:
                self._on_buffer_empty(parser.phase)
                return
            if budget is None:
                budget = Budget(self._server.wheel.clock)
            has_more = ready or self._buffer
            if budget.spend() and has_more and not self._blocked and self._transport:
                self._yield_to_loop(self._transport)

    def _on_buffer_empty(self, phase: int) -> None:
        """All input is answered, except for an incomplete request."""
        transport = self._transport
        assert transport is not None
        if phase == IDLE:
            if self._held:
                self._hold(0)
            if self._last and self._purpose == _FOR_REQUEST:
                self._close()
                return
            self._resume_socket(transport)
            return
        self._hold(self._parser.held)
        if self._closing:  # it was given up
            return
        if phase == HEAD:
            if self._purpose != _FOR_HEAD:
                self._wait(_FOR_HEAD, self._server.limits.head_timeout)
        else:
            if phase == AWAITING_CONTINUE:
                self._parser.phase = BODY
                transport.write(CONTINUE)
            if self._purpose != _FOR_BODY:
                self._wait(_FOR_BODY, self._server.limits.body_timeout)
        self._resume_socket(transport)

    # -- answering -------------------------------------------------------------------------------

    def _handle(self, request: Request) -> None:
        server = self._server
        try:
            answer = server.handler(request)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the client gets an answer
            self._respond(request, server.on_crash(exc, request))
            return
        if isinstance(answer, CoroutineType):
            self._request = request
            self._blocked = True
            self._purpose = _FOR_HANDLER
            task = asyncio.get_running_loop().create_task(answer)
            task.add_done_callback(self._on_handler_done)
        else:
            self._answer(request, answer)

    def _on_handler_done(self, task: asyncio.Task[Answer]) -> None:
        request = cast(Request, self._request)
        self._request = None
        answer: Answer
        if task.cancelled():
            answer = self._server.error_response(503, "the request was cancelled")
        else:
            exc = task.exception()
            if exc is None:
                answer = task.result()
            elif isinstance(exc, Exception):
                answer = self._server.on_crash(exc, request)
            else:
                raise exc
        if self._transport is None:
            return
        self._blocked = self._writing_paused
        self._answer(request, answer)
        if self._blocked:
            return
        parser = self._parser
        has_more = self._buffer or parser.ready or parser.phase or parser.stopped
        if has_more or self._state & SOCKET_PAUSED:
            self._process_buffer()

    def _answer(self, request: Request, answer: object) -> None:
        if type(answer) is Response:
            self._respond(request, answer)
        elif type(answer) is Upgrade and (request.upgrade or answer.status != 101):
            self._upgrade(request, answer)
        else:
            kind = type(answer).__name__
            exc = TypeError(f"the handler answered {kind} to a request without an upgrade")
            self._respond(request, self._server.on_crash(exc, request))

    def _respond(self, request: Request, response: Response) -> None:
        transport, server = self._transport, self._server
        assert transport is not None
        keep_alive = request.keep_alive and not (self._last and not self._parser.ready)
        now = server.now()
        try:
            data = render_response(
                response, server.date(now), keep_alive, request.http10, request.method == "HEAD"
            )
        except ValueError as exc:
            data = render_response(server.on_crash(exc, request), server.date(now), keep_alive)
        if not self._writing_paused:
            self._purpose = _FOR_REQUEST
            self._deadline.due = now + server.limits.idle_timeout
        transport.write(data)
        if not keep_alive:
            self._close()

    def _upgrade(self, request: Request, upgrade: Upgrade) -> None:
        """Hand the transport to the new protocol, with what was read after the head."""
        transport = cast(asyncio.Transport, self._transport)
        server = self._server
        counted_as = self._counted_as or ""
        try:
            data = render_upgrade(upgrade)
            # A trusted proxy's connection carries many clients' requests, a WebSocket only one's.
            if request.client_address != request.peer:
                counted_as = server.connection_limits.recount(counted_as, request.client_address)
                self._counted_as = counted_as
            protocol = upgrade.protocol_factory(counted_as)
        except ConnectionRefused as refusal:
            self._respond(request, server.error_response(refusal.status, refusal.reason))
            return
        except Exception as exc:  # noqa: BLE001 - nothing is written yet: it can still be a 500
            self._respond(request, server.on_crash(exc, request))
            return
        unparsed = self._parser.unparsed or b""
        if self._buffer:
            unparsed += self._buffer
        self._counted_as = None  # the new protocol releases it
        self._detach()
        transport.write(data)
        transport.set_protocol(protocol)
        self._resume_socket(transport)  # first, as the new protocol may pause it
        protocol.connection_made(transport)
        if unparsed:
            protocol.data_received(unparsed)

    # -- closing ---------------------------------------------------------------------------------

    def _refuse(self, refusal: ConnectionRefused) -> None:
        """Answer and close without reading: a request in flight may reset the connection and lose
        the answer, but a refused connection is not kept open for that.
        """
        transport = self._write_last(self._server.refusal(refusal.status, refusal.reason))
        self._closing = self._blocked = True
        transport.close()
        self._server.remove(self)

    def _reject(self, status: int, reason: str) -> None:
        """Send an error and close such that the client can read it."""
        self._lingering_close(self._write_last(self._server.error_response(status, reason)))

    def _write_last(self, response: Response) -> asyncio.Transport:
        transport, server = cast(asyncio.Transport, self._transport), self._server
        transport.write(render_response(response, server.date(server.now()), False))
        return transport

    def _lingering_close(self, transport: asyncio.Transport) -> None:
        """Close only our side, and drop input for a while."""
        self._wait(_FOR_CLOSE, LINGER_SECONDS)
        self._closing = self._blocked = True
        self._buffer = None
        self._parser.close()  # many may linger at once, so they hold nothing
        if self._held:
            self._hold(0)
        self._linger_bytes = _LINGER_BYTES
        self._end_output(transport)

    def _close(self) -> None:
        if self._closing:
            return
        transport = cast(asyncio.Transport, self._transport)
        if self._buffer:
            self._lingering_close(transport)
            return
        self._closing = self._blocked = True
        self._parser.ready.clear()
        if transport.get_write_buffer_size():
            self._wait(_FOR_CLOSE, self._server.limits.stall_timeout)
        transport.close()

    def _detach(self) -> None:
        """The transport is lost, or has another protocol."""
        self._transport = None
        self._blocked = True
        self._buffer = None
        if self._held:
            self._hold(0)
        self._server.remove(self)
        self._parser.close()
        if self._counted_as is not None:
            self._server.connection_limits.release(self._counted_as)
            self._counted_as = None
        self._deadline.close()

    # -- the deadline ----------------------------------------------------------------------------

    def _wait(self, purpose: int, seconds: float) -> None:
        self._purpose = purpose
        self._deadline.set(seconds)

    def _on_deadline(self) -> None:
        purpose = self._purpose
        if purpose == _FOR_HANDLER:
            self._deadline.set(self._server.limits.idle_timeout)
        elif purpose == _FOR_REQUEST:
            self._close()
        elif purpose == _FOR_HEAD:
            self._reject(408, "the request head took too long")
        elif purpose == _FOR_BODY:
            self._reject(408, "the request body took too long")
        else:
            self.abort()
