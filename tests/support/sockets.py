"""Ports that refuse, never answer or accept nothing; and the open files of a process (Linux)."""

import contextlib
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path


def open_files(pid: int) -> Iterator[str]:
    """What each descriptor of a process leads to, `socket:[inode]` for a socket."""
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile, or its process has ended
            yield str(file.readlink())


_given: set[int] = set()


def unused_port() -> int:
    """A port that refuses connections until a test listens on it.

    No other program gets it by chance: it is below the ephemeral ports of the kernel.
    """
    while True:
        # Not from `random`: Hypothesis seeds that alike in all processes.
        port = 10_000 + secrets.randbelow(22_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                return port


def unused_ports(number: int) -> int:
    """The first of so many ports in a row, all of them as `unused_port`."""
    while True:
        first = unused_port()
        others = range(first + 1, first + number)
        with contextlib.suppress(OSError), contextlib.ExitStack() as bound:
            for port in others:
                bound.enter_context(socket.create_server(("127.0.0.1", port)))
            if _given.isdisjoint(others):
                _given.update(others)
                return first


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port whose connections are accepted by the kernel and never answered."""
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
