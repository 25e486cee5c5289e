"""What is reported of the database's failures: calls that end with an error which is neither the
caller's mistake nor a limit of this process.
"""

from typing import Final

from keytables.dynamodb.client import ApiClient, ApiResponse
from keytables.dynamodb.pool import PoolExhausted
from keytables.dynamodb.retries import CALL_TIMEOUT, ServiceError
from keytables.dynamodb.table_client import CONDITION_FAILED, to_keytables_error
from keytables.engine import OnFailure
from keytables.errors import KeytablesError, Unavailable

__all__ = ["ReportingClient"]

_VERDICTS: Final = frozenset(
    {
        CONDITION_FAILED,
        "LimitExceededException",
        "ResourceInUseException",
        "UnknownOperationException",
    }
)
"""Codes that the engine acts on; the others mean what `to_keytables_error` says."""


class ReportingClient:
    """Calls as `client` does, and reports each that failed after all its attempts: Throttled by the
    database, or Unavailable, and AccessRefused among it.
    """

    def __init__(self, client: ApiClient, on_failure: OnFailure) -> None:
        self._client = client
        self._on_failure = on_failure
        self._is_closed = False

    async def call(
        self,
        operation: str,
        body: bytes,
        *,
        table: str | None = None,
        time_limit: float = CALL_TIMEOUT,
    ) -> ApiResponse:
        try:
            return await self._client.call(operation, body, table=table, time_limit=time_limit)
        except ServiceError as error:
            if error.code not in _VERDICTS:
                meaning = to_keytables_error(error, operation, table or "")
                if isinstance(meaning, Unavailable):
                    self._on_failure(meaning)
            raise
        except KeytablesError as error:
            if not self._is_closed and not isinstance(error.__cause__, PoolExhausted):
                self._on_failure(error)
            raise

    async def close(self) -> None:
        self._is_closed = True
        await self._client.close()
