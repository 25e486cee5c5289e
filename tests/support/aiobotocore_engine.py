"""The reference engine: the table interface over aiobotocore, to check the conformance suite.

As simple as possible, and shares nothing with the DynamoDB engine but the checks of every engine.
Operations run one at a time, in the order submitted.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Self, cast

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import ClientError

from keytables import (
    Capacity,
    Clock,
    Engine,
    Index,
    SchemaError,
    Table,
    TableHandle,
    Unavailable,
)
from support.aiobotocore_calls import Calls
from support.aiobotocore_table import AiobotocoreTable

__all__ = ["AiobotocoreEngine"]

_SESSION = get_session()  # caches the description of the API
_POLL = 0.05
_POLLS = 100
"""For a table that is being created or deleted."""
_FEW_POLLS = 20
"""For what happens at once where it happens at all."""


class AiobotocoreEngine(Engine):
    """Tables of one account whose names begin with a prefix."""

    def __init__(self, calls: Calls, opened: AsyncExitStack) -> None:
        self._calls = calls
        self._client = calls.client
        self._opened = opened

    @classmethod
    async def open(cls, endpoint: str, *, prefix: str = "", clock: Clock) -> Self:
        opened = AsyncExitStack()
        client = await opened.enter_async_context(
            _SESSION.create_client(
                "dynamodb",
                region_name="us-east-1",
                endpoint_url=endpoint,
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=AioConfig(retries={"mode": "standard", "max_attempts": 5}),
            )
        )
        return cls(Calls(client, prefix, clock), opened)

    def _name(self, name: str) -> str:
        return self._calls.prefix + name

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> TableHandle:
        await self._calls.in_order(table.name, lambda: self._ensure(table, capacity))
        return AiobotocoreTable(self._calls, table)

    async def _ensure(self, table: Table, capacity: Capacity | None) -> None:
        name = self._name(table.name)
        try:
            await self._client.create_table(TableName=name, **_creation(table, capacity))
        except ClientError as error:
            if error.response["Error"].get("Code") != "ResourceInUseException":
                raise
        else:
            if table.expiry is not None:
                await self._wait_until_active(name)
                await self._client.update_time_to_live(
                    TableName=name,
                    TimeToLiveSpecification={"Enabled": True, "AttributeName": table.expiry},
                )
        found = await self._wait_until_active(name)
        if _shape(found) != _shape(_creation(table, None)):
            raise SchemaError(f"table {table.name!r} has other keys or indexes")
        if not await self._expires_by(name, table.expiry):
            raise SchemaError(f"table {table.name!r} has another expiry")

    async def _wait_until_active(self, name: str) -> Mapping[str, Any]:
        for _ in range(_POLLS):
            table = (await self._client.describe_table(TableName=name))["Table"]
            if table.get("TableStatus") == "ACTIVE":
                return cast(Mapping[str, Any], table)
            await asyncio.sleep(_POLL)
        raise Unavailable(f"table {name!r} does not become active")

    async def _expires_by(self, name: str, attribute: str | None) -> bool:
        for _ in range(_FEW_POLLS):
            response = await self._client.describe_time_to_live(TableName=name)
            found = response["TimeToLiveDescription"].get("AttributeName")
            if found is not None or attribute is None:
                return found == attribute
            # The process that created the table may be about to set it.
            await asyncio.sleep(_POLL)
        return False

    async def drop_table(self, name: str) -> None:
        async def work() -> None:
            try:
                await self._client.delete_table(TableName=self._name(name))
                for _ in range(_POLLS):
                    await self._client.describe_table(TableName=self._name(name))
                    await asyncio.sleep(_POLL)
            except ClientError as error:
                if error.response["Error"].get("Code") == "ResourceNotFoundException":
                    return
                raise
            raise Unavailable(f"table {name!r} is not deleted in time")

        await self._calls.in_order(name, work)

    async def table_names(self) -> list[str]:
        async def work() -> list[str]:
            names: list[str] = []
            async for page in self._client.get_paginator("list_tables").paginate():
                names += page["TableNames"]
            prefix = self._calls.prefix
            return sorted(name[len(prefix) :] for name in names if name.startswith(prefix))

        return await self._calls.in_order("", work)

    async def capacity(self, name: str) -> Capacity | None:
        async def work() -> Capacity | None:
            response = await self._client.describe_table(TableName=self._name(name))
            units = response["Table"].get("ProvisionedThroughput", {})
            read, write = units.get("ReadCapacityUnits"), units.get("WriteCapacityUnits")
            return Capacity(read, write) if read and write else None

        return await self._calls.in_order(name, work)

    async def set_capacity(self, name: str, capacity: Capacity) -> None:
        if await self.capacity(name) in (None, capacity):
            return

        async def work() -> None:
            units = _units(capacity)["ProvisionedThroughput"]
            table = (await self._client.describe_table(TableName=self._name(name)))["Table"]
            indexes = [index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])]
            more: Any = {
                "GlobalSecondaryIndexUpdates": [
                    {"Update": {"IndexName": index, "ProvisionedThroughput": units}}
                    for index in indexes
                ]
            }
            await self._client.update_table(
                TableName=self._name(name),
                ProvisionedThroughput=units,
                **(more if indexes else {}),
            )
            await self._wait_until_active(self._name(name))

        await self._calls.in_order(name, work)

    async def close(self) -> None:
        await self._calls.close()
        await self._opened.aclose()


def _units(capacity: Capacity | None) -> dict[str, Any]:
    if capacity is None:
        return {}
    units = {"ReadCapacityUnits": capacity.read, "WriteCapacityUnits": capacity.write}
    return {"ProvisionedThroughput": units}


def _creation(table: Table, capacity: Capacity | None) -> dict[str, Any]:
    """Arguments of CreateTable."""
    kinds = {key.name: key.kind.value for key in table.key_attributes}
    found: dict[str, Any] = {
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()
        ],
        "KeySchema": _keys(table),
        "BillingMode": "PROVISIONED" if capacity else "PAY_PER_REQUEST",
        **_units(capacity),
    }
    if table.indexes:
        found["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index.name,
                "KeySchema": _keys(index),
                "Projection": {"ProjectionType": "KEYS_ONLY" if index.keys_only else "ALL"},
                **_units(capacity),
            }
            for index in table.indexes
        ]
    return found


def _keys(keyed: Table | Index) -> list[dict[str, str]]:
    keys = [{"AttributeName": keyed.partition.name, "KeyType": "HASH"}]
    if keyed.sort is not None:
        keys.append({"AttributeName": keyed.sort.name, "KeyType": "RANGE"})
    return keys


def _shape(described: Mapping[str, Any]) -> object:
    """Keys and indexes as DescribeTable or CreateTable have them, in no order."""
    indexes = described.get("GlobalSecondaryIndexes") or []
    return (
        described["KeySchema"],
        {key["AttributeName"]: key["AttributeType"] for key in described["AttributeDefinitions"]},
        {i["IndexName"]: (i["KeySchema"], i["Projection"]["ProjectionType"]) for i in indexes},
    )
