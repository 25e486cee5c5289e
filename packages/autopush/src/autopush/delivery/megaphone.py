"""The source of the broadcasts: a Megaphone server, or any URL that answers like one.

`GET` is answered 2xx with `{"broadcasts": {"id": "version", …}}`. Each worker polls by itself.

Rule: a source that fails stops no worker, and the versions read last stay in use.
"""

import asyncio
from typing import Annotated, Final

import msgspec

from autopush.jobs import repeat
from autopush.net.http_client import HttpClient, HttpError, client_tls, load_library
from autopush.protocol.broadcasts import Broadcasts
from autopush.telemetry import logs
from autopush.telemetry.metric_table import MEGAPHONE_ERROR, MEGAPHONE_OK, POLL_ERRORS
from autopush.telemetry.metrics import Metrics

POLL_TIMEOUT: Final = 10.0
"""Seconds from connecting to the complete answer."""

_log = logs.get(__name__)


class PollError(Exception):
    """`reason`: one of `POLL_ERRORS`. The text quotes nothing of the response."""

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
    """`url`: http or https. `token`: the `Authorization` header, if not empty."""

    def __init__(self, url: str, token: str = "") -> None:
        load_library()
        self._url = url
        self._headers = [("accept", "application/json"), ("connection", "close")]
        if token:
            self._headers.append(("authorization", token))
        # Created once: this loads the system's CA certificates.
        self._tls = client_tls() if url.startswith("https:") else None

    async def fetch(self, seconds: float = POLL_TIMEOUT) -> dict[str, str]:
        """The version of each broadcast.

        :raises PollError: no valid response within `seconds`
        """
        try:
            async with HttpClient(self._tls) as client, asyncio.timeout(seconds):
                response = await client.request("GET", self._url, self._headers)
        except TimeoutError:
            raise PollError("timeout", "no answer in time") from None
        except HttpError as error:
            raise PollError("io" if error.processed else "connect", str(error)) from None
        if not 200 <= response.status < 300:
            raise PollError("unknown", f"the answer is {response.status}")
        try:
            return _decoder.decode(response.body).broadcasts
        except (ValueError, RecursionError) as error:
            raise PollError("unknown", f"the answer is no list of broadcasts: {error}") from None


class BroadcastPoller:
    """Polls at once, then every `interval` seconds."""

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
        await repeat(self.poll, lambda: self._interval, "BroadcastPoller")

    async def poll(self) -> None:
        """Failures are counted; the first after a success is logged."""
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
