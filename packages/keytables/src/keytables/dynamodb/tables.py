"""Making, describing and dropping tables in DynamoDB.

The one rule: a table that is there is taken as it is, or refused. One that is as declared is only
looked at, so that the right to look is enough.
"""

from typing import Final, TypeVar

import msgspec

from keytables.dynamodb.codec import dumps
from keytables.dynamodb.descriptions import Description, check_same, creation, throughput
from keytables.dynamodb.pauses import Pauses
from keytables.dynamodb.remote import Caller, translate
from keytables.dynamodb.retries import ServiceError
from keytables.errors import AccessRefused, SchemaError, TableNotFound, Throttled, Unavailable
from keytables.schema import Capacity, Table

__all__ = ["Tables"]

_T = TypeVar("_T")

CALL: Final = 20.0
"""Seconds for one call."""
PATIENCE: Final = 300.0
"""Seconds for a table to be made, changed or dropped."""

_GONE: Final = "ResourceNotFoundException"
_IN_USE: Final = "ResourceInUseException"
_LIMIT: Final = "LimitExceededException"
_UNKNOWN: Final = "UnknownOperationException"
_PASSING: Final = ("CREATING", "UPDATING", "DELETING", "ACTIVE")


class _Described(msgspec.Struct, rename="pascal"):
    table: Description


class _Created(msgspec.Struct, rename="pascal"):
    table_description: Description


class _Listed(msgspec.Struct, rename="pascal"):
    table_names: list[str]
    last_evaluated_table_name: str | None = None


class _Expiry(msgspec.Struct, rename="pascal"):
    time_to_live_status: str = "DISABLED"
    attribute_name: str | None = None


class _ExpiryDescribed(msgspec.Struct, rename="pascal"):
    time_to_live_description: _Expiry


class Tables:
    """The tables of a store: those whose names begin with ``prefix``."""

    def __init__(self, client: Caller, prefix: str, *, alternator: bool = False) -> None:
        self._client, self._prefix, self._alternator = client, prefix, alternator

    def name(self, table: str) -> str:
        """Return the name of a table in the database."""
        return self._prefix + table

    async def ensure(self, table: Table, capacity: Capacity | None) -> None:
        """Make a table unless it is there, and wait until it can be used.

        Raises SchemaError when it is there with other keys, indexes or expiry.
        """
        pauses = self._pauses()
        made = False
        found = await self._describe(table.name)
        while found is None or not found.usable(table):
            if found is None:
                found = await self._create(table, capacity)
                made = made or found is not None
                if found is not None and found.usable(table):
                    break
            elif found.table_status not in _PASSING:
                raise Unavailable(f"table {table.name!r} is {found.table_status}")
            await pauses.pause(Unavailable(f"table {table.name!r} is not active in time"))
            found = await self._describe(table.name)
        check_same(table, found)
        # Not every version of Alternator sweeps, and some refuse it in ways of their own.
        if table.expiry is not None and not self._alternator:
            await self._turn_on_expiry(table.name, table.expiry, made=made)

    async def check(self, table: Table) -> None:
        """Raises TableNotFound, or SchemaError when it is there with other keys or indexes."""
        check_same(table, await self._existing(table.name))

    async def drop(self, table: str) -> None:
        """Drop a table and wait until it is gone."""
        pauses = self._pauses()
        too_late = Unavailable(f"table {table!r} is not gone in time")
        while True:
            try:
                await self._call("DeleteTable", table)
                break
            except ServiceError as error:
                if error.code == _GONE:
                    return
                if error.code not in (_IN_USE, _LIMIT):
                    raise translate(error, "DeleteTable", table) from error
            # It is being made, changed, or dropped by somebody else.
            await pauses.pause(too_late)
        while await self._describe(table) is not None:
            await pauses.pause(too_late)

    async def names(self) -> list[str]:
        """Return the names of the tables of this store, without the prefix, sorted."""
        found: list[str] = []
        start: dict[str, str] = {}
        while True:
            try:
                reply = await self._client.call("ListTables", dumps(start), patience=CALL)
            except ServiceError as error:
                raise Unavailable(f"ListTables fails: {error}") from error
            listed = _read(reply.body, _Listed)
            found += listed.table_names
            if listed.last_evaluated_table_name is None:
                break
            start = {"ExclusiveStartTableName": listed.last_evaluated_table_name}
        prefix = self._prefix
        return sorted(name.removeprefix(prefix) for name in found if name.startswith(prefix))

    async def capacity(self, table: str) -> Capacity | None:
        """Return what a table is provisioned for, ``None`` if it is billed by use."""
        return (await self._existing(table)).capacity

    async def set_capacity(self, table: str, capacity: Capacity) -> None:
        """Provision a table and its indexes anew, where that changes anything.

        The database may take some minutes more to do so. Raises Throttled when it allows no more
        changes for now.
        """
        pauses = self._pauses()
        while True:
            found = await self._existing(table)
            if found.capacity is None:
                return
            units = throughput(capacity)
            change: dict[str, object] = {}
            if found.capacity != capacity:
                change["ProvisionedThroughput"] = units
            indexes = [
                {"Update": {"IndexName": index.index_name, "ProvisionedThroughput": units}}
                for index in found.global_secondary_indexes
                if index.provisioned_throughput.capacity != capacity
            ]
            if indexes:
                change["GlobalSecondaryIndexUpdates"] = indexes
            if not change:
                return
            try:
                await self._call("UpdateTable", table, change)
            except ServiceError as error:
                if error.code == _LIMIT:
                    raise Throttled(f"UpdateTable on table {table!r}: {error.message}") from error
                if error.code != _IN_USE:
                    raise translate(error, "UpdateTable", table) from error
            else:
                return
            await pauses.pause(Unavailable(f"table {table!r} is being changed by somebody else"))

    async def _create(self, table: Table, capacity: Capacity | None) -> Description | None:
        """Ask for a table; ``None``: it is there, or cannot be made right now."""
        name = self.name(table.name)
        try:
            reply = await self._client.call(
                "CreateTable", dumps(creation(table, name, capacity)), table=name, patience=CALL
            )
        except ServiceError as error:
            if error.code in (_IN_USE, _LIMIT):
                return None
            raise translate(error, "CreateTable", table.name) from error
        return _read(reply.body, _Created).table_description

    async def _turn_on_expiry(self, table: str, attribute: str, *, made: bool) -> None:
        """Have the database sweep expired items. Without it they are absent all the same."""
        change: dict[str, object] = {
            "TimeToLiveSpecification": {"Enabled": True, "AttributeName": attribute}
        }
        pauses = self._pauses()
        try:
            if not made and await self._sweeps(table, attribute):
                return
            while True:
                try:
                    await self._call("UpdateTimeToLive", table, change)
                except ServiceError as error:
                    # Another process may have been first, or be changing the table.
                    if error.code == _UNKNOWN:
                        raise
                    if await self._sweeps(table, attribute):
                        return
                    if error.code not in (_IN_USE, _LIMIT):
                        raise
                    await pauses.pause(translate(error, "UpdateTimeToLive", table))
                else:
                    return
        except AccessRefused:
            if made:
                raise
        except ServiceError as error:
            if error.code != _UNKNOWN:
                raise translate(error, "UpdateTimeToLive", table) from error

    async def _sweeps(self, table: str, attribute: str) -> bool:
        """Whether the table's expired items are swept. Raises SchemaError when it goes by another
        attribute.
        """
        body = await self._call("DescribeTimeToLive", table)
        found = _read(body, _ExpiryDescribed).time_to_live_description
        if found.time_to_live_status not in ("ENABLED", "ENABLING"):
            return False
        if found.attribute_name != attribute:
            raise SchemaError(
                f"table {table!r} exists with other expiry: {found.attribute_name} instead of "
                f"{attribute}"
            )
        return True

    async def _describe(self, table: str) -> Description | None:
        try:
            body = await self._call("DescribeTable", table)
        except ServiceError as error:
            if error.code == _GONE:
                return None
            raise translate(error, "DescribeTable", table) from error
        return _read(body, _Described).table

    async def _existing(self, table: str) -> Description:
        found = await self._describe(table)
        if found is None:
            raise TableNotFound(table)
        return found

    async def _call(
        self, operation: str, table: str, members: dict[str, object] | None = None
    ) -> bytes:
        name = self.name(table)
        body = dumps({"TableName": name, **(members or {})})
        return (await self._client.call(operation, body, table=name, patience=CALL)).body

    def _pauses(self) -> Pauses:
        return Pauses(PATIENCE, cap=2.0)


def _read(body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable("the answer of the database is not one of DynamoDB's") from error
