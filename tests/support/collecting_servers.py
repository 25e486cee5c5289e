"""Servers of Datadog, Sentry and Amazon Data Firehose, which take what a client sends."""

import asyncio
import base64
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from support.provider_server import ProviderExchange, ProviderServer

KEY: Final = "0123456789abcdef0123456789abcdef"
"""Of Datadog and of Sentry."""
PROJECT: Final = "7"
"""Of Sentry."""
TARGET = "Firehose_20150804.PutRecordBatch"
STREAM = "push-logs"
MAX_RECORDS = 500
MAX_RECORD = 1_000 * 1024
MAX_BATCH = 4 * 1024 * 1024


@dataclass(frozen=True)
class Collected:
    """A request that was received; the body is not compressed any more."""

    path: str
    headers: dict[str, str]
    body: bytes


class CollectingServer(ProviderServer):
    """Keeps each request. `location`: where a redirect leads."""

    location = ""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Collected] = []
        self._changed = asyncio.Condition()

    def respond(self, request: Collected) -> tuple[int, bytes]:
        """Status and body of the answer."""
        raise NotImplementedError

    async def handle(self, exchange: ProviderExchange) -> None:
        headers, body = dict(exchange.request.headers), exchange.request.body
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = Collected(exchange.request.path, headers, body)
        status, answer = self.respond(request)
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        sent = {"content-type": "application/x-amz-json-1.1"}
        if 300 <= status < 400:
            sent["location"] = self.location
        await exchange.respond(status, answer, sent)

    def wait(self, number: int) -> list[Collected]:
        """The requests, as soon as there are so many."""
        self.wait_until(lambda: len(self.requests) >= number, f"{number} requests")
        return list(self.requests)

    def wait_until(self, is_there: Callable[[], bool], what: str) -> None:
        """Wait for a request that makes it true."""

        async def wait() -> None:
            async with self._changed:
                await self._changed.wait_for(is_there)

        try:
            self.run(wait())
        except TimeoutError:
            pytest.fail(f"{what} did not come, but {len(self.requests)} requests")


class DatadogServer(CollectingServer):
    """`status`: what it answers to the right key; to requests of `refused_path` it is 403."""

    location = "http://127.0.0.1:9/elsewhere"

    def __init__(self) -> None:
        super().__init__()
        self.status = 202
        self.refused_path = ""
        self.series: list[dict[str, Any]] = []
        self.distributions: list[dict[str, Any]] = []

    def wait_for(self, name: str) -> dict[str, Any]:
        """The first series, or distribution, of that metric."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [s for s in (*self.series, *self.distributions) if s["metric"] == name]
            return bool(found)

        self.wait_until(is_there, name)
        return found[0]

    def respond(self, request: Collected) -> tuple[int, bytes]:
        taken = {"/api/v2/series": self.series, "/api/v1/distribution_points": self.distributions}
        if request.headers["dd-api-key"] != KEY or request.path == self.refused_path:
            return 403, b""
        if request.path not in taken:
            return 404, b""
        if self.status == 202:
            taken[request.path].extend(json.loads(request.body)["series"])
        return self.status, b""


class SentryServer(CollectingServer):
    """`status`: what envelopes are answered."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 200

    @property
    def dsn(self) -> str:
        return f"http://{KEY}@127.0.0.1:{self.port}/{PROJECT}"

    @property
    def text(self) -> str:
        """All that was received."""
        return "".join(request.body.decode() for request in self.requests)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events received so far, without reports of the SDK about itself."""
        found = []
        for request in self.requests:
            lines = [json.loads(line) for line in request.body.splitlines() if line]
            found += [
                body
                for head, body in zip(lines[1::2], lines[2::2], strict=True)
                if head["type"] == "event"
            ]
        return found

    @property
    def exceptions(self) -> list[tuple[str, str]]:
        """Type and text of the exception of each event."""
        last = [event["exception"]["values"][-1] for event in self.events]
        return [(each["type"], each["value"]) for each in last]

    def respond(self, request: Collected) -> tuple[int, bytes]:
        assert request.path == f"/api/{PROJECT}/envelope/"
        assert f"sentry_key={KEY}" in request.headers["x-sentry-auth"]
        return self.status, b"{}"


class FirehoseServer(CollectingServer):
    """`failures`: what the next calls are answered: a status, or the places of the records that
    are not taken. `records`: what was taken, in the order of arrival.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[int | Sequence[int]] = []
        self.batches: list[list[bytes]] = []
        self.records: list[bytes] = []

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a client."""
        return {
            "AWS_ENDPOINT_URL_FIREHOSE": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def respond(self, request: Collected) -> tuple[int, bytes]:
        assert request.headers["x-amz-target"] == TARGET
        assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=test/")
        document = json.loads(request.body)
        records = [base64.b64decode(record["Data"]) for record in document["Records"]]
        self.batches.append(records)
        size = sum(map(len, records))
        if (
            not 0 < len(records) <= MAX_RECORDS
            or size > MAX_BATCH
            or max(map(len, records)) > MAX_RECORD
        ):
            return 400, json.dumps({"__type": "InvalidArgumentException"}).encode()
        if document["DeliveryStreamName"] != STREAM:
            return 400, json.dumps({"__type": "ResourceNotFoundException"}).encode()
        failure: int | Sequence[int] = self.failures.pop(0) if self.failures else ()
        if isinstance(failure, int):
            return failure, json.dumps({"__type": "ServiceUnavailableException"}).encode()
        results = []
        for place, record in enumerate(records):
            if place in failure:
                results.append({"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow"})
            else:
                self.records.append(record)
                results.append({"RecordId": f"{len(self.records)}"})
        answer = {"FailedPutCount": len(failure), "Encrypted": False, "RequestResponses": results}
        return 200, json.dumps(answer).encode()
