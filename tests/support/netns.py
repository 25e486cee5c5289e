"""A network of its own on this machine: hosts in network namespaces (Linux), on one switch.

Rule: nothing outside the namespaces made here is touched, and at the end they are gone. Those that
a killed run left behind go when the next one begins.
"""

import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.tools import give_up, need

PREFIX = "autopush-test-"
_CLONE_NEWNET = 0x40000000


class Host:
    """One namespace. Its cable to the switch can be cut and mended."""

    _cables = itertools.count()

    def __init__(self, switch: str, namespace: str, number: int) -> None:
        self.address = f"10.123.0.{number}"
        self._hardware = f"02:00:00:00:00:{number:02x}"
        self._switch = switch
        self._namespace = namespace
        self._build()

    def _build(self) -> None:
        inside, outside = self._namespace, self._switch
        self._port = f"port{next(self._cables)}"
        _ip("netns", "add", inside)
        veth = ("type", "veth", "peer", "name", "eth0", "netns", inside)
        _ip("link", "add", "name", self._port, "netns", outside, *veth)
        _ip("-n", outside, "link", "set", self._port, "master", "bridge", "up")
        _ip("-n", inside, "link", "set", "eth0", "address", self._hardware)
        _ip("-n", inside, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", inside, "link", "set", device, "up")

    def rebuild(self) -> None:
        """Recreate the host without its connections, when no process is left on it."""
        _ip("netns", "delete", self._namespace)
        self._build()

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The same command, run on this host."""
        return ["ip", "netns", "exec", self._namespace, *arguments]

    def cut(self) -> None:
        """Pull the cable out of the switch: the link is down on both sides."""
        _ip("-n", self._switch, "link", "set", self._port, "down")

    def mend(self) -> None:
        """Plug it in again."""
        _ip("-n", self._switch, "link", "set", self._port, "up")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets that this thread makes meanwhile belong to this host."""
        with (
            Path("/proc/thread-self/ns/net").open() as outside,
            Path("/run/netns", self._namespace).open() as inside,
        ):
            _enter(inside.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())


class Network:
    """Hosts on one switch. To be closed."""

    def __init__(self) -> None:
        _sweep()
        self._switch = f"{PREFIX}{os.getpid()}-switch"
        self._hosts = 0
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")

    def host(self, name: str) -> Host:
        """Add a host."""
        self._hosts += 1
        return Host(self._switch, f"{PREFIX}{os.getpid()}-{name}", self._hosts)

    def close(self) -> None:
        """Take it down. Processes left on a host keep their sockets and reach no other host."""
        for namespace in _namespaces(os.getpid()):
            _ip("netns", "delete", namespace)


@contextmanager
def network() -> Iterator[Network]:
    """A network for a test; skipped where this machine does not allow one, a failure with CI=true.

    :raises pytest.skip.Exception: iproute2 or the rights are missing
    """
    need("ip", "apt-get install iproute2")
    try:
        made = Network()
    except subprocess.CalledProcessError as error:
        for namespace in _namespaces(os.getpid()):
            _ip("netns", "delete", namespace)
        reason = f"needs the right to make network namespaces (root): {error.stderr.strip()}"
        give_up(reason)
    try:
        yield made
    finally:
        made.close()


def _ip(*arguments: str) -> str:
    """:raises subprocess.CalledProcessError: with what `ip` said as `stderr`"""
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _namespaces(pid: int) -> list[str]:
    """Those that a run with this process id made."""
    names = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]
    return [name for name in names if name.startswith(f"{PREFIX}{pid}-")]


def _sweep() -> None:
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.strip() else ""
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and pid.isdigit() and not Path("/proc", pid).exists():
            _ip("netns", "delete", name)


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
