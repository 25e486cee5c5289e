"""The calls of the reference engine: one at a time, with the errors of keytables."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError

from keytables import (
    Clock,
    ConditionFailed,
    ItemTooLarge,
    SchemaError,
    TableNotFound,
    Throttled,
    Unavailable,
)
from support.aiobotocore_expressions import decode_item

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

T = TypeVar("T")

THROTTLES = {"ProvisionedThroughputExceededException", "ThrottlingException"}


@dataclass
class Calls:
    """Calls of the database. What is given to `in_order` runs in that order, one at a time."""

    client: "DynamoDBClient"
    prefix: str
    clock: Clock
    closed: bool = False
    last: "asyncio.Task[Any] | None" = field(default=None, repr=False)

    def in_order(
        self, table: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> "asyncio.Future[T]":
        """Run it after everything submitted before. Cancelling the wait does not stop it."""
        before, closed = self.last, self.closed

        async def run() -> T:
            if closed:
                raise Unavailable("the engine is closed")
            if before is not None:
                await asyncio.wait([before])
            with calling(table):
                return await work()

        self.last = asyncio.ensure_future(run())
        return asyncio.shield(self.last)

    async def close(self) -> None:
        self.closed = True
        if self.last is not None:
            await asyncio.wait([self.last])


@contextmanager
def calling(table: str) -> Iterator[None]:
    """Raise failures of a call as errors of keytables."""
    try:
        yield
    except ClientError as error:
        response = cast(dict[str, Any], error.response)
        code, message = response["Error"].get("Code", ""), response["Error"].get("Message", "")
        if code == "ConditionalCheckFailedException":
            raise ConditionFailed(
                decode_item(response["Item"]) if response.get("Item") else None
            ) from None
        if code == "ResourceNotFoundException":
            raise TableNotFound(table) from error
        if code == "ValidationException":
            if "exceeded the maximum allowed size" in message:
                raise ItemTooLarge(0, 0) from error
            raise SchemaError(message) from error
        if code in THROTTLES:
            raise Throttled(message) from error
        raise Unavailable(f"{code}: {message}") from error
    except BotoCoreError as error:
        raise Unavailable(str(error)) from error
