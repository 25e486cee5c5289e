"""A client of DynamoDB that follows a script."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from keytables.dynamodb.client import Reply
from keytables.dynamodb.remote import REFUSED
from keytables.dynamodb.retries import ServiceError

Answer = dict[str, Any] | Exception | Callable[[dict[str, Any]], dict[str, Any]]


class FakeCaller:
    """Answers call after call from a list; an empty list answers with an empty object.

    ``gate``: while it is set, calls wait for it.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.gate: asyncio.Event | None = None

    async def call(
        self, operation: str, body: bytes, *, table: str | None = None, patience: float = 0
    ) -> Reply:
        request = orjson.loads(body)
        self.calls.append((operation, request))
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer(request)
        return Reply(orjson.dumps(answer), False)

    async def close(self) -> None:
        self.calls.append(("close", {}))

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.calls]


def refused(item: dict[str, Any] | None = None, *, repeated: bool = False) -> ServiceError:
    """The verdict that a condition does not hold, on an item as it is sent."""
    body = {} if item is None else {"Item": item}
    return ServiceError(REFUSED, "no", orjson.dumps(body), repeated=repeated)


def verdict(code: str, message: str = "", *, repeated: bool = False) -> ServiceError:
    return ServiceError(code, message, b"{}", repeated=repeated)
