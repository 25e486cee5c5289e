"""A listening socket behind a load balancer that speaks the PROXY protocol.

The header comes before TLS on the same socket. So a connection is accepted here, its header is
taken from the socket and nothing behind it, and only then does the event loop get the socket, for
TLS or without.

Rule: a connection that is not served yet has a deadline for its header, then one for its TLS
handshake, and at most `MAX_WAITING` of them exist: while there are so many, none is accepted.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from autopush.net.client_address import unmapped
from autopush.net.proxy_protocol import ProxyHeader, ProxyHeaderError
from autopush.net.timers import Timer, TimerWheel

HEADER_TIMEOUT: Final = 5.0
"""Seconds in which the whole header must have come."""
HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the TLS handshake behind it."""
MAX_WAITING: Final = 1024
REPORT_INTERVAL: Final = 60.0
"""Seconds between two reports of refused connections."""

_PEEK_SIZE: Final = 4096
_MAX_ACCEPTS: Final = 64
"""Connections accepted in one turn of the loop."""
_ACCEPT_PAUSE: Final = 1.0
"""Seconds without accepting after the system had no file descriptor or memory for a connection."""

ProtocolOfClient = Callable[[str], asyncio.Protocol]
"""Makes the protocol of a connection; its argument is the client's address."""

OnRefused = Callable[[str, str, int], object]


class ProxiedListener:
    """Serves what arrives on `sock` behind a PROXY header, from `start` to `close`.

    `tls`: None for plain text. `on_refused(peer, reason, number)`: connections were closed since
    what they sent is no header, or came too late; `peer` and `reason` are those of the last one,
    `number` how many there were since the report before, `REPORT_INTERVAL` ago or longer.
    """

    __slots__ = (
        "_accepting",
        "_closed",
        "_next_report",
        "_on_refused",
        "_pause",
        "_refused",
        "_sock",
        "_waiting",
        "protocol",
        "tls",
        "wheel",
    )

    def __init__(
        self,
        sock: socket.socket,
        protocol: ProtocolOfClient,
        wheel: TimerWheel,
        *,
        tls: ssl.SSLContext | None,
        on_refused: OnRefused,
    ) -> None:
        self.protocol = protocol
        self.wheel = wheel
        self.tls = tls
        self._sock = sock
        self._on_refused = on_refused
        self._waiting: set[_Arrival] = set()
        self._accepting = False
        self._pause: Timer | None = None
        self._closed = False
        self._refused = 0
        self._next_report = float("-inf")

    @property
    def waiting(self) -> int:
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

    def _stop(self) -> None:
        if self._accepting:
            self._accepting = False
            self.wheel.loop.remove_reader(self._sock)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTS):
            if len(self._waiting) >= MAX_WAITING:
                self._stop()
                return
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._stop()
                self._pause = self.wheel.after(_ACCEPT_PAUSE, self._end_pause)
                context = {"message": "Cannot accept connections for now", "exception": error}
                self.wheel.loop.call_exception_handler(context)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            arrival = _Arrival(self, sock, unmapped(str(address[0])))
            self._waiting.add(arrival)
            arrival.start()

    def _end_pause(self) -> None:
        self._pause = None
        self.start()

    # -- for arrivals ----------------------------------------------------------------------------

    def remove(self, arrival: "_Arrival") -> None:
        """It is served or closed."""
        self._waiting.discard(arrival)
        self.start()

    def count_refused(self, peer: str, reason: str) -> None:
        self._refused += 1
        now = self.wheel.loop.time()
        if now >= self._next_report:
            self._next_report = now + REPORT_INTERVAL
            self._on_refused(peer, reason, self._refused)
            self._refused = 0


class _Arrival:
    """A connection from `accept` until it is served. `peer`: the load balancer's address."""

    __slots__ = ("_header", "_listener", "_peer", "_sock", "_task", "_timer")

    def __init__(self, listener: ProxiedListener, sock: socket.socket, peer: str) -> None:
        self._listener = listener
        self._sock = sock
        self._peer = peer
        self._header = ProxyHeader()
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Receive the header."""
        wheel = self._listener.wheel
        self._timer = wheel.after(HEADER_TIMEOUT, self._refuse, "the header took too long")
        wheel.loop.add_reader(self._sock, self._on_readable)

    def close(self) -> None:
        """Close it, in whatever state it is."""
        if self._task is not None:
            self._task.cancel()  # which closes the transport, and `_on_served` is called
        else:
            self._end_header()
            self._sock.close()
            self._listener.remove(self)

    def _on_readable(self) -> None:
        try:
            data = self._sock.recv(_PEEK_SIZE, socket.MSG_PEEK)
            if not data:  # a load balancer may connect only to see whether the port is open
                self.close()
                return
            self._sock.recv(self._header.feed(data))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        except ProxyHeaderError as error:
            self._refuse(str(error))
            return
        if self._header.is_complete:
            self._end_header()
            self._task = self._listener.wheel.loop.create_task(self._serve())
            self._task.add_done_callback(self._on_served)

    def _refuse(self, reason: str) -> None:
        self.close()
        self._listener.count_refused(self._peer, reason)

    def _end_header(self) -> None:
        self._listener.wheel.loop.remove_reader(self._sock)
        if self._timer is not None:
            self._timer.cancel()

    async def _serve(self) -> None:
        listener = self._listener
        client = self._header.source or self._peer
        timeout = HANDSHAKE_TIMEOUT if listener.tls is not None else None
        await listener.wheel.loop.connect_accepted_socket(
            lambda: listener.protocol(client),
            self._sock,
            ssl=listener.tls,
            ssl_handshake_timeout=timeout,
        )

    def _on_served(self, task: asyncio.Task[None]) -> None:
        self._listener.remove(self)
        if task.cancelled():
            self._sock.close()  # without effect where a transport had it
            return
        error = task.exception()
        if error is not None and not isinstance(error, OSError):  # a failed handshake is the peer's
            context = {"message": "Cannot serve a proxied connection", "exception": error}
            self._listener.wheel.loop.call_exception_handler(context)
