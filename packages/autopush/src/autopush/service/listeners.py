"""The listening sockets, bound before any worker starts, and limits on their connections.

Rule: a port in use is an error, also where workers share one (SO_REUSEPORT would let a second
service share it silently). The parent keeps the sockets, so a restarted worker accepts the
connections that came meanwhile.
"""

import errno
import os
import resource
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from autopush.net.listener import enable_keepalive, limit_send_buffer
from autopush.settings import Settings, StartupError
from autopush.settings.addresses import LOOPBACK
from autopush.settings.value_types import UNIX

BACKLOG: Final = 65_535
"""Connections that may wait to be accepted, per socket, as far as `net.core.somaxconn` allows. What
finds the queue full is dropped, and its client tries again only after 1, 3, 7, 15 seconds.
"""

Sockets = dict[str, socket.socket]
"""The listening sockets of one worker, by purpose: see `Settings.listeners`."""

SOCKET_MODE: Final = 0o666
"""Of a Unix socket: the folder says who reaches it."""

PUBLIC: Final = frozenset({"websocket", "endpoint", "proxied"})
"""Purposes of the public ports."""

MIN_RESERVE: Final = 200
RESERVED_PART: Final = 10
"""Reserve a tenth of the descriptors for the store, logs, nodes, bridges and pages."""
MAX_INTERNAL: Final = 4096
"""Connections to the internal ports of a worker. Each other worker has up to nine."""


class PassedSocket(NamedTuple):
    """A listening socket from the service manager, `name`: the purpose that its unit says, or any
    other text.
    """

    name: str
    sock: socket.socket


class _Places(NamedTuple):
    """Where the workers listen for one purpose. `ports`: of each worker, 0 for any, or only of the
    first; `options`: that say so.
    """

    purpose: str
    host: str
    ports: Sequence[int]
    options: Sequence[str]

    @property
    def are_shared(self) -> bool:
        """The first worker has the internal port, the others one each, since other nodes must reach
        exactly the worker that holds a connection.
        """
        return self.purpose != "router"


def bind(
    settings: Settings,
    inherited: Sequence[Sockets] = (),
    passed: Iterable[PassedSocket] = (),
    managed: Collection[str] = (),
) -> tuple[Settings, list[Sockets]]:
    """Bind every port of the command for every worker; returns the settings with the ports bound.

    Of the sockets `inherited` from a former version, by worker, those are used that listen where
    they should. Those that the service manager has `passed` are all used, wherever they listen, and
    inherited ones that it had passed to the former version, for the purposes `managed`.

    :raises StartupError: a port is in use or not allowed, or the inherited sockets are those of
        another number of workers
    """
    if inherited and len(inherited) != settings.workers:
        raise StartupError(
            f"workers: {len(inherited)} are running; only a restart can change their number"
        )
    bound: dict[str, list[socket.socket]] = {}
    ports: dict[str, int] = {}
    wanted = [_places(settings, *each) for each in settings.listeners.items()]
    with ExitStack() as undo:
        given = _assigned(
            [PassedSocket(name, undo.enter_context(sock)) for name, sock in passed], wanted
        )
        for places in wanted:
            purpose, count = places.purpose, len(places.ports)
            if purpose in managed:
                sockets = [each[purpose] for each in inherited if purpose in each]
            elif purpose in given:
                enable_keepalive(given[purpose])
                sockets = _for_each(count, given[purpose], undo)
            else:
                sockets = _inherited(inherited, places) or _bind_all(places, undo)
            if purpose in PUBLIC:
                for sock in sockets:
                    limit_send_buffer(sock, settings.send_buffer)
            bound[purpose] = sockets
            if sockets[0].family != socket.AF_UNIX:
                ports[places.options[0]] = port_of(sockets[0])
        undo.pop_all()
    workers = [
        {name: sockets[index] for name, sockets in bound.items() if index < len(sockets)}
        for index in range(settings.workers)
    ]
    return settings.with_ports(**ports), workers


def _places(settings: Settings, purpose: str, option: str) -> _Places:
    port = getattr(settings, option)
    if purpose == "router":
        further = settings.worker_router_ports
        options = [option, *["worker_router_port"] * len(further)]
        return _Places(purpose, settings.router_address, [port, *further], options)
    host = settings.tcp_host
    if purpose == "memory":  # for debugging on this machine
        host = LOOPBACK
    elif purpose == "console":
        host = settings.console_address
    elif option == "port":
        host = settings.host
    # No worker accepts http connections, and only the first one those for the console.
    count = 1 if purpose in ("http", "console") else settings.workers
    return _Places(purpose, host, [port] * count, [option] * count)


def _inherited(inherited: Sequence[Sockets], places: _Places) -> list[socket.socket]:
    """Those that listen there, if any: of that purpose, or of another one that they had in the
    former version.
    """
    others = inherited[0] if inherited and all(places.ports) else ()
    for former in (places.purpose, *others):
        sockets = [each[former] for each in inherited if former in each]
        is_there = map(partial(_listens_at, places.host), places.ports, sockets)
        if len(sockets) == len(places.ports) and all(is_there):
            return sockets
    return []


def _assigned(
    passed: Sequence[PassedSocket], wanted: Sequence[_Places]
) -> dict[str, socket.socket]:
    """By purpose: of that name, else at that port; a single one else is the public port."""
    shared = [each for each in wanted if each.are_shared]
    assigned: dict[str, socket.socket] = {}
    for name, sock in passed:
        fitting = [each.purpose for each in shared if each.purpose == name]
        fitting += [each.purpose for each in shared if _is_port(sock, each)]
        if len(passed) == 1:
            fitting += [each.purpose for each in shared if each.options[0] == "port"]
        purpose = next((each for each in fitting if each not in assigned), None)
        if purpose is None:
            names, where = ", ".join(each.purpose for each in shared), sock.getsockname()
            raise StartupError(
                f"the service manager passes a socket at {where}, named {name!r}, that no option "
                f"asks for; its FileDescriptorName= may be one of {names}"
            )
        assigned[purpose] = sock
    return assigned


def _for_each(workers: int, sock: socket.socket, undo: ExitStack) -> list[socket.socket]:
    """One listening socket for all workers."""
    return [sock, *(undo.enter_context(sock.dup()) for _ in range(workers - 1))]


def _is_port(sock: socket.socket, places: _Places) -> bool:
    if sock.family == socket.AF_UNIX:
        return bool(UNIX + sock.getsockname() == places.host)
    return 0 != port_of(sock) == places.ports[0]


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


def _bind_all(places: _Places, undo: ExitStack) -> list[socket.socket]:
    """`undo`: closes those bound so far, if a further one cannot be."""
    host, (first, *_), (option, *_) = places.host, places.ports, places.options
    count = len(places.ports)
    if not places.are_shared or count == 1:
        return [
            undo.enter_context(_bind(host, port, name))
            for port, name in zip(places.ports, places.options, strict=True)
        ]
    if host.startswith(UNIX):
        return _for_each(count, undo.enter_context(_bind(host, first, option)), undo)
    # First without SO_REUSEPORT: it fails where another program listens, which the rest would not.
    with _bind(host, first, option, listen=False) as probe:
        port = port_of(probe)
    return [undo.enter_context(_bind(host, port, option, reuse_port=True)) for _ in range(count)]


def is_shared(sock: socket.socket) -> bool:
    """Whether all workers accept from this very socket, of several."""
    return not sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)


def _listens_at(host: str, port: int, sock: socket.socket) -> bool:
    """`port`: 0 for any."""
    address = resolve(host, port)[3]
    if sock.family == socket.AF_UNIX:
        return bool(sock.getsockname() == address)
    return bool(sock.getsockname()[0] == address[0] and port in (0, port_of(sock)))


def resolve(
    host: str, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, tuple[Any, ...] | str]:
    """Family, type, protocol and address to listen at. `host`: `port` counts unless it is the path
    of a socket.

    :raises StartupError: there is no such address
    """
    if host.startswith(UNIX):
        return socket.AF_UNIX, socket.SOCK_STREAM, 0, host.removeprefix(UNIX)
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
    host: str, port: int, option: str, *, reuse_port: bool = False, listen: bool = True
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
        if isinstance(address, str):
            _remove_stale(Path(address))
            sock.bind(address)
            os.chmod(address, SOCKET_MODE)
        else:
            enable_keepalive(sock)
            sock.bind(address)
        if listen:
            sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        reason, flag = error.strerror, option.replace("_", "-")
        if error.errno == errno.EADDRINUSE:
            reason = f"the port is in use; choose another with --{flag}"
            if family == socket.AF_UNIX:
                reason = "something listens there, or it is no socket"
        elif error.errno == errno.EACCES and 0 < port < 1024 and family != socket.AF_UNIX:
            reason = (
                "ports below 1024 need a right: AmbientCapabilities=CAP_NET_BIND_SERVICE in the "
                f"unit of systemd, or root; or choose another with --{flag}"
            )
        where = f"{host} port {port} ({option})" if port and family != socket.AF_UNIX else host
        raise StartupError(f"cannot listen on {where}: {reason}") from None
    return sock


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that has ended."""
    with suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as client:
        if path.is_socket() and client.connect_ex(str(path)) == errno.ECONNREFUSED:
            path.unlink()


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
