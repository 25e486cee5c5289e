"""Sends metrics to Datadog."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import orjson

from autopush.net.http_client import ClientLimits, HttpClient, HttpError, client_tls
from autopush.telemetry.exporters import Change, SendError
from autopush.telemetry.metrics import Kind

TIMEOUT: Final = 10.0
"""Seconds for a connection, and for a response."""
SERIES_IN_A_REQUEST: Final = 1000
"""Datadog takes 500 kB in one request; a series is about 200 bytes."""

_COUNT: Final = 1
_GAUGE: Final = 3


class Datadog:
    """A `Sender`. `url`: base URL of the API; `host`: this machine's name there."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        host: str,
        interval: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._headers = [("dd-api-key", api_key), ("content-type", "application/json")]
        tls = client_tls() if url.startswith("https:") else None
        self._client = HttpClient(
            tls, ClientLimits(connect_timeout=TIMEOUT, response_timeout=TIMEOUT), uses_proxy=True
        )
        self._host = host
        self.interval = interval
        self._clock = clock

    async def send(self, changes: Sequence[Change]) -> None:
        """:raises SendError: Datadog has not taken all of them"""
        now = int(self._clock())
        numbers = [each for each in changes if not each.is_distribution]
        for start in range(0, len(numbers), SERIES_IN_A_REQUEST):
            part = numbers[start : start + SERIES_IN_A_REQUEST]
            await self._post("/api/v2/series", [self._number(each, now) for each in part])
        values = [each for each in changes if each.is_distribution]
        if values:
            document = [self._distribution(each, now) for each in values]
            await self._post("/api/v1/distribution_points", document)

    async def close(self) -> None:
        await self._client.close()

    def _number(self, change: Change, now: int) -> dict[str, object]:
        is_gauge = change.metric.kind is Kind.GAUGE
        return {
            "metric": change.name,
            "type": _GAUGE if is_gauge else _COUNT,
            "interval": round(self.interval),
            "points": [{"timestamp": now, "value": change.values[0]}],
            "resources": [{"type": "host", "name": self._host}],
            "tags": change.tags,
        }

    def _distribution(self, change: Change, now: int) -> dict[str, object]:
        return {
            "metric": change.name,
            "points": [[now, list(change.scaled_values)]],
            "host": self._host,
            "tags": change.tags,
        }

    async def _post(self, path: str, series: Sequence[Mapping[str, object]]) -> None:
        body = orjson.dumps({"series": series})
        try:
            response = await self._client.request("POST", self._url + path, self._headers, body)
        except HttpError as error:
            raise SendError(str(error)) from None
        if not 200 <= response.status < 300:
            raise SendError(f"HTTP {response.status}")
