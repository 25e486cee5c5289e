"""Making and dropping tables: what is there is taken as it is, or refused."""

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
from keytables.dynamodb import tables
from keytables.dynamodb.tables import Tables
from support.fake_caller import FakeCaller, verdict

PLAIN = Table(
    "things",
    Key("a"),
    Key("b", Kind.NUMBER),
    indexes=(Index("by_c", Key("c")), Index("by_d", Key("d", Kind.BINARY), keys_only=True)),
)
EXPIRING = Table("things", Key("a"), expiry="end")

GONE = verdict("ResourceNotFoundException")
IN_USE = verdict("ResourceInUseException")
LIMIT = verdict("LimitExceededException", "too many at once")
UNKNOWN = verdict("UnknownOperationException")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keytables.dynamodb.pauses.FIRST", 0.0)


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


def sweeping(status: str, attribute: str | None = None) -> dict[str, Any]:
    found = {"TimeToLiveStatus": status}
    return {
        "TimeToLiveDescription": found | ({"AttributeName": attribute} if attribute else {}),
    }


async def ensure(
    caller: FakeCaller, table: Table = PLAIN, capacity: Capacity | None = None, **options: Any
) -> None:
    await Tables(caller, "x.", **options).ensure(table, capacity)


# --- a table that is there --------------------------------------------------------------------


async def test_a_table_that_is_there_is_only_looked_at() -> None:
    caller = FakeCaller(described())
    await ensure(caller)
    assert caller.calls == [("DescribeTable", {"TableName": "x.things"})]


async def test_more_indexes_do_no_harm() -> None:
    found = described()
    found["Table"]["GlobalSecondaryIndexes"].append(index(Index("by_e", Key("e"))))
    await ensure(FakeCaller(found))


@pytest.mark.parametrize(
    ("there", "words"),
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
    ids=["no sort key", "other kind", "no index", "other projection"],
)
async def test_another_table_is_refused_with_what_is_there(there: Table, words: str) -> None:
    caller = FakeCaller(described(there))
    with pytest.raises(SchemaError) as caught:
        await ensure(caller)
    assert words in str(caught.value)
    assert caller.operations == ["DescribeTable"]


async def test_a_table_is_waited_for_with_its_indexes() -> None:
    filling = described()
    filling["Table"]["GlobalSecondaryIndexes"] = [
        index(PLAIN.indexes[0]),
        index(PLAIN.indexes[1], "CREATING"),
    ]
    caller = FakeCaller(described(status="CREATING"), filling, described())
    await ensure(caller)
    assert caller.operations == ["DescribeTable"] * 3


async def test_an_index_of_somebody_else_s_is_not_waited_for() -> None:
    found = described()
    found["Table"]["GlobalSecondaryIndexes"].append(index(Index("by_e", Key("e")), "CREATING"))
    caller = FakeCaller(found)
    await ensure(caller)
    assert len(caller.calls) == 1


async def test_a_table_that_is_being_changed_can_be_used() -> None:
    caller = FakeCaller(described(status="UPDATING"))
    await ensure(caller)
    assert len(caller.calls) == 1


async def test_a_table_that_is_going_is_made_again_when_it_is_gone() -> None:
    caller = FakeCaller(described(status="DELETING"), GONE, created(), described())
    await ensure(caller)
    assert caller.operations == ["DescribeTable", "DescribeTable", "CreateTable", "DescribeTable"]


async def test_a_table_that_nobody_can_use_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="INACCESSIBLE"):
        await ensure(FakeCaller(described(status="INACCESSIBLE_ENCRYPTION_CREDENTIALS")))


# --- a new table ------------------------------------------------------------------------------


async def test_a_new_table_is_billed_by_use() -> None:
    caller = FakeCaller(GONE, created(status="ACTIVE"))
    await ensure(caller)
    assert caller.calls[1] == (
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
    assert caller.operations == ["DescribeTable", "CreateTable"]


async def test_a_capacity_is_that_of_the_table_and_of_each_index() -> None:
    caller = FakeCaller(GONE, created(status="ACTIVE"))
    await ensure(caller, capacity=Capacity(5, 7))
    request = caller.calls[1][1]
    expected = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 7}
    assert request["BillingMode"] == "PROVISIONED"
    for one in (request, *request["GlobalSecondaryIndexes"]):
        assert one["ProvisionedThroughput"] == expected


@pytest.mark.parametrize("verdict", [IN_USE, LIMIT], ids=["somebody else makes it", "too many"])
async def test_a_table_that_cannot_be_made_now_is_looked_for_again(verdict: Exception) -> None:
    caller = FakeCaller(GONE, verdict, GONE, verdict, described(status="CREATING"), described())
    await ensure(caller)
    assert caller.operations == [
        *("DescribeTable", "CreateTable") * 2,
        *("DescribeTable", "DescribeTable"),
    ]


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PATIENCE", -1.0)
    with pytest.raises(Unavailable, match="things"):
        await ensure(FakeCaller(described(status="CREATING")))


async def test_the_missing_right_to_make_a_table_is_told() -> None:
    with pytest.raises(AccessRefused, match="CreateTable"):
        await ensure(FakeCaller(GONE, AccessRefused("CreateTable", "x.things")))


# --- expiry -----------------------------------------------------------------------------------

TURN_ON = (
    "UpdateTimeToLive",
    {
        "TableName": "x.things",
        "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "end"},
    },
)


async def test_a_new_table_is_swept() -> None:
    caller = FakeCaller(GONE, created(EXPIRING, "ACTIVE"))
    await ensure(caller, EXPIRING)
    assert caller.calls[2:] == [TURN_ON]


@pytest.mark.parametrize("status", ["ENABLED", "ENABLING"])
async def test_a_table_that_is_swept_is_left_alone(status: str) -> None:
    caller = FakeCaller(described(EXPIRING), sweeping(status, "end"))
    await ensure(caller, EXPIRING)
    assert caller.operations == ["DescribeTable", "DescribeTimeToLive"]


@pytest.mark.parametrize("status", ["DISABLED", "DISABLING"])
async def test_a_table_that_is_not_swept_is_from_now_on(status: str) -> None:
    caller = FakeCaller(described(EXPIRING), sweeping(status))
    await ensure(caller, EXPIRING)
    assert caller.calls[2:] == [TURN_ON]


async def test_two_may_turn_it_on_at_once() -> None:
    already = verdict("ValidationException", "TimeToLive is already enabled")
    caller = FakeCaller(
        described(EXPIRING), sweeping("DISABLED"), already, sweeping("ENABLED", "end")
    )
    await ensure(caller, EXPIRING)


@pytest.mark.parametrize("busy", [IN_USE, LIMIT], ids=repr)
async def test_it_is_turned_on_later_while_another_changes_the_table(busy: Exception) -> None:
    off = sweeping("DISABLED")
    caller = FakeCaller(described(EXPIRING), off, busy, off, busy, off)
    await ensure(caller, EXPIRING)
    asked = [operation for operation in caller.operations if operation.startswith("Update")]
    assert asked == ["UpdateTimeToLive"] * 3


async def test_a_table_swept_by_another_attribute_is_refused() -> None:
    with pytest.raises(SchemaError, match="other_end instead of end"):
        await ensure(FakeCaller(described(EXPIRING), sweeping("ENABLED", "other_end")), EXPIRING)


@pytest.mark.parametrize("answers", [(UNKNOWN,), (sweeping("DISABLED"), UNKNOWN)], ids=["1", "2"])
async def test_a_server_that_sweeps_nothing_is_good_enough(answers: Any) -> None:
    await ensure(FakeCaller(described(EXPIRING), *answers), EXPIRING)
    await ensure(FakeCaller(GONE, created(EXPIRING, "ACTIVE"), UNKNOWN), EXPIRING)


async def test_a_refusal_to_sweep_is_a_schema_error() -> None:
    refusal = verdict("ValidationException", "not with this table")
    answers = (described(EXPIRING), sweeping("DISABLED"), refusal, sweeping("DISABLED"))
    with pytest.raises(SchemaError):
        await ensure(FakeCaller(*answers), EXPIRING)


async def test_alternator_is_not_asked_to_sweep() -> None:
    made = FakeCaller(GONE, created(EXPIRING, "ACTIVE"))
    await ensure(made, EXPIRING, alternator=True)
    assert made.operations == ["DescribeTable", "CreateTable"]
    found = FakeCaller(described(EXPIRING))
    await ensure(found, EXPIRING, alternator=True)
    assert found.operations == ["DescribeTable"]


async def test_the_right_to_sweep_is_needed_only_for_a_new_table() -> None:
    missing = AccessRefused("UpdateTimeToLive", "x.things")
    await ensure(FakeCaller(described(EXPIRING), missing), EXPIRING)
    await ensure(FakeCaller(described(EXPIRING), sweeping("DISABLED"), missing), EXPIRING)
    with pytest.raises(AccessRefused):
        await ensure(FakeCaller(GONE, created(EXPIRING, "ACTIVE"), missing), EXPIRING)


# --- dropping and listing ---------------------------------------------------------------------


async def test_a_dropped_table_is_waited_for_until_it_is_gone() -> None:
    caller = FakeCaller({}, described(status="DELETING"), described(status="DELETING"), GONE)
    await Tables(caller, "x.").drop("things")
    assert caller.operations == ["DeleteTable", *["DescribeTable"] * 3]


async def test_a_table_that_is_gone_is_dropped() -> None:
    caller = FakeCaller(GONE)
    await Tables(caller, "x.").drop("things")
    assert len(caller.calls) == 1


async def test_a_table_in_use_is_dropped_later() -> None:
    caller = FakeCaller(IN_USE, LIMIT, {}, GONE)
    await Tables(caller, "x.").drop("things")
    assert caller.operations == ["DeleteTable"] * 3 + ["DescribeTable"]


async def test_tables_of_others_are_not_listed() -> None:
    caller = FakeCaller(
        {"TableNames": ["a", "x.two", "x."], "LastEvaluatedTableName": "x.two"},
        {"TableNames": ["x.one", "y.three"]},
    )
    assert await Tables(caller, "x.").names() == ["", "one", "two"]
    assert caller.calls[1] == ("ListTables", {"ExclusiveStartTableName": "x.two"})


# --- capacity ---------------------------------------------------------------------------------


def units(read: int, write: int) -> dict[str, Any]:
    return {"ProvisionedThroughput": {"ReadCapacityUnits": read, "WriteCapacityUnits": write}}


def provisioned(own: dict[str, Any], *indexes: dict[str, Any]) -> dict[str, Any]:
    found = described(**own)
    found["Table"]["GlobalSecondaryIndexes"] = [
        {**index(one), **its} for one, its in zip(PLAIN.indexes, indexes, strict=True)
    ]
    return found


async def test_a_capacity_is_told() -> None:
    caller = FakeCaller(provisioned(units(5, 7), units(1, 1), units(1, 1)))
    assert await Tables(caller, "x.").capacity("things") == Capacity(5, 7)


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
    caller = FakeCaller(found, found)
    assert await Tables(caller, "x.").capacity("things") is None
    await Tables(caller, "x.").set_capacity("things", Capacity(1, 1))
    assert caller.operations == ["DescribeTable"] * 2


async def test_only_what_changes_is_changed() -> None:
    caller = FakeCaller(provisioned(units(5, 5), units(5, 5), units(1, 5)))
    await Tables(caller, "x.").set_capacity("things", Capacity(5, 5))
    change = {"IndexName": "by_d", **units(5, 5)}
    assert caller.calls[1:] == [
        (
            "UpdateTable",
            {"TableName": "x.things", "GlobalSecondaryIndexUpdates": [{"Update": change}]},
        )
    ]


async def test_what_is_as_it_should_be_is_not_touched() -> None:
    caller = FakeCaller(provisioned(units(5, 5), units(5, 5), units(5, 5)))
    await Tables(caller, "x.").set_capacity("things", Capacity(5, 5))
    assert caller.operations == ["DescribeTable"]


async def test_a_table_that_is_being_changed_is_changed_later() -> None:
    found = provisioned(units(5, 5), units(5, 5), units(5, 5))
    caller = FakeCaller(found, IN_USE, found, {})
    await Tables(caller, "x.").set_capacity("things", Capacity(1, 1))
    assert caller.operations == ["DescribeTable", "UpdateTable"] * 2


async def test_one_change_too_many_is_throttled() -> None:
    found = provisioned(units(5, 5), units(5, 5), units(5, 5))
    with pytest.raises(Throttled, match="too many"):
        await Tables(FakeCaller(found, LIMIT), "x.").set_capacity("things", Capacity(1, 1))


async def test_a_missing_table_has_no_capacity() -> None:
    with pytest.raises(TableNotFound):
        await Tables(FakeCaller(GONE), "x.").capacity("things")
