"""The DynamoDB engine: opens the client, creates and drops tables, hands out handles.

Rule: all handles of a table share the sequence of its writes and its unsettled puts, and nothing is
sent once the store is closed. A table that is as declared is only described, so that the permission
to do that is enough.
"""

import asyncio
import time
from collections.abc import Container
from typing import Final, Self

from keytables.dynamodb.client import ApiClient, Client, epoch_of
from keytables.dynamodb.codec import dumps
from keytables.dynamodb.descriptions import (
    CreateTableResponse,
    DescribeTableResponse,
    DescribeTimeToLiveResponse,
    ListTablesResponse,
    TableDescription,
    check_same,
    creation_request,
    decode_response,
)
from keytables.dynamodb.retries import RetryPolicy, ServiceError
from keytables.dynamodb.table import (
    SETTLE_TIME,
    SETTLE_TIME_OF_ALTERNATOR,
    DynamoTable,
    UnsettledPuts,
)
from keytables.dynamodb.table_client import StoreClient, TableClient, to_keytables_error
from keytables.dynamodb.writes import InFlightLimit, WriteSequencer
from keytables.engine import Clock, Engine, OnFailure, TableHandle
from keytables.errors import AccessRefused, SchemaError, TableNotFound, Throttled, Unavailable
from keytables.failures import FailureReports
from keytables.retries import Attempts
from keytables.schema import Capacity, Table, check_name

MAX_WAITING_CALLS: Final = 10_000
"""Calls that may wait for a connection; further ones are Throttled."""

TABLE_CALL_TIMEOUT: Final = 20.0
"""Seconds for a call that creates, describes or changes a table."""

_NOT_FOUND: Final = "ResourceNotFoundException"
_IN_USE: Final = "ResourceInUseException"
_TOO_MANY: Final = "LimitExceededException"
_UNKNOWN_OPERATION: Final = "UnknownOperationException"
_INVALID: Final = "ValidationException"
_TIME_TO_LIVE: Final = (_UNKNOWN_OPERATION, _INVALID, _IN_USE, _TOO_MANY)
_TRANSIENT_STATUSES: Final = ("CREATING", "UPDATING", "DELETING", "ACTIVE")


class DynamoEngine(Engine):
    """Tables in DynamoDB, or in a database with its protocol. ``prefix`` begins their names there.

    ``on_failure``: called for each call that failed after all its attempts (Unavailable, and
    Throttled by the database). ``alternator``: the database is ScyllaDB. Belongs to the event loop
    it was opened on.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        prefix: str = "",
        alternator: bool = False,
        clock: Clock = time.time,
        retries: RetryPolicy | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        self._store = StoreClient(client, FailureReports(on_failure), prefix)
        self._clock, self._alternator = clock, alternator
        self._retries = retries or RetryPolicy()
        self._limit = InFlightLimit()
        self._sequencers: dict[str, WriteSequencer] = {}
        self._late_puts: dict[str, UnsettledPuts] = {}
        self._handles: dict[str, DynamoTable] = {}

    @classmethod
    async def open(
        cls,
        *,
        region: str = "",
        endpoint: str | None = None,
        prefix: str = "",
        connections: int = 50,
        alternator: bool = False,
        clock: Clock = time.time,
        on_failure: OnFailure | None = None,
    ) -> Self:
        """Find credentials and the database; nothing is read or written yet.

        ``region``: empty for the one of the AWS environment, else us-east-1. ``endpoint``: URL of a
        server in place of the region's, or several, separated by commas. ``connections``: at most,
        per server. Raises Unavailable: no such region, no credentials, or botocore is needed and
        not installed; ValueError: no such URL.
        """
        client = await Client.open(
            region=region,
            endpoint=endpoint,
            connections=connections,
            clock=clock,
            max_waiting=MAX_WAITING_CALLS,
        )
        return cls(client, prefix=prefix, alternator=alternator, clock=clock, on_failure=on_failure)

    async def open_table(self, table: Table) -> TableHandle:
        check_same(table, await self._describe_existing(table.name))
        return self._handle(table)

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> TableHandle:
        check_name("table", self._store.prefix + table.name)
        attempts = self._attempts()
        is_new = False
        description = await self._describe(table.name)
        while description is None or not description.is_usable(table):
            if description is None:
                description = await self._create(table, capacity)
                is_new = is_new or description is not None
                if description is not None and description.is_usable(table):
                    break
            elif description.table_status not in _TRANSIENT_STATUSES:
                raise Unavailable(f"table {table.name!r} is {description.table_status}")
            await attempts.wait(Unavailable(f"table {table.name!r} is not active in time"))
            description = await self._describe(table.name)
        check_same(table, description)
        # Not every version of Alternator has a time to live, and some refuse it in other ways.
        if table.expiry is not None and not self._alternator:
            await self._enable_time_to_live(table.name, table.expiry, is_new=is_new)
        return self._handle(table)

    async def drop_table(self, name: str) -> None:
        if name in self._sequencers:
            await self._sequencers[name].wait_for_all()
        self._handles.pop(name, None)
        attempts = self._attempts()
        too_late = Unavailable(f"table {name!r} is not deleted in time")
        while True:
            try:
                await self._call("DeleteTable", name, expected=(_NOT_FOUND, _IN_USE, _TOO_MANY))
                break
            except ServiceError as error:
                if error.code == _NOT_FOUND:
                    return
            # Another client creates, changes or deletes it.
            await attempts.wait(too_late)
        while await self._describe(name) is not None:
            await attempts.wait(too_late)

    async def table_names(self) -> list[str]:
        names: list[str] = []
        request: dict[str, str] = {}
        while True:
            response = await self._store.call(
                "ListTables", dumps(request), time_limit=TABLE_CALL_TIMEOUT
            )
            listed = decode_response(response.body, ListTablesResponse)
            names += listed.table_names
            if listed.last_evaluated_table_name is None:
                break
            request = {"ExclusiveStartTableName": listed.last_evaluated_table_name}
        prefix = self._store.prefix
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    async def clock_difference(self, clock: Clock) -> float:
        before = clock()
        response = await self._store.call("ListTables", dumps({"Limit": 1}))
        sent = epoch_of(response.date)
        # It has whole seconds.
        return 0.0 if sent is None else sent + 0.5 - (before + clock()) / 2

    async def capacity(self, name: str) -> Capacity | None:
        return (await self._describe_existing(name)).capacity

    async def set_capacity(self, name: str, capacity: Capacity) -> None:
        """The database may take minutes to do it. Raises Throttled: no more changes for now."""
        attempts = self._attempts()
        while True:
            change = (await self._describe_existing(name)).capacity_change(capacity)
            if not change:
                return
            try:
                await self._call("UpdateTable", name, change, expected=(_IN_USE, _TOO_MANY))
            except ServiceError as error:
                if error.code == _TOO_MANY:
                    raise Throttled(f"UpdateTable on table {name!r}: {error.message}") from error
            else:
                return
            await attempts.wait(Unavailable(f"table {name!r} is being changed by another client"))

    async def close(self) -> None:
        self._limit.close()
        for sequencer in list(self._sequencers.values()):
            await sequencer.wait_for_all()
        await self._store.close()

    def _handle(self, table: Table) -> DynamoTable:
        handle = self._handles.get(table.name)
        if handle is None or handle.table != table:
            sequencer = self._sequencers.setdefault(table.name, WriteSequencer(self._limit))
            client = TableClient(self._store, table, self._clock, self._retries)
            settle_time = SETTLE_TIME_OF_ALTERNATOR if self._alternator else SETTLE_TIME
            late_puts = self._late_puts.setdefault(table.name, UnsettledPuts(settle_time))
            handle = self._handles[table.name] = DynamoTable(client, sequencer, late_puts)
        return handle

    async def _create(self, table: Table, capacity: Capacity | None) -> TableDescription | None:
        """Request a table; ``None``: it exists, or cannot be created right now."""
        request = creation_request(table, capacity)
        try:
            body = await self._call(
                "CreateTable", table.name, request, expected=(_IN_USE, _TOO_MANY)
            )
        except ServiceError:
            return None
        return decode_response(body, CreateTableResponse).table_description

    async def _enable_time_to_live(self, table: str, attribute: str, *, is_new: bool) -> None:
        """Let the database delete expired items, which are hidden in any case."""
        change: dict[str, object] = {
            "TimeToLiveSpecification": {"Enabled": True, "AttributeName": attribute}
        }
        attempts = self._attempts()
        try:
            if not is_new and await self._has_time_to_live(table, attribute):
                return
            while True:
                try:
                    await self._call("UpdateTimeToLive", table, change, expected=_TIME_TO_LIVE)
                except ServiceError as error:
                    # Another client may have been first, or be changing the table.
                    if error.code == _UNKNOWN_OPERATION:
                        return
                    if await self._has_time_to_live(table, attribute):
                        return
                    failure = to_keytables_error(error, "UpdateTimeToLive", table)
                    if error.code == _INVALID:
                        raise failure from error
                    await attempts.wait(failure)
                else:
                    return
        except AccessRefused:
            if is_new:
                raise

    async def _has_time_to_live(self, table: str, attribute: str) -> bool:
        """Return whether it is enabled, or the database does not know it. Raises SchemaError when
        it is enabled for another attribute.
        """
        try:
            body = await self._call("DescribeTimeToLive", table, expected=(_UNKNOWN_OPERATION,))
        except ServiceError:  # expired items are hidden in any case
            return True
        ttl = decode_response(body, DescribeTimeToLiveResponse).time_to_live_description
        if not ttl.is_enabled:
            return False
        if ttl.attribute_name != attribute:
            raise SchemaError(
                f"table {table!r} exists with other expiry: {ttl.attribute_name} instead of "
                f"{attribute}"
            )
        return True

    async def _describe(self, table: str) -> TableDescription | None:
        try:
            body = await self._call("DescribeTable", table, expected=(_NOT_FOUND,))
        except ServiceError:
            return None
        return decode_response(body, DescribeTableResponse).table

    async def _describe_existing(self, table: str) -> TableDescription:
        description = await self._describe(table)
        if description is None:
            raise TableNotFound(table)
        return description

    async def _call(
        self,
        operation: str,
        table: str,
        members: dict[str, object] | None = None,
        *,
        expected: Container[str],
    ) -> bytes:
        body = dumps({"TableName": self._store.prefix + table, **(members or {})})
        response = await self._store.call(
            operation, body, table, expected=expected, time_limit=TABLE_CALL_TIMEOUT
        )
        return response.body

    def _attempts(self) -> Attempts:
        deadline = asyncio.get_running_loop().time() + self._retries.table_timeout
        return Attempts(self._retries.table_backoff, deadline)
