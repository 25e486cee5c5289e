"""A client of DynamoDB whose responses are scripted."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from keytables.dynamodb.client import ApiResponse
from keytables.dynamodb.retries import ServiceError
from keytables.dynamodb.table_client import CONDITION_FAILED

Response = ApiResponse | dict[str, Any] | Exception | Callable[[dict[str, Any]], dict[str, Any]]


class FakeApiClient:
    """Takes the response to each call from a list; when that is used up, it is an empty object.

    ``gate``: while it is set, calls wait for it.
    """

    def __init__(self, *responses: Response) -> None:
        self.responses = list(responses)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.gate: asyncio.Event | None = None

    async def call(
        self, operation: str, body: bytes, *, table: str | None = None, time_limit: float = 0
    ) -> ApiResponse:
        request = orjson.loads(body)
        self.calls.append((operation, request))
        if self.gate is not None:
            await self.gate.wait()
        response = self.responses.pop(0) if self.responses else {}
        if isinstance(response, Exception):
            raise response
        if callable(response):
            response = response(request)
        if isinstance(response, ApiResponse):
            return response
        return ApiResponse(orjson.dumps(response), False)

    async def close(self) -> None:
        self.calls.append(("close", {}))

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.calls]


def lost_response(repeated: dict[str, Any]) -> ApiResponse:
    """The response to another attempt, after that to the first was lost."""
    return ApiResponse(orjson.dumps(repeated), True)


def condition_failed(
    item: dict[str, Any] | None = None, *, maybe_applied: bool = False
) -> ServiceError:
    """The error for a condition that does not hold for an item, in DynamoDB's form."""
    body = {} if item is None else {"Item": item}
    return ServiceError(CONDITION_FAILED, "no", orjson.dumps(body), maybe_applied=maybe_applied)


def service_error(code: str, message: str = "") -> ServiceError:
    return ServiceError(code, message, b"{}")
