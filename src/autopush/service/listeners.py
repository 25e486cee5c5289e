"""The listening sockets, bound before any worker starts.

Rule: a port that somebody else uses is an error, also where our own workers share one (SO_REUSEPORT
would let a second service share it silently). The parent keeps the sockets, so a worker that is
started again finds the connections that waited meanwhile.
"""

import errno
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from autopush.net.keepalive import keep_alive
from autopush.settings import Settings, StartupError

BACKLOG = 4096


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """What one worker listens on."""

    websocket: socket.socket
    endpoint: socket.socket
    router: socket.socket

    def close(self) -> None:
        """Close all three in this process."""
        for sock in (self.websocket, self.endpoint, self.router):
            sock.close()


def bind(settings: Settings) -> tuple[Settings, list[WorkerSockets]]:
    """Bind every port for every worker; returns the settings with the ports that were really taken.

    The public ports are shared. The internal port belongs to the first worker; the others take any
    free one, since other nodes must reach each worker by itself.

    :raises StartupError: a port is in use or not allowed
    """
    with ExitStack() as undo:
        websockets = _bind_shared(settings, "port", settings.port, undo)
        endpoints = _bind_shared(settings, "endpoint_port", settings.endpoint_port, undo)
        routers = [
            undo.enter_context(_bind(settings.host, port, "router_port"))
            for port in (settings.router_port, *[0] * (settings.workers - 1))
        ]
        undo.pop_all()
    sockets = [WorkerSockets(*three) for three in zip(websockets, endpoints, routers, strict=True)]
    bound = settings.with_ports(
        port=_port(websockets[0]),
        endpoint_port=_port(endpoints[0]),
        router_port=_port(routers[0]),
    )
    return bound, sockets


def _bind_shared(
    settings: Settings, option: str, port: int, undo: ExitStack
) -> list[socket.socket]:
    host, workers = settings.host, settings.workers
    if workers == 1:
        return [undo.enter_context(_bind(host, port, option))]
    # Without SO_REUSEPORT first: this fails where anybody else listens, with it nothing would.
    with _bind(host, port, option, listen=False) as probe:
        port = _port(probe)
    return [undo.enter_context(_bind(host, port, option, reuse_port=True)) for _ in range(workers)]


def _bind(
    host: str, port: int, option: str, *, reuse_port: bool = False, listen: bool = True
) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise StartupError(f"cannot listen on {host}: {error.strerror}") from None
    except UnicodeError:  # a part of it is too long for any name
        raise StartupError(f"cannot listen on {host}: not a host name") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        keep_alive(sock)
        sock.bind(address)
        if listen:
            sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        why = error.strerror
        if error.errno == errno.EADDRINUSE:
            flag = option.replace("_", "-")
            why = f"the port is in use; choose another with --{flag}"
        raise StartupError(f"cannot listen on {host} port {port} ({option}): {why}") from None
    return sock


def _port(sock: socket.socket) -> int:
    port = sock.getsockname()[1]
    assert isinstance(port, int)
    return port
