"""A listening socket that accepts connections itself: for TLS, and behind a load balancer that
speaks the PROXY protocol.

The PROXY header comes before TLS on the same socket. So a connection is accepted here, its header
is taken from the socket and nothing behind it, and only then does the event loop get the socket.
What comes from too many connections of one address is closed before its TLS handshake, which costs
a hundred times as much as the rest. (A port without either is the event loop's own: that keeps no
Python socket for each connection.)

Rule: a connection that is not served yet has a deadline for its header, then one for its TLS
handshake, and at most `MAX_WAITING` of them exist. While there are so many, those that have waited
for `MIN_WAIT` give way to new ones, and else none is accepted.
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from autopush.net.client_address import unmapped
from autopush.net.connection_limits import ConnectionLimits, ConnectionRefused
from autopush.net.proxy_protocol import ProxyHeader, ProxyHeaderError
from autopush.net.timers import Timer, TimerWheel

HEADER_TIMEOUT: Final = 5.0
"""Seconds in which the whole header must have come."""
MAX_WAITING: Final = 1024
MIN_WAIT: Final = 1.0
"""Seconds that a connection has for its header and handshake, however many others there are."""
REPORT_INTERVAL: Final = 60.0
"""Seconds between two reports of connections without header, and of failures to accept."""

_PEEK_SIZE: Final = 4096
_MAX_ACCEPTS: Final = 64
"""Connections accepted in one turn of the loop."""
_ACCEPT_PAUSE: Final = 1.0
"""Seconds without accepting after the system had no file descriptor or memory for a connection."""
_RETRY_PAUSE: Final = 0.25
"""Seconds after which it is tried again whether one gives way."""

NewProtocol = Callable[[str, Callable[[], str]], asyncio.Protocol]
"""Makes the protocol of a connection. Its arguments: the client's address; and what returns the key
by which the connection counts, to be called once it is made: from then on the key is the protocol's
to release.
"""

OnRefused = Callable[[str, str, int], object]


class Listener:
    """Serves what arrives on `sock`, from `start` to `close`.

    `tls`: None for plain text. `handshake_timeout`, `shutdown_timeout`: seconds, of TLS. `proxied`:
    a PROXY header comes first. `on_refused(peer, reason, number)`: connections were closed since
    what they sent is no header, or came too late; `peer` and `reason` are those of the last one,
    `number` how many there were since the report before, `REPORT_INTERVAL` ago or longer.
    """

    __slots__ = (
        "_accepting",
        "_closed",
        "_next_failure_report",
        "_next_report",
        "_on_refused",
        "_pause",
        "_refused",
        "_sock",
        "_waiting",
        "handshake_timeout",
        "limits",
        "protocol",
        "proxied",
        "shutdown_timeout",
        "tls",
        "wheel",
    )

    def __init__(
        self,
        sock: socket.socket,
        protocol: NewProtocol,
        wheel: TimerWheel,
        *,
        tls: ssl.SSLContext | None,
        proxied: bool,
        handshake_timeout: float = 10.0,
        shutdown_timeout: float = 5.0,
        limits: ConnectionLimits | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        self.protocol = protocol
        self.wheel = wheel
        self.tls = tls
        self.proxied = proxied
        self.handshake_timeout = handshake_timeout if tls else None
        self.shutdown_timeout = shutdown_timeout if tls else None
        self.limits = limits or ConnectionLimits()
        self.limits.add_server(self)
        self._sock = sock
        self._on_refused = on_refused
        self._waiting: OrderedDict[_Arrival, None] = OrderedDict()
        self._accepting = False
        self._pause: Timer | None = None
        self._closed = False
        self._refused = 0
        self._next_report = self._next_failure_report = float("-inf")

    @property
    def connections(self) -> int:
        """How many connections were accepted and are not served yet."""
        return len(self._waiting)

    def start(self) -> None:
        """Accept connections, unless too many are waiting."""
        has_room = len(self._waiting) < MAX_WAITING
        if has_room and not (self._accepting or self._closed or self._pause):
            self._accepting = True
            self.wheel.loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Close the listening socket, and the connections that are not served yet."""
        self._closed = True
        self._stop()
        if self._pause is not None:
            self._pause.cancel()
        self._sock.close()
        for arrival in list(self._waiting):
            arrival.close()

    def close_idle(self) -> bool:
        """Close the connection that has waited for longest, to make room for a new one; False: none
        has waited for `MIN_WAIT`.
        """
        oldest = next(iter(self._waiting), None)
        if oldest is None or self.wheel.loop.time() - oldest.since < MIN_WAIT:
            return False
        oldest.close()
        return True

    def _stop(self) -> None:
        if self._accepting:
            self._accepting = False
            self.wheel.loop.remove_reader(self._sock)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTS):
            if len(self._waiting) >= MAX_WAITING and not self.close_idle():
                self._pause_for(_RETRY_PAUSE)
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_for(_ACCEPT_PAUSE)
                self._report_failure(error)
                return
            self._take(sock, unmapped(str(address[0])))

    def _take(self, sock: socket.socket, peer: str) -> None:
        try:
            key = self.limits.admit("" if self.proxied else peer)
        except ConnectionRefused:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        arrival = _Arrival(self, sock, peer, key)
        self._waiting[arrival] = None
        arrival.start()

    def _pause_for(self, seconds: float) -> None:
        self._stop()
        self._pause = self.wheel.after(seconds, self._end_pause)

    def _end_pause(self) -> None:
        self._pause = None
        if len(self._waiting) >= MAX_WAITING:
            self.close_idle()
        self.start()

    def _report_failure(self, error: OSError) -> None:
        now = self.wheel.loop.time()
        if now >= self._next_failure_report:
            self._next_failure_report = now + REPORT_INTERVAL
            context = {"message": "Cannot accept connections for now", "exception": error}
            self.wheel.loop.call_exception_handler(context)

    # -- for arrivals ----------------------------------------------------------------------------

    def remove(self, arrival: "_Arrival") -> None:
        """It is served or closed."""
        self._waiting.pop(arrival, None)
        self.start()

    def count_refused(self, peer: str, reason: str) -> None:
        self._refused += 1
        now = self.wheel.loop.time()
        if now >= self._next_report:
            self._next_report = now + REPORT_INTERVAL
            if self._on_refused is not None:
                self._on_refused(peer, reason, self._refused)
            self._refused = 0


class _Arrival:
    """A connection from `accept` until it is served. `peer`: the address of its other end, which is
    the load balancer's if there is one; `counted_as`: its key.
    """

    __slots__ = (
        "_counted_as",
        "_header",
        "_listener",
        "_peer",
        "_sock",
        "_task",
        "_timer",
        "since",
    )

    def __init__(self, listener: Listener, sock: socket.socket, peer: str, counted_as: str) -> None:
        self._listener = listener
        self._sock = sock
        self._peer = peer
        self._counted_as: str | None = counted_as  # None: its protocol has it
        self._header: ProxyHeader | None = ProxyHeader() if listener.proxied else None
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self.since = listener.wheel.loop.time()

    def start(self) -> None:
        """Receive the header, if there is to be one, else begin with TLS."""
        if self._header is None:
            self._begin_serving(self._peer)
            return
        wheel = self._listener.wheel
        self._timer = wheel.after(HEADER_TIMEOUT, self._refuse, "the header took too long")
        wheel.loop.add_reader(self._sock, self._on_readable, self._header)

    def close(self) -> None:
        """Close it, in whatever state it is."""
        if self._task is not None:
            self._task.cancel()  # which closes the transport, and `_on_served` is called
            self._listener.remove(self)
        else:
            self._end_header()
            self._sock.close()
            self._end()

    def _on_readable(self, header: ProxyHeader) -> None:
        try:
            data = self._sock.recv(_PEEK_SIZE, socket.MSG_PEEK)
            if not data:  # a load balancer may connect only to see whether the port is open
                self.close()
                return
            self._sock.recv(header.feed(data))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        except ProxyHeaderError as error:
            self._refuse(str(error))
            return
        if header.is_complete:
            self._end_header()
            client = header.source or ""
            try:
                self._counted_as = self._listener.limits.recount("", client)
            except ConnectionRefused:
                self.close()
                return
            self._begin_serving(client or self._peer)

    def _refuse(self, reason: str) -> None:
        self.close()
        self._listener.count_refused(self._peer, reason)

    def _end_header(self) -> None:
        self._listener.wheel.loop.remove_reader(self._sock)
        if self._timer is not None:
            self._timer.cancel()

    def _begin_serving(self, client: str) -> None:
        self._task = self._listener.wheel.loop.create_task(self._serve(client))
        self._task.add_done_callback(self._on_served)

    async def _serve(self, client: str) -> None:
        listener = self._listener
        await listener.wheel.loop.connect_accepted_socket(
            lambda: listener.protocol(client, self._hand_over),
            self._sock,
            ssl=listener.tls,
            ssl_handshake_timeout=listener.handshake_timeout,
            ssl_shutdown_timeout=listener.shutdown_timeout,
        )

    def _hand_over(self) -> str:
        key, self._counted_as = self._counted_as or "", None
        return key

    def _on_served(self, task: asyncio.Task[None]) -> None:
        self._end()
        if task.cancelled():
            self._sock.close()  # without effect where a transport had it
            return
        error = task.exception()
        if error is not None and not isinstance(error, OSError):  # a failed handshake is the peer's
            context = {"message": "Cannot serve an accepted connection", "exception": error}
            self._listener.wheel.loop.call_exception_handler(context)

    def _end(self) -> None:
        """It is served, or closed."""
        if self._counted_as is not None:
            self._listener.limits.release(self._counted_as)
            self._counted_as = None
        self._listener.remove(self)
