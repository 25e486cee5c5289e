"""The ports of one worker: HTTP servers on the sockets that were bound before it started."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

from autopush.api.browsers import for_own_names
from autopush.limits import LimitRefusals
from autopush.net.client_limits import BufferedBytes, ConnectionLimits, TrustedProxies
from autopush.net.http_messages import NO_HEADERS, Handler, HeaderBlock, Limits, Request, Response
from autopush.net.http_parser import OTHER_PROTOCOL
from autopush.net.http_server import HttpServer
from autopush.net.listener import Listener
from autopush.net.timers import TimerWheel
from autopush.service.certificates import Certificates
from autopush.service.listeners import (
    BACKLOG,
    PUBLIC,
    Sockets,
    close,
    internal_connections_allowed,
    is_shared,
    port_of,
)
from autopush.settings import Settings
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter

MISLED_INTERVAL: Final = 60.0
"""Seconds between two log lines about clients that speak another protocol than the port."""
MAX_CONSOLE: Final = 256
"""Connections to a port of the console alone: whoever reaches it takes none from other nodes."""
TLS_SHUTDOWN_TIMEOUT: Final = 5.0
"""Seconds a client has to answer a TLS close_notify before TCP is closed."""

_log = logs.get(__name__)


@dataclass(eq=False)
class Ports:
    """`next_sockets`: of the next worker, from whose public ports this one accepts too, so that
    clients whom the kernel has given to a worker that stands still have another. A purpose is one
    of `Settings.listeners`.
    """

    settings: Settings
    certificates: Certificates
    sockets: Sockets
    next_sockets: Sockets
    wheel: TimerWheel
    proxies: TrustedProxies
    refusals: LimitRefusals
    limits: ConnectionLimits
    buffered: BufferedBytes
    _: KW_ONLY
    error_response: Callable[[int, str], Response]
    on_crash: Callable[[Exception, Request], Response]

    def __post_init__(self) -> None:
        if self.next_sockets is self.sockets:
            self.next_sockets = {}
        self._internal_limits, self._console_limits = (
            ConnectionLimits(
                max_connections=most,
                on_refused=lambda _, address: self.refusals.add("internal_connections", address),
            )
            for most in (internal_connections_allowed(), MAX_CONSOLE)
        )
        self._servers: list[tuple[HttpServer, str]] = []
        """Each with the purpose of its socket."""
        self._public: list[HttpServer] = []
        self._listeners: list[asyncio.Server | Listener] = []
        self._misled_lines = RepeatLimiter(1, MISLED_INTERVAL)

    def __contains__(self, purpose: str) -> bool:
        return purpose in self.sockets

    def port_of(self, purpose: str) -> int:
        return port_of(self.sockets[purpose])

    def limits_of(self, purpose: str) -> ConnectionLimits:
        if purpose in PUBLIC:
            return self.limits
        return self._console_limits if purpose == "console" else self._internal_limits

    def serve(
        self,
        purpose: str,
        handler: Handler,
        limits: Limits,
        left: Callable[[], int] | None = None,
        block: HeaderBlock = NO_HEADERS,
    ) -> HttpServer:
        """Have a handler answer at that port, once it is open. `left`: how many more connections it
        may take. `block`: headers of the answers that the server makes itself.
        """

        def error_response(status: int, reason: str) -> Response:
            if reason.startswith(OTHER_PROTOCOL):  # such a client may not show the answer
                self._log_misled("A client speaks another protocol", reason, port=purpose)
            response = self.error_response(status, reason)
            response.block = block
            return response

        def on_crash(error: Exception, request: Request) -> Response:
            response = self.on_crash(error, request)
            response.block = block
            return response

        is_public = purpose in PUBLIC
        if not is_public:
            tls = self.certificates.of(purpose)
            names = self.settings.own_names | {*(tls.names if tls else ())}
            handler = for_own_names(names, handler)
        server = HttpServer(
            handler,
            limits=replace(limits, head_timeout=self.settings.open_handshake_timeout),
            wheel=self.wheel,
            error_response=error_response,
            on_crash=on_crash,
            proxies=self.proxies,
            connection_limits=self.limits_of(purpose),
            buffered=self.buffered if is_public else BufferedBytes(),
            max_connections=left,
        )
        self._servers.append((server, purpose))
        if purpose == "endpoint" and "proxied" in self.sockets:
            self._servers.append((server, "proxied"))
        if is_public:
            self._public.append(server)
        return server

    async def open(self) -> None:
        for server, purpose in self._servers:
            own = self.sockets[purpose].dup()  # each listener closes its own
            self._listeners.append(await self._listen(server, purpose, own))
            if purpose in self.next_sockets and purpose in PUBLIC and not is_shared(own):
                shared = self.next_sockets[purpose].dup()
                self._listeners.append(await self._listen(server, purpose, shared))

    async def _listen(
        self, server: HttpServer, purpose: str, sock: socket.socket
    ) -> asyncio.Server | Listener:
        tls, proxied = self.certificates.of(purpose), purpose == "proxied"
        if tls is None and not proxied:
            loop = asyncio.get_running_loop()
            is_unix = sock.family == socket.AF_UNIX
            create = loop.create_unix_server if is_unix else loop.create_server
            return await create(server.protocol, sock=sock, backlog=BACKLOG)
        listener = Listener(
            sock,
            server.protocol,
            self.wheel,
            tls=tls.context if tls else None,
            proxied=proxied,
            handshake_timeout=self.settings.open_handshake_timeout,
            shutdown_timeout=TLS_SHUTDOWN_TIMEOUT,
            limits=server.connection_limits,
            on_refused=self._log_refused,
        )
        listener.start()
        return listener

    def stop_accepting(self) -> None:
        for listener in self._listeners:
            if isinstance(listener, Listener):
                listener.stop_accepting()
            else:
                listener.close()

    async def drain(self, seconds: float) -> None:
        """Have clients of the public ports connect to the next version over that time."""
        await asyncio.gather(*(server.drain(seconds) for server in self._public))

    def close(self, *, keep_sockets: bool = False) -> None:
        """Stop accepting, and end handshakes; what is connected ends by the `shutdown` of its
        server. `keep_sockets`: clients can still connect, and wait until somebody accepts them.
        """
        for listener in self._listeners:
            listener.close()
        if not keep_sockets:
            close(self.sockets)

    def _log_refused(self, proxy: str, reason: str) -> None:
        self._log_misled("Connections without PROXY header", reason, proxy=proxy)

    def _log_misled(self, event: str, reason: str, **fields: str) -> None:
        if (count := self._misled_lines.admit(event)) is not None:
            _log.warning(event, reason=reason, **fields, **count)
