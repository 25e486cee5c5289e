"""Wakes devices whose network drops idle connections: the operator's wake server sends them a UDP
packet, whereupon they connect and read what is stored for them.

Rule: no sender waits for the wake server, and no delivery depends on it.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autopush.bridges.provider import Provider
from autopush.delivery.bridge_contract import RouterError
from autopush.settings import Settings, StartupError
from autopush.store.users import UserRecord
from autopush.telemetry import logs
from keytables import Value

TIMEOUT: Final = 3.0
"""Seconds for one request."""
MAX_UNDER_WAY: Final = 64
"""Concurrent requests; further devices are not woken, as they connect by themselves later."""
FIELDS: Final = ("ip", "port", "mcc", "mnc", "netid")

_log = logs.get(__name__)


class UdpWaker:
    """`url`: the wake server's; `tls`: with the client certificate that it requires."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self._url = url
        self._provider = Provider(timeout=TIMEOUT, max_connections=MAX_UNDER_WAY, tls=tls)
        self._running: set[asyncio.Task[None]] = set()
        self._failures = logs.FailureLog(
            _log, "The wake server does not wake devices", "The wake server wakes devices again"
        )

    def wake(self, record: UserRecord) -> None:
        """Wake the user's device, in the background."""
        if record.wake_data is None or len(self._running) >= MAX_UNDER_WAY:
            return
        task = asyncio.get_running_loop().create_task(self._ask(_form(record.wake_data)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._provider.close()

    async def _ask(self, form: Mapping[str, str]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await self._provider.post(self._url, headers={}, form=form)
        except (RouterError, TimeoutError):
            self._failures.failed(reason="no answer")
            return
        if reply.status >= 300:
            self._failures.failed(reason=f"status {reply.status}")
        else:
            self._failures.succeeded()


def load_waker(settings: Settings) -> UdpWaker | None:
    """None if not configured.

    :raises StartupError: the configuration is incomplete, or the certificate cannot be read
    """
    if not settings.wake_pem or not settings.wake_timeout:
        return None
    if not settings.wake_server:
        raise StartupError("wake_pem needs wake_server, the URL of the server that wakes devices")
    try:
        tls = ssl.create_default_context()
        tls.load_cert_chain(Path(settings.wake_pem))
    except (OSError, ssl.SSLError):
        raise StartupError(
            f"wake_pem: {settings.wake_pem} is no PEM file with a certificate and its key"
        ) from None
    return UdpWaker(settings.wake_server, tls)


def _form(wake_data: Mapping[str, Value]) -> dict[str, str]:
    # The original did not check the values in its records.
    return {name: str(wake_data.get(name, "")) for name in FIELDS}
