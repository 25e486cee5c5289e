"""The listening sockets, bound before any worker starts, and limits on their connections.

Rule: a port in use is an error, also where workers share one (SO_REUSEPORT would let a second
service share it silently). The parent keeps the sockets, so a restarted worker accepts the
connections that came meanwhile.
"""

import errno
import resource
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from autopush.net.listener import enable_keepalive, limit_send_buffer
from autopush.settings import Settings, StartupError
from autopush.settings.addresses import LOOPBACK

BACKLOG: Final = 65_535
"""Connections that may wait to be accepted, per socket, as far as `net.core.somaxconn` allows. What
finds the queue full is dropped, and its client tries again only after 1, 3, 7, 15 seconds.
"""

Sockets = dict[str, socket.socket]
"""The listening sockets of one worker, by purpose: see `Settings.listeners`."""

PUBLIC: Final = frozenset({"websocket", "endpoint", "proxied"})
"""Purposes of the public ports."""

MIN_RESERVE: Final = 200
RESERVED_PART: Final = 10
"""One in so many descriptors is kept from clients: for the store, logs, nodes, bridges, pages."""
MAX_INTERNAL: Final = 4096
"""Connections to the internal ports of a worker. Each other worker has up to nine."""


def bind(settings: Settings, inherited: Sequence[Sockets] = ()) -> tuple[Settings, list[Sockets]]:
    """Bind every port of the command for every worker; returns the settings with the ports bound.
    Of the `inherited` sockets those are used that listen where they should.

    Public ports are shared. The first worker has the internal port, the others one each, since
    other nodes must reach exactly the worker that holds a connection.

    :raises StartupError: a port is in use or not allowed, or the inherited sockets are those of
        another number of workers
    """
    if inherited and len(inherited) != settings.workers:
        raise StartupError(
            f"workers: {len(inherited)} are running; only a restart can change their number"
        )
    taken: dict[str, list[socket.socket]] = {}
    ports: dict[str, int] = {}
    with ExitStack() as undo:
        for purpose, option in settings.listeners.items():
            port = getattr(settings, option)
            send_buffer = settings.send_buffer if purpose in PUBLIC else None
            if purpose == "router":
                host = settings.router_address
                numbers = [port, *settings.worker_router_ports]
            else:
                # The report on memory is for debugging on this machine.
                host = LOOPBACK if purpose == "memory" else settings.host
                numbers = [port] * settings.workers
            if sockets := _listening(inherited, purpose, host, numbers):
                taken[purpose] = sockets
                if send_buffer is not None:
                    for sock in sockets:
                        limit_send_buffer(sock, send_buffer)
            elif purpose == "router":
                names = [option, *["worker_router_port"] * (len(numbers) - 1)]
                taken[purpose] = [
                    undo.enter_context(_bind(host, number, name))
                    for number, name in zip(numbers, names, strict=True)
                ]
            else:
                taken[purpose] = _bind_shared(
                    host, settings.workers, option, port, undo, send_buffer
                )
            ports[option] = port_of(taken[purpose][0])
        undo.pop_all()
    workers = [
        {name: sockets[index] for name, sockets in taken.items()}
        for index in range(settings.workers)
    ]
    return settings.with_ports(**ports), workers


def _listening(
    inherited: Sequence[Sockets], purpose: str, host: str, ports: Sequence[int]
) -> list[socket.socket]:
    """Those of the workers that listen there, if any: of that purpose, or of another one that they
    had in the former version. `ports`: of each worker, 0 for any.
    """
    others = inherited[0] if inherited and all(ports) else ()
    for former in (purpose, *others):
        sockets = [each[former] for each in inherited if former in each]
        if sockets and all(map(partial(_listens_at, host), ports, sockets)):
            return sockets
    return []


def check_address(host: str, option: str) -> None:
    """Check that a port can be bound on the address that the option names.

    :raises StartupError: this machine has no such address
    """
    try:
        _bind(host, 0, option, listen=False).close()
    except StartupError as error:
        raise StartupError(f"{option}: {error}") from None


def open_inherited(descriptors: Mapping[str, int]) -> Sockets:
    """Listening sockets of another process, from their descriptors by purpose.

    :raises OSError: one is not the descriptor of a socket
    """
    sockets: Sockets = {}
    for purpose, descriptor in descriptors.items():
        sock = sockets[purpose] = socket.socket(fileno=descriptor)
        sock.set_inheritable(False)
        sock.setblocking(False)
    return sockets


def close(sockets: Mapping[Any, socket.socket]) -> None:
    for sock in sockets.values():
        sock.close()


def _bind_shared(
    host: str, workers: int, option: str, port: int, undo: ExitStack, send_buffer: int | None
) -> list[socket.socket]:
    if workers == 1:
        return [undo.enter_context(_bind(host, port, option, send_buffer=send_buffer))]
    # First without SO_REUSEPORT: it fails where another program listens, which the rest would not.
    with _bind(host, port, option, listen=False) as probe:
        port = port_of(probe)
    return [
        undo.enter_context(_bind(host, port, option, send_buffer=send_buffer, reuse_port=True))
        for _ in range(workers)
    ]


def _listens_at(host: str, port: int, sock: socket.socket) -> bool:
    """`port`: 0 for any."""
    address = resolve(host, port)[3][0]
    return bool(sock.getsockname()[0] == address and port in (0, port_of(sock)))


def resolve(
    host: str, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, tuple[Any, ...]]:
    """Family, type, protocol and address to listen at.

    :raises StartupError: there is no such address
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise StartupError(f"cannot listen on {host}: {error.strerror}") from None
    except UnicodeError:  # a label is too long for a host name
        raise StartupError(f"cannot listen on {host}: not a host name") from None
    return family, kind, protocol, address


def _bind(
    host: str,
    port: int,
    option: str,
    *,
    send_buffer: int | None = None,
    reuse_port: bool = False,
    listen: bool = True,
) -> socket.socket:
    family, kind, protocol, address = resolve(host, port)
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise StartupError(f"cannot listen on {host}: {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        enable_keepalive(sock)
        if send_buffer is not None:
            limit_send_buffer(sock, send_buffer)
        sock.bind(address)
        if listen:
            sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        reason = error.strerror
        if error.errno == errno.EADDRINUSE:
            flag = option.replace("_", "-")
            reason = f"the port is in use; choose another with --{flag}"
        where = f"{host} port {port} ({option})" if port else host
        raise StartupError(f"cannot listen on {where}: {reason}") from None
    return sock


def port_of(sock: socket.socket) -> int:
    port = sock.getsockname()[1]
    assert isinstance(port, int)
    return port


def raise_limit() -> None:
    """Raise the limit on open files of this process to its hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_allowed(wanted: int) -> int:
    """The most client connections, 0 for no limit. `wanted`: 0 takes all the system allows."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    left = client_files(files)
    return min(wanted, left) if wanted else left


def client_files(files: int) -> int:
    """How many of the descriptors that a process may have are for clients."""
    return files - _reserve(files)


def internal_connections_allowed() -> int:
    """The most connections of nodes and for pages; the store and the logs need the rest."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_INTERNAL
    return min(MAX_INTERNAL, _reserve(files) // 2)


def _reserve(files: int) -> int:
    return min(max(MIN_RESERVE, files // RESERVED_PART), files // 2)
