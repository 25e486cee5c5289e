"""Creating, changing and dropping tables: an existing one is taken as it is, or refused."""

from typing import Any

import pytest

from keytables import (
    AccessRefused,
    Capacity,
    Index,
    Key,
    Kind,
    SchemaError,
    Table,
    TableNotFound,
    Throttled,
    Unavailable,
)
from keytables.dynamodb import DynamoEngine
from keytables.dynamodb.retries import RetryPolicy
from keytables.retries import Backoff
from support.fake_api_client import FakeApiClient, service_error

PLAIN = Table(
    "things",
    Key("a"),
    Key("b", Kind.NUMBER),
    indexes=(Index("by_c", Key("c")), Index("by_d", Key("d", Kind.BINARY), keys_only=True)),
)
EXPIRING = Table("things", Key("a"), expiry="end")

NOT_FOUND = service_error("ResourceNotFoundException")
IN_USE = service_error("ResourceInUseException")
TOO_MANY = service_error("LimitExceededException", "too many at once")
UNKNOWN_OPERATION = service_error("UnknownOperationException")


def store(client: FakeApiClient, **options: Any) -> DynamoEngine:
    return DynamoEngine(
        client,
        **{
            "prefix": "x.",
            "retries": RetryPolicy(backoff=Backoff(0.0, 0.0), table_backoff=Backoff(0.0, 0.0)),
            **options,
        },
    )


def described(table: Table = PLAIN, status: str = "ACTIVE", **members: Any) -> dict[str, Any]:
    return {
        "Table": {
            "TableStatus": status,
            "AttributeDefinitions": [
                {"AttributeName": key.name, "AttributeType": key.kind.value}
                for key in table.key_attributes
            ],
            "KeySchema": schema(table.partition, table.sort),
            "GlobalSecondaryIndexes": [index(one) for one in table.indexes],
            **members,
        }
    }


def schema(partition: Key, sort: Key | None) -> list[dict[str, str]]:
    found = [{"AttributeName": partition.name, "KeyType": "HASH"}]
    if sort is not None:  # the database lists them in any order
        found.insert(0, {"AttributeName": sort.name, "KeyType": "RANGE"})
    return found


def index(one: Index, status: str = "ACTIVE") -> dict[str, Any]:
    return {
        "IndexName": one.name,
        "KeySchema": schema(one.partition, one.sort),
        "Projection": {"ProjectionType": "KEYS_ONLY" if one.keys_only else "ALL"},
        "IndexStatus": status,
    }


def created(table: Table = PLAIN, status: str = "CREATING") -> dict[str, Any]:
    return {"TableDescription": described(table, status)["Table"]}


def time_to_live(status: str, attribute: str | None = None) -> dict[str, Any]:
    found = {"TimeToLiveStatus": status}
    return {"TimeToLiveDescription": found | ({"AttributeName": attribute} if attribute else {})}


async def ensure(
    client: FakeApiClient, table: Table = PLAIN, capacity: Capacity | None = None, **options: Any
) -> None:
    await store(client, **options).ensure_table(table, capacity=capacity)


# --- an existing table ------------------------------------------------------------------------


def with_index(one: dict[str, Any]) -> dict[str, Any]:
    indexes = [*map(index, PLAIN.indexes), one]
    return described(GlobalSecondaryIndexes=indexes)


@pytest.mark.parametrize(
    "found",
    [
        described(),
        with_index(index(Index("by_e", Key("e")))),
        with_index(index(Index("by_e", Key("e")), "CREATING")),
        described(status="UPDATING"),
    ],
    ids=["as declared", "one more index", "one more that is being made", "being changed"],
)
async def test_a_table_that_can_be_used_is_only_described(found: dict[str, Any]) -> None:
    client = FakeApiClient(found)
    await ensure(client)
    assert client.calls == [("DescribeTable", {"TableName": "x.things"})]


@pytest.mark.parametrize(
    ("existing", "message"),
    [
        (Table("things", Key("a"), indexes=PLAIN.indexes), "keys: a (S) instead of a (S) + b (N)"),
        (
            Table("things", Key("a"), Key("b"), indexes=PLAIN.indexes),
            "keys: a (S) + b (S) instead of a (S) + b (N)",
        ),
        (
            Table("things", Key("a"), PLAIN.sort, indexes=PLAIN.indexes[:1]),
            "index by_d: none instead of d (B) KEYS_ONLY",
        ),
        (
            Table(
                "things",
                Key("a"),
                PLAIN.sort,
                indexes=(Index("by_c", Key("c"), keys_only=True), PLAIN.indexes[1]),
            ),
            "index by_c: c (S) KEYS_ONLY instead of c (S) ALL",
        ),
    ],
    ids=["no sort key", "other type", "no index", "other projection"],
)
async def test_a_table_with_other_keys_or_indexes_is_refused_with_the_difference(
    existing: Table, message: str
) -> None:
    client = FakeApiClient(described(existing))
    with pytest.raises(SchemaError) as caught:
        await ensure(client)
    assert message in str(caught.value)
    assert client.operations == ["DescribeTable"]


async def test_a_table_is_waited_for_with_its_indexes() -> None:
    filling = described()
    filling["Table"]["GlobalSecondaryIndexes"] = [
        index(PLAIN.indexes[0]),
        index(PLAIN.indexes[1], "CREATING"),
    ]
    client = FakeApiClient(described(status="CREATING"), filling, described())
    await ensure(client)
    assert client.operations == ["DescribeTable"] * 3


async def test_a_table_that_is_being_deleted_is_created_again_afterwards() -> None:
    client = FakeApiClient(described(status="DELETING"), NOT_FOUND, created(), described())
    await ensure(client)
    assert client.operations == ["DescribeTable", "DescribeTable", "CreateTable", "DescribeTable"]


async def test_a_table_that_cannot_be_used_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="INACCESSIBLE"):
        await ensure(FakeApiClient(described(status="INACCESSIBLE_ENCRYPTION_CREDENTIALS")))


# --- a new table ------------------------------------------------------------------------------


async def test_a_new_table_is_billed_by_use() -> None:
    client = FakeApiClient(NOT_FOUND, created(status="ACTIVE"))
    await ensure(client)
    assert client.calls[1] == (
        "CreateTable",
        {
            "TableName": "x.things",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": "a", "AttributeType": "S"},
                {"AttributeName": "b", "AttributeType": "N"},
                {"AttributeName": "c", "AttributeType": "S"},
                {"AttributeName": "d", "AttributeType": "B"},
            ],
            "KeySchema": [
                {"AttributeName": "a", "KeyType": "HASH"},
                {"AttributeName": "b", "KeyType": "RANGE"},
            ],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": "by_c",
                    "KeySchema": [{"AttributeName": "c", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                },
                {
                    "IndexName": "by_d",
                    "KeySchema": [{"AttributeName": "d", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "KEYS_ONLY"},
                },
            ],
        },
    )
    assert client.operations == ["DescribeTable", "CreateTable"]


async def test_a_capacity_is_that_of_the_table_and_of_each_index() -> None:
    client = FakeApiClient(NOT_FOUND, created(status="ACTIVE"))
    await ensure(client, capacity=Capacity(5, 7))
    request = client.calls[1][1]
    expected = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 7}
    assert request["BillingMode"] == "PROVISIONED"
    for one in (request, *request["GlobalSecondaryIndexes"]):
        assert one["ProvisionedThroughput"] == expected


@pytest.mark.parametrize(
    "refusal", [IN_USE, TOO_MANY], ids=["another client creates it", "too many"]
)
async def test_a_table_that_cannot_be_created_now_is_described_again(refusal: Exception) -> None:
    client = FakeApiClient(
        NOT_FOUND, refusal, NOT_FOUND, refusal, described(status="CREATING"), described()
    )
    await ensure(client)
    assert client.operations == [
        *("DescribeTable", "CreateTable") * 2,
        *("DescribeTable", "DescribeTable"),
    ]


async def test_waiting_for_a_table_has_a_time_limit() -> None:
    with pytest.raises(Unavailable, match="things"):
        await ensure(
            FakeApiClient(described(status="CREATING")), retries=RetryPolicy(table_timeout=0.0)
        )


async def test_a_missing_permission_to_create_a_table_is_named() -> None:
    with pytest.raises(AccessRefused, match="CreateTable"):
        await ensure(FakeApiClient(NOT_FOUND, AccessRefused("CreateTable", "x.things")))


# --- expiry -----------------------------------------------------------------------------------

ENABLE = (
    "UpdateTimeToLive",
    {"TableName": "x.things", "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "end"}},
)


async def test_a_new_table_gets_a_time_to_live() -> None:
    client = FakeApiClient(NOT_FOUND, created(EXPIRING, "ACTIVE"))
    await ensure(client, EXPIRING)
    assert client.calls[2:] == [ENABLE]


@pytest.mark.parametrize("status", ["ENABLED", "ENABLING"])
async def test_a_table_with_a_time_to_live_is_not_changed(status: str) -> None:
    client = FakeApiClient(described(EXPIRING), time_to_live(status, "end"))
    await ensure(client, EXPIRING)
    assert client.operations == ["DescribeTable", "DescribeTimeToLive"]


@pytest.mark.parametrize("status", ["DISABLED", "DISABLING"])
async def test_a_table_without_a_time_to_live_gets_one(status: str) -> None:
    client = FakeApiClient(described(EXPIRING), time_to_live(status))
    await ensure(client, EXPIRING)
    assert client.calls[2:] == [ENABLE]


async def test_two_clients_may_enable_it_at_once() -> None:
    already = service_error("ValidationException", "TimeToLive is already enabled")
    client = FakeApiClient(
        described(EXPIRING), time_to_live("DISABLED"), already, time_to_live("ENABLED", "end")
    )
    await ensure(client, EXPIRING)


@pytest.mark.parametrize("busy", [IN_USE, TOO_MANY], ids=repr)
async def test_it_is_enabled_later_while_another_client_changes_the_table(busy: Exception) -> None:
    off = time_to_live("DISABLED")
    client = FakeApiClient(described(EXPIRING), off, busy, off, busy, off)
    await ensure(client, EXPIRING)
    sent = [operation for operation in client.operations if operation.startswith("Update")]
    assert sent == ["UpdateTimeToLive"] * 3


async def test_a_time_to_live_by_another_attribute_is_refused() -> None:
    with pytest.raises(SchemaError, match="other_end instead of end"):
        await ensure(
            FakeApiClient(described(EXPIRING), time_to_live("ENABLED", "other_end")), EXPIRING
        )


@pytest.mark.parametrize(
    "responses",
    [(UNKNOWN_OPERATION,), (time_to_live("DISABLED"), UNKNOWN_OPERATION)],
    ids=["describing", "updating"],
)
async def test_a_server_without_a_time_to_live_is_accepted(responses: Any) -> None:
    await ensure(FakeApiClient(described(EXPIRING), *responses), EXPIRING)
    await ensure(FakeApiClient(NOT_FOUND, created(EXPIRING, "ACTIVE"), UNKNOWN_OPERATION), EXPIRING)


async def test_a_refused_time_to_live_is_a_schema_error() -> None:
    refusal = service_error("ValidationException", "not with this table")
    responses = (described(EXPIRING), time_to_live("DISABLED"), refusal, time_to_live("DISABLED"))
    with pytest.raises(SchemaError):
        await ensure(FakeApiClient(*responses), EXPIRING)


async def test_alternator_is_not_asked_for_a_time_to_live() -> None:
    made = FakeApiClient(NOT_FOUND, created(EXPIRING, "ACTIVE"))
    await ensure(made, EXPIRING, alternator=True)
    assert made.operations == ["DescribeTable", "CreateTable"]
    found = FakeApiClient(described(EXPIRING))
    await ensure(found, EXPIRING, alternator=True)
    assert found.operations == ["DescribeTable"]


async def test_the_permission_for_a_time_to_live_is_needed_only_for_a_new_table() -> None:
    missing = AccessRefused("UpdateTimeToLive", "x.things")
    await ensure(FakeApiClient(described(EXPIRING), missing), EXPIRING)
    await ensure(FakeApiClient(described(EXPIRING), time_to_live("DISABLED"), missing), EXPIRING)
    with pytest.raises(AccessRefused):
        await ensure(FakeApiClient(NOT_FOUND, created(EXPIRING, "ACTIVE"), missing), EXPIRING)


# --- dropping and listing ---------------------------------------------------------------------


async def test_dropping_waits_until_the_table_is_gone() -> None:
    client = FakeApiClient(
        {}, described(status="DELETING"), described(status="DELETING"), NOT_FOUND
    )
    await store(client).drop_table("things")
    assert client.operations == ["DeleteTable", *["DescribeTable"] * 3]


async def test_a_table_in_use_is_dropped_later() -> None:
    client = FakeApiClient(IN_USE, TOO_MANY, {}, NOT_FOUND)
    await store(client).drop_table("things")
    assert client.operations == ["DeleteTable"] * 3 + ["DescribeTable"]


async def test_tables_with_other_prefixes_are_not_listed() -> None:
    client = FakeApiClient(
        {"TableNames": ["a", "x.two", "x."], "LastEvaluatedTableName": "x.two"},
        {"TableNames": ["x.one", "y.three"]},
    )
    assert await store(client).table_names() == ["", "one", "two"]
    assert client.calls[1] == ("ListTables", {"ExclusiveStartTableName": "x.two"})


# --- capacity ---------------------------------------------------------------------------------


def units(read: int, write: int) -> dict[str, Any]:
    return {"ProvisionedThroughput": {"ReadCapacityUnits": read, "WriteCapacityUnits": write}}


def provisioned(own: dict[str, Any], *indexes: dict[str, Any]) -> dict[str, Any]:
    found = described(**own)
    found["Table"]["GlobalSecondaryIndexes"] = [
        {**index(one), **its} for one, its in zip(PLAIN.indexes, indexes, strict=True)
    ]
    return found


async def test_a_capacity_is_read() -> None:
    client = FakeApiClient(provisioned(units(5, 7), units(1, 1), units(1, 1)))
    assert await store(client).capacity("things") == Capacity(5, 7)


@pytest.mark.parametrize(
    "found",
    [
        described(BillingModeSummary={"BillingMode": "PAY_PER_REQUEST"}, **units(0, 0)),
        described(**units(0, 0)),
        described(),
    ],
    ids=["named", "zeros", "nothing"],
)
async def test_a_table_billed_by_use_has_no_capacity_and_gets_none(found: dict[str, Any]) -> None:
    client = FakeApiClient(found, found)
    assert await store(client).capacity("things") is None
    await store(client).set_capacity("things", Capacity(1, 1))
    assert client.operations == ["DescribeTable"] * 2


async def test_only_what_changes_is_changed() -> None:
    client = FakeApiClient(provisioned(units(5, 5), units(5, 5), units(1, 5)))
    await store(client).set_capacity("things", Capacity(5, 5))
    change = {"IndexName": "by_d", **units(5, 5)}
    assert client.calls[1:] == [
        (
            "UpdateTable",
            {"TableName": "x.things", "GlobalSecondaryIndexUpdates": [{"Update": change}]},
        )
    ]


async def test_a_capacity_that_is_set_already_is_not_changed() -> None:
    client = FakeApiClient(provisioned(units(5, 5), units(5, 5), units(5, 5)))
    await store(client).set_capacity("things", Capacity(5, 5))
    assert client.operations == ["DescribeTable"]


async def test_a_table_that_is_being_changed_is_changed_later() -> None:
    found = provisioned(units(5, 5), units(5, 5), units(5, 5))
    client = FakeApiClient(found, IN_USE, found, {})
    await store(client).set_capacity("things", Capacity(1, 1))
    assert client.operations == ["DescribeTable", "UpdateTable"] * 2


async def test_too_many_changes_are_throttled() -> None:
    found = provisioned(units(5, 5), units(5, 5), units(5, 5))
    with pytest.raises(Throttled, match="too many"):
        await store(FakeApiClient(found, TOO_MANY)).set_capacity("things", Capacity(1, 1))


async def test_a_missing_table_has_no_capacity() -> None:
    with pytest.raises(TableNotFound):
        await store(FakeApiClient(NOT_FOUND)).capacity("things")
