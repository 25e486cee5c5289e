"""The source of the broadcasts: a Megaphone server, or any URL that answers like one.

`GET` of the URL is answered 2xx with `{"broadcasts": {"id": "version", …}}`. Each worker asks by
itself.

Rule: a source that fails stops no worker and takes back nothing: the versions that were read last
stay.
"""

import asyncio
import ssl
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from autopush.jobs import repeat
from autopush.net.http_client import ClientConnection
from autopush.protocol.broadcasts import Broadcasts
from autopush.telemetry import logs
from autopush.telemetry.metric_table import MEGAPHONE_ERROR, MEGAPHONE_OK, POLL_ERRORS
from autopush.telemetry.metrics import Metrics

POLL_TIMEOUT: Final = 10.0
"""Seconds from connecting to the complete answer."""

_PORTS: Final = {"http": 80, "https": 443}

_log = logs.get(__name__)


class PollError(Exception):
    """The source has not said what the broadcasts are. The text holds nothing of what it said.

    `reason`: one of `POLL_ERRORS`.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class _Document(msgspec.Struct):
    broadcasts: dict[
        Annotated[str, msgspec.Meta(min_length=1, max_length=256)],
        Annotated[str, msgspec.Meta(max_length=1024)],
    ]


_decoder: Final = msgspec.json.Decoder(_Document)


class Megaphone:
    """Asks the source at `url` (http or https). `token`: the header `Authorization`, if not
    empty.
    """

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        # Made once: it reads the certificates of the system.
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        lines = [f"GET {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += ["Accept: application/json", "Connection: close"]
        if token:
            lines.append(f"Authorization: {token}")
        self._request = "\r\n".join([*lines, "", ""]).encode()

    async def fetch(self, seconds: float = POLL_TIMEOUT) -> dict[str, str]:
        """The version of each broadcast.

        :raises PollError: it does not say them within that time
        """
        try:
            async with asyncio.timeout(seconds):
                status, body = await self._get()
        except TimeoutError:
            raise PollError("timeout", "no answer in time") from None
        except OSError as error:
            raise PollError("connect", error.strerror or str(error)) from None
        if not 200 <= status < 300:
            raise PollError("unknown", f"the answer is {status}")
        try:
            return _decoder.decode(body).broadcasts
        except (ValueError, RecursionError) as error:
            raise PollError("unknown", f"the answer is no list of broadcasts: {error}") from None

    async def _get(self) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        response = _Response()
        _, connection = await loop.create_connection(
            lambda: ClientConnection(response), self._host, self._port, ssl=self._tls
        )
        try:
            connection.write(self._request)
            return await response.received
        finally:
            connection.abort()


class _Response:
    """The one response of a connection."""

    def __init__(self) -> None:
        self.received: asyncio.Future[tuple[int, bytes]] = asyncio.Future()

    def response_received(
        self,
        _: ClientConnection,
        status: int,
        body: bytes,
        proof: str,  # noqa: ARG002
    ) -> bool:
        if self.received.done():
            return False
        self.received.set_result((status, body))
        return True

    def connection_ended(self, _: ClientConnection, reason: str, *, repeatable: bool) -> None:  # noqa: ARG002
        if not self.received.done():
            self.received.set_exception(PollError("io", reason))


class BroadcastPoller:
    """Keeps the broadcasts of one worker up to date: asks at once, and then each `interval`."""

    def __init__(
        self, source: Megaphone, broadcasts: Broadcasts, metrics: Metrics, interval: float
    ) -> None:
        self._source = source
        self._broadcasts = broadcasts
        self._interval = interval
        self._ok = metrics.counter(MEGAPHONE_OK)
        self._errors = {
            reason: metrics.counter(MEGAPHONE_ERROR, reason=reason) for reason in POLL_ERRORS
        }
        self._failures = logs.FailureLog(
            _log, "The broadcasts cannot be read", "The broadcasts can be read again"
        )

    async def run(self) -> None:
        """Poll until it is cancelled."""
        await repeat(self.poll, lambda: self._interval, "BroadcastPoller")

    async def poll(self) -> None:
        """Ask once. What fails is counted, and logged where it worked before."""
        try:
            self._broadcasts.update(await self._source.fetch())
        except PollError as error:
            self._errors[error.reason].add()
            self._failures.failed(cause=error.reason, reason=str(error))
        except Exception:
            self._errors["unknown"].add()
            raise
        else:
            self._ok.add()
            self._failures.succeeded()
