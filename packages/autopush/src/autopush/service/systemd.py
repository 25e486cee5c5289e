"""What systemd hears of the service: that it is ready, and that it still runs (sd_notify(3)).

systemd sets the variables for a unit of `Type=notify`; without them nothing is sent. With
`WatchdogSec` it kills and restarts a service that it does not hear of for so long.

Rule: the sign of life comes from what would stand still, the event loop or the supervisor, and
from no thread of its own.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress


class ServiceManager:
    """The service manager that has started this process, if any has."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        address = variables.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        limit = variables.get("WATCHDOG_USEC", "")
        is_meant = variables.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self._interval = int(limit) / 2e6 if address and is_meant and limit.isdecimal() else 0.0
        # Kept open: a service without a free file descriptor still runs.
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        if self._socket is not None:
            self._socket.setblocking(False)
        self.due: float | None = None
        """When the next sign of life is to be sent, None while it expects none."""

    def report_ready(self, now: float) -> None:
        """The service is ready at `now`, of the monotonic clock as all times here."""
        self._send(b"READY=1")
        if self._interval:
            self.due = now

    def report_alive(self, now: float) -> None:
        """Send a sign of life if one is due: twice in the time that it waits for one."""
        if self.due is not None and now >= self.due:
            self._send(b"WATCHDOG=1")
            self.due = now + self._interval

    def report_from(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report as ready, and alive for as long as that loop runs."""
        self.report_ready(loop.time())
        self._report_alive_from(loop)

    def _report_alive_from(self, loop: asyncio.AbstractEventLoop) -> None:
        self.report_alive(loop.time())
        if self.due is not None:
            loop.call_at(self.due, self._report_alive_from, loop)

    def close(self) -> None:
        """Send nothing any more."""
        if self._socket is not None:
            self._socket.close()

    def _send(self, state: bytes) -> None:
        if self._socket is not None:
            with suppress(OSError):  # it is gone or does not read: then it acts by itself
                self._socket.sendto(state, self._address)
