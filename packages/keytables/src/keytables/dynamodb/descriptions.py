"""What DynamoDB says of a table, and what it is told to make one.

The one rule: what is declared and what is there are compared in the same words.
"""

from collections.abc import Iterable, Mapping

import msgspec

from keytables.errors import SchemaError
from keytables.schema import Capacity, Key, Table

__all__ = ["Description", "check_same", "creation", "throughput"]


class KeyPart(msgspec.Struct, rename="pascal"):
    """HASH or RANGE."""

    attribute_name: str
    key_type: str


class Definition(msgspec.Struct, rename="pascal"):
    """S, N or B."""

    attribute_name: str
    attribute_type: str


class Throughput(msgspec.Struct, rename="pascal"):
    """Nothing but zeros where it is billed by use."""

    read_capacity_units: int = 0
    write_capacity_units: int = 0

    @property
    def capacity(self) -> Capacity | None:
        if not self.read_capacity_units or not self.write_capacity_units:
            return None
        return Capacity(self.read_capacity_units, self.write_capacity_units)


class Projection(msgspec.Struct, rename="pascal"):
    projection_type: str = "ALL"


class IndexDescription(msgspec.Struct, rename="pascal"):
    index_name: str
    key_schema: list[KeyPart]
    projection: Projection = msgspec.field(default_factory=Projection)
    index_status: str = "ACTIVE"
    provisioned_throughput: Throughput = msgspec.field(default_factory=Throughput)


class Billing(msgspec.Struct, rename="pascal"):
    billing_mode: str = "PROVISIONED"


class Description(msgspec.Struct, rename="pascal"):
    """A table, as far as it matters."""

    table_status: str
    attribute_definitions: list[Definition] = []
    key_schema: list[KeyPart] = []
    global_secondary_indexes: list[IndexDescription] = []
    provisioned_throughput: Throughput = msgspec.field(default_factory=Throughput)
    billing_mode_summary: Billing = msgspec.field(default_factory=Billing)

    def usable(self, table: Table) -> bool:
        """Whether the table and its declared indexes can be used; they can while they are changed.

        An index of somebody else's may take hours to be filled.
        """
        declared = {index.name for index in table.indexes}
        indexes = (one for one in self.global_secondary_indexes if one.index_name in declared)
        statuses = (self.table_status, *(index.index_status for index in indexes))
        return all(status in ("ACTIVE", "UPDATING") for status in statuses)

    @property
    def capacity(self) -> Capacity | None:
        """What the table itself is provisioned for."""
        if self.billing_mode_summary.billing_mode == "PAY_PER_REQUEST":
            return None
        return self.provisioned_throughput.capacity


def throughput(capacity: Capacity) -> dict[str, int]:
    """Return a capacity in DynamoDB's words."""
    return {"ReadCapacityUnits": capacity.read, "WriteCapacityUnits": capacity.write}


def creation(table: Table, name: str, capacity: Capacity | None) -> dict[str, object]:
    """Return what CreateTable is told for a table that is to be called ``name``."""
    billing: dict[str, object] = {"BillingMode": "PAY_PER_REQUEST"}
    each: dict[str, object] = {}
    if capacity is not None:
        each = {"ProvisionedThroughput": throughput(capacity)}
        billing = {"BillingMode": "PROVISIONED", **each}
    kinds = {key.name: key.kind.value for key in table.key_attributes}
    request: dict[str, object] = {
        "TableName": name,
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": kind} for attribute, kind in kinds.items()
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
                **each,
            }
            for index in table.indexes
        ]
    return request


def check_same(table: Table, found: Description) -> None:
    """Raise SchemaError unless the table that was found has the declared keys and indexes.

    It may have more indexes.
    """
    kinds = {one.attribute_name: one.attribute_type for one in found.attribute_definitions}
    declared = {
        "keys": _keys(_key_schema(table.partition, table.sort), _kinds(table)),
        **{
            f"index {index.name}": _keys(_key_schema(index.partition, index.sort), _kinds(table))
            + f" {_projection(keys_only=index.keys_only)}"
            for index in table.indexes
        },
    }
    there = {
        "keys": _keys(_parts(found.key_schema), kinds),
        **{
            f"index {index.index_name}": _keys(_parts(index.key_schema), kinds)
            + f" {index.projection.projection_type}"
            for index in found.global_secondary_indexes
        },
    }
    wrong = [
        f"{what}: {there.get(what, 'none')} instead of {wanted}"
        for what, wanted in declared.items()
        if there.get(what) != wanted
    ]
    if wrong:
        raise SchemaError(f"table {table.name!r} exists with other {'; '.join(wrong)}")


def _key_schema(partition: Key, sort: Key | None) -> list[dict[str, str]]:
    found = [{"AttributeName": partition.name, "KeyType": "HASH"}]
    if sort is not None:
        found.append({"AttributeName": sort.name, "KeyType": "RANGE"})
    return found


def _projection(*, keys_only: bool) -> str:
    return "KEYS_ONLY" if keys_only else "ALL"


def _kinds(table: Table) -> dict[str, str]:
    return {key.name: key.kind.value for key in table.key_attributes}


def _parts(schema: Iterable[KeyPart]) -> list[dict[str, str]]:
    return [{"AttributeName": part.attribute_name, "KeyType": part.key_type} for part in schema]


def _keys(schema: Iterable[Mapping[str, str]], kinds: Mapping[str, str]) -> str:
    # HASH comes before RANGE in the alphabet, whatever the order a server lists them in.
    parts = sorted(schema, key=lambda part: part["KeyType"])
    names = [part["AttributeName"] for part in parts]
    return " + ".join(f"{name} ({kinds.get(name, '?')})" for name in names)
