"""Amazon Data Firehose, for tests: PutRecordBatch of the JSON 1.1 protocol, with its limits."""

import base64
import json
from collections.abc import Sequence
from typing import Self

from support.collecting_server import Collected, CollectingServer

TARGET = "Firehose_20150804.PutRecordBatch"
STREAM = "push-logs"
MAX_RECORDS = 500
MAX_RECORD = 1_000 * 1024
MAX_BATCH = 4 * 1024 * 1024


class FirehoseServer:
    """`failures`: what the next calls are answered: a status, or the places of the records that
    are not taken. `records`: what was taken, in the order of arrival.
    """

    def __init__(self) -> None:
        self.failures: list[int | Sequence[int]] = []
        self.batches: list[list[bytes]] = []
        self.records: list[bytes] = []
        self.server = CollectingServer(self._respond)

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a client."""
        return {
            "AWS_ENDPOINT_URL_FIREHOSE": f"http://127.0.0.1:{self.server.port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test-secret",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def _respond(self, request: Collected) -> tuple[int, bytes]:
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
