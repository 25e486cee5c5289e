"""The service manager of the machine, systemd: its protocol sd_notify(3), and the sockets that it
passes, sd_listen_fds(3).
"""

import asyncio
import os
import socket
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from itertools import zip_longest
from typing import Final

from autopush.service.listeners import PassedSocket

FIRST_PASSED: Final = 3
"""The first descriptor that systemd passes."""


def passed_sockets(variables: MutableMapping[str, str] = os.environ) -> list[PassedSocket]:
    """The listening sockets of the unit's `.socket`, with their `FileDescriptorName`."""
    pid, count, names = (variables.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    sockets = []
    for number, name in zip_longest(range(int(count)), names.split(":") if names else ()):
        sock = socket.socket(fileno=FIRST_PASSED + number)
        sock.set_inheritable(False)
        sock.setblocking(False)
        sockets.append(PassedSocket(name or "", sock))
    return sockets


class ServiceManager:
    """Tells systemd that the service is ready and alive; sends nothing without the variables of a
    unit of `Type=notify`.

    The keep-alive comes from the event loop or the supervisor: a thread would go on if these froze.
    """

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        address = variables.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        limit = variables.get("WATCHDOG_USEC", "")
        is_meant = variables.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self._interval = int(limit) / 2e6 if address and is_meant and limit.isdecimal() else 0.0
        # Kept open: later there may be no free file descriptor.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        if self._socket is not None:
            self._socket.setblocking(False)
        self.due: float | None = None
        """When the next keep-alive is due, None if systemd expects none."""

    def report_ready(self, now: float) -> None:
        """`now`: monotonic, as all times here."""
        self._send(b"READY=1")
        if self._interval:
            self.due = now

    def report_alive(self, now: float) -> None:
        """Send a keep-alive if one is due: twice in each timeout of systemd."""
        if self.due is not None and now >= self.due:
            self._send(b"WATCHDOG=1")
            self.due = now + self._interval

    def report_successor(self, pid: int) -> None:
        """From now on another process is the service: it reports, and this one does not."""
        self._send(f"MAINPID={pid}\nWATCHDOG=1".encode())
        self.due = None

    def report_return(self, now: float) -> None:
        """The successor has failed: this process is the service again. systemd believes a process
        that is not the main one only with `NotifyAccess=all`.
        """
        self._send(f"MAINPID={os.getpid()}\nWATCHDOG=1".encode())
        if self._interval:
            self.due = now + self._interval

    def report_from(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report as ready, and alive for as long as `loop` runs."""
        self.report_ready(loop.time())
        self._report_alive_from(loop)

    def _report_alive_from(self, loop: asyncio.AbstractEventLoop) -> None:
        self.report_alive(loop.time())
        if self.due is not None:
            loop.call_at(self.due, self._report_alive_from, loop)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _send(self, state: bytes) -> None:
        if self._socket is not None:
            with suppress(OSError):  # systemd is gone or does not read
                self._socket.sendto(state, self._address)
