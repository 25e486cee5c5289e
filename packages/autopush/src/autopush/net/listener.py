"""A listening socket that accepts connections itself: for TLS, and for the PROXY protocol of a load
balancer.

The PROXY header precedes TLS on the same socket, so exactly the header is read here before the
event loop gets the socket. Connections above the limit of their address are closed before the TLS
handshake, which costs a hundred times as much as the rest. (A port with neither is left to the
event loop, which keeps no Python socket per connection.)

Rule: a pending connection has a deadline for its header, then one for its TLS handshake, and there
are at most `MAX_WAITING`. At that number, those older than `MIN_WAIT` are closed for new ones; if
there is none, nothing is accepted.
"""

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, Protocol

from autopush.net.client_limits import ConnectionLimits, ConnectionRefused, unmapped
from autopush.net.timers import Timer, TimerWheel

HEADER_TIMEOUT: Final = 5.0
"""Seconds for the whole header."""
MAX_WAITING: Final = 1024
MIN_WAIT: Final = 1.0
"""Seconds that a connection surely has for its header and handshake."""
REPORT_INTERVAL: Final = 60.0
"""Seconds between two reports of failures to accept."""

_PEEK_SIZE: Final = 4096
_TLS_TEXT: Final = b"This port speaks TLS: use https:// or wss://\n"
_TLS_REQUIRED: Final = (
    b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_TLS_TEXT), _TLS_TEXT)
)
_MAX_ACCEPTS: Final = 64
"""Connections accepted in one turn of the loop."""
_ACCEPT_PAUSE: Final = 1.0
"""Seconds without accepting after the system ran out of file descriptors or memory."""
_RETRY_PAUSE: Final = 0.25
"""Seconds until the next attempt to make room."""

NewProtocol = Callable[[str, Callable[[], str]], asyncio.Protocol]
"""Makes a connection's protocol from the client's address and a function that hands over the key by
which the connection counts. The protocol calls it once connected, and must release the key.
"""


@dataclass(eq=False)
class Listener:
    """Serves what arrives on `sock`, from `start` to `close`.

    `tls`: None for plain text; its timeouts are in seconds. `proxied`: a PROXY header comes first.
    `on_refused(peer, reason)`: a connection was closed for an invalid or late header.
    """

    sock: socket.socket
    protocol: NewProtocol
    wheel: TimerWheel
    _: KW_ONLY
    tls: ssl.SSLContext | None
    proxied: bool
    handshake_timeout: float = 10.0
    shutdown_timeout: float = 5.0
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    on_refused: Callable[[str, str], object] = lambda _peer, _reason: None

    def __post_init__(self) -> None:
        self.limits.add_server(self)
        self._waiting: OrderedDict[_PendingConnection, None] = OrderedDict()
        self._accepting = False
        self._pause: Timer | None = None
        self._closed = False
        self._next_failure_report = float("-inf")

    @property
    def connections(self) -> int:
        """Accepted connections that are not served yet."""
        return len(self._waiting)

    def start(self) -> None:
        """Accept connections, unless too many are waiting."""
        has_room = len(self._waiting) < MAX_WAITING
        if has_room and not (self._accepting or self._closed or self._pause):
            self._accepting = True
            self.wheel.loop.add_reader(self.sock, self._accept)

    def stop_accepting(self) -> None:
        """Close the listening socket; go on with the connections that are not served yet."""
        self._closed = True
        self._stop()
        if self._pause is not None:
            self._pause.cancel()
        self.sock.close()

    def close(self) -> None:
        """Close the listening socket, and the connections that are not served yet."""
        self.stop_accepting()
        for connection in list(self._waiting):
            connection.close()

    def close_idle(self) -> bool:
        """Close the oldest pending connection if it is older than `MIN_WAIT`; else return False."""
        oldest = next(iter(self._waiting), None)
        if oldest is None or self.wheel.loop.time() - oldest.since < MIN_WAIT:
            return False
        oldest.close()
        return True

    def _stop(self) -> None:
        if self._accepting:
            self._accepting = False
            self.wheel.loop.remove_reader(self.sock)

    def _accept(self) -> None:
        for _ in range(_MAX_ACCEPTS):
            if len(self._waiting) >= MAX_WAITING and not self.close_idle():
                self._pause_for(_RETRY_PAUSE)
                return
            try:
                sock, address = self.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_for(_ACCEPT_PAUSE)
                self._report_failure(error)
                return
            self._take(sock, unmapped(str(address[0])))

    def _take(self, sock: socket.socket, peer: str) -> None:
        try:
            key = self.limits.count("" if self.proxied else peer)
        except ConnectionRefused:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waiting[_PendingConnection(self, sock, peer, key)] = None

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

    # -- for pending connections -----------------------------------------------------------------

    def remove(self, connection: "_PendingConnection") -> None:
        self._waiting.pop(connection, None)
        self.start()


class _PendingConnection:
    """A connection from `accept` until it is served. `peer`: the other end's address, perhaps the
    load balancer's; `counted_as`: its key.
    """

    def __init__(self, listener: Listener, sock: socket.socket, peer: str, counted_as: str) -> None:
        self._listener = listener
        self._sock = sock
        self._peer = peer
        self._counted_as: str | None = counted_as  # None: its protocol has it
        self._loop = listener.wheel.loop
        self.since = self._loop.time()
        self._task = self._loop.create_task(self._serve())
        self._task.add_done_callback(self._on_done)

    def close(self) -> None:
        self._task.cancel()  # then `_on_done` is called
        self._end()

    async def _serve(self) -> None:
        listener, client = self._listener, self._peer
        if listener.proxied:
            source = await self._receive_header()
            self._counted_as = listener.limits.recount("", source)
            client = source or client
        if listener.tls is not None and not await self._begins_with_tls():
            return
        await self._loop.connect_accepted_socket(
            lambda: listener.protocol(client, self._hand_over),
            self._sock,
            ssl=listener.tls,
            ssl_handshake_timeout=listener.handshake_timeout if listener.tls else None,
            ssl_shutdown_timeout=listener.shutdown_timeout if listener.tls else None,
        )

    async def _receive_header(self) -> str:
        """Take exactly the PROXY header from the socket; return its address.

        :raises ProxyHeaderError: there is none, or it came too late
        """
        received = b""
        try:
            async with asyncio.timeout(HEADER_TIMEOUT):
                while True:
                    await self._readable()
                    try:
                        data = self._sock.recv(_PEEK_SIZE, socket.MSG_PEEK)
                    except BlockingIOError:
                        continue
                    if not data:  # perhaps a load balancer's health check
                        raise ConnectionAbortedError
                    header = parse_proxy_header(received + data)
                    if header is not None:
                        size, source = header
                        self._sock.recv(size - len(received))
                        return source
                    received += self._sock.recv(len(data))
        except TimeoutError:
            raise ProxyHeaderError("the header took too long") from None

    async def _begins_with_tls(self) -> bool:
        """Whether the client speaks TLS; one that sends plain HTTP is told so, and closed."""
        async with asyncio.timeout(self._listener.handshake_timeout):
            await self._readable()
        with suppress(BlockingIOError):  # nothing came after all, and the handshake waits for it
            if (start := self._sock.recv(_PEEK_SIZE, socket.MSG_PEEK))[:1].isalpha():
                self._sock.recv(len(start))  # with input unread, a close would take the answer back
                self._sock.send(_TLS_REQUIRED)
                self._sock.close()
                return False
        return True

    async def _readable(self) -> None:
        event = asyncio.Event()
        self._loop.add_reader(self._sock, event.set)
        try:
            await event.wait()
        finally:
            self._loop.remove_reader(self._sock)

    def _hand_over(self) -> str:
        key, self._counted_as = self._counted_as or "", None
        return key

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._end()
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._sock.close()  # no effect if a transport had it
        if isinstance(error, ProxyHeaderError):
            self._listener.on_refused(self._peer, str(error))
        elif error is not None and not isinstance(error, OSError | ConnectionRefused):
            context = {"message": "Cannot serve an accepted connection", "exception": error}
            self._loop.call_exception_handler(context)

    def _end(self) -> None:
        if self._counted_as is not None:
            self._listener.limits.release(self._counted_as)
            self._counted_as = None
        self._listener.remove(self)


# ── The header of the PROXY protocol, versions 1 and 2 ────────────────────────────────────────────
# Source: the PROXY protocol specification of HAProxy, sections 2.1 and 2.2.

MAX_LINE: Final = 107
"""Bytes of a version 1 header, with its line end."""
MAX_HEADER: Final = 4096
"""Bytes of a version 2 header; known ones need less than 1000, with all TLVs."""

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_LINE_START: Final = b"PROXY "
_FIXED_SIZE: Final = 16
"""Bytes of version 2 before the addresses: signature, command, family, length of the rest."""

_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED, _TCP4, _TCP6, _UNIX_STREAM = 0x00, 0x11, 0x21, 0x31
_ADDRESS_SIZES: Final = {_UNSPECIFIED: 0, _TCP4: 12, _TCP6: 36, _UNIX_STREAM: 216}


class ProxyHeaderError(Exception):
    """Not a header of the PROXY protocol; the text says why and quotes nothing of it."""


def parse_proxy_header(received: bytes) -> tuple[int, str] | None:
    """The size of the header at the start of `received`, and the client's address in it; None if
    incomplete.

    The address is empty if the header names none (the proxy's own connection, or a Unix socket):
    the client is then the TCP peer.

    :raises ProxyHeaderError: this is not the beginning of a header
    """
    end = _end(received)
    source = _source_of_line if received.startswith(_LINE_START) else _source_of_binary
    return None if end is None else (end, source(received[:end]))


def _end(received: bytes) -> int | None:
    """The size of the header; None while incomplete."""
    if _SIGNATURE.startswith(received[: len(_SIGNATURE)]):
        if len(received) < _FIXED_SIZE:
            return None
        end = _FIXED_SIZE + int.from_bytes(received[14:_FIXED_SIZE])
        if end > MAX_HEADER:
            raise ProxyHeaderError(f"the header is longer than {MAX_HEADER} bytes")
        return end if len(received) >= end else None
    if not _LINE_START.startswith(received[: len(_LINE_START)]):
        raise ProxyHeaderError("the connection does not begin with a PROXY header")
    end = received.find(b"\r\n", 0, MAX_LINE)
    if end >= 0:
        return end + 2
    if len(received) >= MAX_LINE:
        raise ProxyHeaderError(f"the header line is longer than {MAX_LINE} bytes")
    return None


def _source_of_line(line: bytes) -> str:
    match line.removesuffix(b"\r\n").split(b" "):
        case [_, b"UNKNOWN", *_]:
            return ""
        case [_, b"TCP4", *addresses] if len(addresses) == 4:
            family: type[IPv4Address | IPv6Address] = IPv4Address
        case [_, b"TCP6", *addresses] if len(addresses) == 4:
            family = IPv6Address
        case _:
            raise ProxyHeaderError("the header line is malformed")
    source, destination, *ports = addresses
    if not all(map(_is_port, ports)):
        raise ProxyHeaderError("the header line has an invalid port")
    try:
        family(destination.decode("ascii"))
        return _text(family(source.decode("ascii")))
    except (AddressValueError, UnicodeDecodeError):
        raise ProxyHeaderError("the header line has an invalid address") from None


def _is_port(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 5 and int(text) <= 65535


def _source_of_binary(header: bytes) -> str:
    command, family = header[12], header[13]
    if command == _LOCAL:  # the proxy's own connection; the rest has no meaning
        return ""
    if command != _PROXY:
        raise ProxyHeaderError("the header has an unknown version or command")
    size = _ADDRESS_SIZES.get(family)
    if size is None:
        raise ProxyHeaderError("the header has an unknown address family or is not of TCP")
    addresses = header[_FIXED_SIZE:]
    if len(addresses) < size:
        raise ProxyHeaderError("the header is too short for its addresses")
    if family == _TCP4:
        return str(IPv4Address(addresses[:4]))
    return _text(IPv6Address(addresses[:16])) if family == _TCP6 else ""


def _text(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ProxyHeaderError("the header line has an invalid address")
        # A balancer with a dual-stack socket sends IPv4 addresses in this form.
        return str(address.ipv4_mapped or address)
    return str(address)


# ── Options of sockets ────────────────────────────────────────────────────────────────────────────


class HasSocketOptions(Protocol):
    """A socket, or what a transport's `get_extra_info("socket")` returns."""

    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...


def limit_send_buffer(sock: HasSocketOptions, size: int) -> None:
    """Limit the unsent data that the kernel keeps to about `size` bytes, instead of
    `net.ipv4.tcp_wmem` (up to 4 MiB by default). Accepted sockets inherit it.

    Linux counts twice the size, part of it for its own bookkeeping.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 300),  # seconds of silence until the first probe
    ("TCP_KEEPINTVL", 60),  # seconds from one to the next
    ("TCP_KEEPCNT", 4),  # so many without an answer end the connection
    ("TCP_USER_TIMEOUT", 60_000),  # as do so many ms without an acknowledgement of sent data
)


def enable_keepalive(sock: HasSocketOptions) -> None:
    """Let the kernel probe idle connections and drop those whose peer is gone.

    It costs the process no timer and no write. On Linux, accepted sockets inherit these options
    from the listening one. Options that the platform does not know are skipped.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
