"""What the reference engine's calls have in common: one at a time, and failures in our words."""

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
from support.aiobotocore_expressions import item_of

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient

T = TypeVar("T")

THROTTLES = {"ProvisionedThroughputExceededException", "ThrottlingException"}


@dataclass
class Calls:
    """The way to the database. What is given to `in_turn` runs in the order it was given."""

    client: "DynamoDBClient"
    prefix: str
    clock: Clock
    closed: bool = False
    last: "asyncio.Task[Any] | None" = field(default=None, repr=False)

    def in_turn(
        self, table: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> "asyncio.Future[T]":
        """Do it when everything submitted before is done. Cancelling the wait does not stop it."""
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
    """Failures of a call, as ours."""
    try:
        yield
    except ClientError as error:
        answer = cast(dict[str, Any], error.response)
        code, message = answer["Error"].get("Code", ""), answer["Error"].get("Message", "")
        if code == "ConditionalCheckFailedException":
            raise ConditionFailed(item_of(answer["Item"]) if answer.get("Item") else None) from None
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
