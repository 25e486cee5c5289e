"""Ports that behave oddly, and which process holds which connection, told by /proc (Linux)."""

import contextlib
import secrets
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

ESTABLISHED = "01"


def accepted(server_port: int, pids: Iterable[int]) -> dict[int, int]:
    """For each IPv4 connection to a port of this machine, as client port: which of these processes
    accepted it."""
    clients: dict[str, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_, inode = line.split()[:10]
        if state == ESTABLISHED and int(local.rpartition(":")[2], 16) == server_port:
            clients[f"socket:[{inode}]"] = int(remote.rpartition(":")[2], 16)
    owners: dict[int, int] = {}
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if (target := str(file.readlink())) in clients:
                    owners[clients[target]] = pid
    return owners


_given: set[int] = set()


def unused_port() -> int:
    """One that refuses connections until somebody listens on it.

    Nobody is given it by chance meanwhile: it is below those that kernels hand out by themselves.
    """
    while True:
        # Not from `random`: Hypothesis seeds that alike in all processes.
        port = 10_000 + secrets.randbelow(22_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """Connections are made by the kernel; nobody ever answers on them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """Attempts to connect get no answer at all: the queue of those to be accepted is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        yield listener.getsockname()[1]
