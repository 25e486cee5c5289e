"""Ports that refuse, never answer or accept nothing; and the open files of a process (Linux)."""

import contextlib
import functools
import itertools
import socket
from collections.abc import Iterator
from pathlib import Path


def open_files(pid: int) -> Iterator[str]:
    """What each descriptor of a process leads to, `socket:[inode]` for a socket."""
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile, or its process has ended
            yield str(file.readlink())


@functools.cache
def _own_ports() -> Iterator[int]:
    """Ports that no other process of tests takes, nor a program that asks for any: they are below
    the ephemeral ports of the kernel.
    """
    for first in range(10_000, 32_000, 1000):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as mark:
            mark.bind(f"\0ports of tests from {first}")
            mark.detach()  # it is there as long as this process
            return itertools.cycle(range(first, first + 1000))
    raise OSError("too many processes of tests")


def unused_port() -> int:
    """A port that refuses connections until a test listens on it."""
    while True:
        port = next(_own_ports())
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def unused_ports(number: int) -> int:
    """The first of so many ports in a row, all of them as `unused_port`."""
    while True:
        ports = [unused_port() for _ in range(number)]
        if ports[-1] - ports[0] == number - 1:
            return ports[0]


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
