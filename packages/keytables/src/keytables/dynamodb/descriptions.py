"""Descriptions of tables by DynamoDB, and the request that creates a table.

Declared and existing tables are compared in one form, so that an error tells what differs.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from keytables.errors import SchemaError, Unavailable
from keytables.schema import Capacity, Key, Table

_T = TypeVar("_T")


class KeyElement(msgspec.Struct, rename="pascal"):
    """A key attribute; ``key_type``: HASH or RANGE."""

    attribute_name: str
    key_type: str


class AttributeDefinition(msgspec.Struct, rename="pascal"):
    attribute_name: str
    attribute_type: str


class ProvisionedThroughput(msgspec.Struct, rename="pascal"):
    """Zeros where the table is billed by use."""

    read_capacity_units: int = 0
    write_capacity_units: int = 0

    @property
    def capacity(self) -> Capacity | None:
        if not self.read_capacity_units or not self.write_capacity_units:
            return None
        return Capacity(self.read_capacity_units, self.write_capacity_units)


class IndexProjection(msgspec.Struct, rename="pascal"):
    projection_type: str = "ALL"


class IndexDescription(msgspec.Struct, rename="pascal"):
    index_name: str
    key_schema: list[KeyElement]
    projection: IndexProjection = msgspec.field(default_factory=IndexProjection)
    index_status: str = "ACTIVE"
    provisioned_throughput: ProvisionedThroughput = msgspec.field(
        default_factory=ProvisionedThroughput
    )


class BillingModeSummary(msgspec.Struct, rename="pascal"):
    billing_mode: str = "PROVISIONED"


class TableDescription(msgspec.Struct, rename="pascal"):
    table_status: str
    attribute_definitions: list[AttributeDefinition] = []
    key_schema: list[KeyElement] = []
    global_secondary_indexes: list[IndexDescription] = []
    provisioned_throughput: ProvisionedThroughput = msgspec.field(
        default_factory=ProvisionedThroughput
    )
    billing_mode_summary: BillingModeSummary = msgspec.field(default_factory=BillingModeSummary)

    def is_usable(self, table: Table) -> bool:
        """Return whether the table and its declared indexes are usable, even during changes."""
        # Indexes that are not declared may take hours to be filled.
        declared = {index.name for index in table.indexes}
        indexes = (one for one in self.global_secondary_indexes if one.index_name in declared)
        statuses = (self.table_status, *(index.index_status for index in indexes))
        return all(status in ("ACTIVE", "UPDATING") for status in statuses)

    @property
    def capacity(self) -> Capacity | None:
        """The capacity of the table itself; None: it is billed by use."""
        if self.billing_mode_summary.billing_mode == "PAY_PER_REQUEST":
            return None
        return self.provisioned_throughput.capacity

    def capacity_change(self, capacity: Capacity) -> dict[str, object]:
        """Return the members of UpdateTable that set a capacity; none: unchanged, billed by use."""
        if self.capacity is None:
            return {}
        change: dict[str, object] = {}
        units = _units(capacity)
        if self.capacity != capacity:
            change["ProvisionedThroughput"] = units
        indexes = [
            {"Update": {"IndexName": index.index_name, "ProvisionedThroughput": units}}
            for index in self.global_secondary_indexes
            if index.provisioned_throughput.capacity != capacity
        ]
        if indexes:
            change["GlobalSecondaryIndexUpdates"] = indexes
        return change


class TimeToLive(msgspec.Struct, rename="pascal"):
    time_to_live_status: str = "DISABLED"
    attribute_name: str | None = None

    @property
    def is_enabled(self) -> bool:
        return self.time_to_live_status in ("ENABLED", "ENABLING")


class DescribeTableResponse(msgspec.Struct, rename="pascal"):
    table: TableDescription


class CreateTableResponse(msgspec.Struct, rename="pascal"):
    table_description: TableDescription


class ListTablesResponse(msgspec.Struct, rename="pascal"):
    table_names: list[str]
    last_evaluated_table_name: str | None = None


class DescribeTimeToLiveResponse(msgspec.Struct, rename="pascal"):
    time_to_live_description: TimeToLive


def decode_response(body: bytes, kind: type[_T]) -> _T:
    """Return a response as a struct of this module. Raises Unavailable if it is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable("the response of the database is not one of DynamoDB's") from error


def creation_request(table: Table, capacity: Capacity | None) -> dict[str, object]:
    billing: dict[str, object] = {"BillingMode": "PAY_PER_REQUEST"}
    throughput: dict[str, object] = {}
    if capacity is not None:
        throughput = {"ProvisionedThroughput": _units(capacity)}
        billing = {"BillingMode": "PROVISIONED", **throughput}
    request: dict[str, object] = {
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": kind} for name, kind in _kinds(table).items()
        ],
        "KeySchema": _key_schema(table.partition, table.sort),
        **billing,
    }
    if table.indexes:
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index.name,
                "KeySchema": _key_schema(index.partition, index.sort),
                "Projection": {"ProjectionType": _projection(keys_only=index.keys_only)},
                **throughput,
            }
            for index in table.indexes
        ]
    return request


def check_same(table: Table, description: TableDescription) -> None:
    """Raise SchemaError unless a table has the declared keys and, at least, the indexes."""
    kinds = {one.attribute_name: one.attribute_type for one in description.attribute_definitions}
    declared = {
        "keys": _keys(_key_schema(table.partition, table.sort), _kinds(table)),
        **{
            f"index {index.name}": _keys(_key_schema(index.partition, index.sort), _kinds(table))
            + f" {_projection(keys_only=index.keys_only)}"
            for index in table.indexes
        },
    }
    existing = {
        "keys": _keys(_elements(description.key_schema), kinds),
        **{
            f"index {index.index_name}": _keys(_elements(index.key_schema), kinds)
            + f" {index.projection.projection_type}"
            for index in description.global_secondary_indexes
        },
    }
    wrong = [
        f"{what}: {existing.get(what, 'none')} instead of {wanted}"
        for what, wanted in declared.items()
        if existing.get(what) != wanted
    ]
    if wrong:
        raise SchemaError(f"table {table.name!r} exists with other {'; '.join(wrong)}")


def _units(capacity: Capacity) -> dict[str, int]:
    return {"ReadCapacityUnits": capacity.read, "WriteCapacityUnits": capacity.write}


def _key_schema(partition: Key, sort: Key | None) -> list[dict[str, str]]:
    elements = [{"AttributeName": partition.name, "KeyType": "HASH"}]
    if sort is not None:
        elements.append({"AttributeName": sort.name, "KeyType": "RANGE"})
    return elements


def _projection(*, keys_only: bool) -> str:
    return "KEYS_ONLY" if keys_only else "ALL"


def _kinds(table: Table) -> dict[str, str]:
    return {key.name: key.kind.value for key in table.key_attributes}


def _elements(schema: Iterable[KeyElement]) -> list[dict[str, str]]:
    return [{"AttributeName": one.attribute_name, "KeyType": one.key_type} for one in schema]


def _keys(schema: Iterable[Mapping[str, str]], kinds: Mapping[str, str]) -> str:
    # HASH comes before RANGE in the alphabet, whatever the order in which a server lists them.
    elements = sorted(schema, key=lambda element: element["KeyType"])
    names = [element["AttributeName"] for element in elements]
    return " + ".join(f"{name} ({kinds.get(name, '?')})" for name in names)
