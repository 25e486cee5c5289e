"""Writes: what is sent, what a failed condition means, and what became of a lost response."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keytables import (
    AccessRefused,
    Attr,
    Condition,
    ConditionFailed,
    Item,
    ItemTooLarge,
    Key,
    KeytablesError,
    Returning,
    SchemaError,
    Table,
    TableNotFound,
    Throttled,
    Unavailable,
    Update,
)
from keytables.dynamodb.codec import decode_item
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.table import DynamoTable, UnsettledPuts
from keytables.dynamodb.table_client import StoreClient, TableClient
from keytables.dynamodb.writes import InFlightLimit, WriteSequencer
from keytables.failures import FailureReports
from support.clocks import ManualClock
from support.fake_api_client import FakeApiClient, condition_failed, service_error

EXPIRING = Table("things", Key("user"), expiry="end")
NOW = 1000.0
U: Any = {"user": {"S": "u"}}
LIVE: Any = {**U, "n": {"N": "5"}, "end": {"N": "1001"}}
EXPIRED: Any = {**U, "n": {"N": "5"}, "end": {"N": "1000"}}
SET = Update(set={"a": 1})
EXISTS, ABSENT = Attr("user").exists(), Attr("user").absent()


def open_table(client: FakeApiClient, table: Table = EXPIRING) -> DynamoTable:
    table_client = TableClient(
        StoreClient(client, FailureReports(), "x."), table, ManualClock(NOW), RetryPolicy()
    )
    return DynamoTable(table_client, WriteSequencer(InFlightLimit()), UnsettledPuts())


# --- what is sent -----------------------------------------------------------------------------


async def test_a_get_is_consistent_and_sees_no_expired_item() -> None:
    client = FakeApiClient({"Item": EXPIRED}, {"Item": LIVE}, {})
    table = open_table(client)
    assert await table.get(("u",)) is None
    assert await table.get(("u",)) == {"user": "u", "n": 5, "end": 1001}
    assert await table.get(("u",)) is None
    assert client.calls[0] == (
        "GetItem",
        {"TableName": "x.things", "ConsistentRead": True, "Key": U},
    )


# --- what a failed condition means ------------------------------------------------------------


async def test_the_item_is_read_where_the_server_does_not_send_it() -> None:
    client = FakeApiClient(condition_failed(), {"Item": LIVE})
    with pytest.raises(ConditionFailed) as caught:
        await open_table(client).delete(("u",), condition=Attr("n") == 6)
    assert caught.value.item == {"user": "u", "n": 5, "end": 1001}
    assert client.operations == ["DeleteItem", "GetItem"]


async def test_a_server_that_has_sent_one_is_expected_to_send_all() -> None:
    client = FakeApiClient(condition_failed(LIVE), condition_failed())
    table = open_table(client)
    for _ in range(2):
        with pytest.raises(ConditionFailed):
            await table.delete(("u",), condition=Attr("n") == 6)
    assert client.operations == ["DeleteItem", "DeleteItem"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (service_error("ResourceNotFoundException"), TableNotFound),
        (service_error("ValidationException", "Item size has exceeded the maximum"), ItemTooLarge),
        (
            service_error("ValidationException", "An operand has an incorrect data type"),
            SchemaError,
        ),
        (service_error("ValidationException", "Something else"), SchemaError),
        (service_error("UnknownOperationException"), Unavailable),
        (Throttled("later"), Throttled),
        (AccessRefused("UpdateItem", "x.things"), AccessRefused),
    ],
    ids=repr,
)
async def test_every_failure_is_a_keytables_error(
    failure: Exception, expected: type[KeytablesError]
) -> None:
    table = open_table(FakeApiClient(*[failure] * 4))
    for call in (
        table.put({"user": "u"}),
        table.update(("u",), SET),
        table.get(("u",)),
        table.query("u"),
    ):
        with pytest.raises(expected) as caught:
            await call
        assert type(caught.value) is expected


# --- expired items ----------------------------------------------------------------------------


async def test_an_update_replaces_an_expired_item_as_a_whole() -> None:
    client = FakeApiClient(condition_failed(EXPIRED), {})
    new = await open_table(client).update(("u",), SET, returning=Returning.NEW)
    assert new == {"user": "u", "a": 1}
    assert client.operations == ["UpdateItem", "PutItem"]
    put = client.calls[1][1]
    assert put["Item"] == {**U, "a": {"N": "1"}}
    assert "attribute_not_exists" in put["ConditionExpression"]
    assert put["ExpressionAttributeValues"][":now"] == {"N": str(NOW)}


@pytest.mark.parametrize("other", [LIVE, {**U, "a": {"N": "1"}}], ids=["another", "an equal one"])
async def test_an_update_is_repeated_when_another_client_replaced_the_item_first(
    other: Any,
) -> None:
    client = FakeApiClient(
        condition_failed(EXPIRED), condition_failed(other), {"Attributes": other}
    )
    old = await open_table(client).update(("u",), SET, returning=Returning.OLD)
    assert old == decode_item(other)
    assert client.operations == ["UpdateItem", "PutItem", "UpdateItem"]


async def test_an_item_that_changes_all_the_time_is_throttled_in_the_end() -> None:
    client = FakeApiClient(*[condition_failed(EXPIRED), condition_failed(LIVE)] * 20)
    with pytest.raises(Throttled):
        await open_table(client).update(("u",), SET)


# --- lost responses ---------------------------------------------------------------------------


async def test_a_put_is_applied_when_the_item_is_the_same() -> None:
    ours: Item = {"user": "u", "n": 5.0, "end": 1001, "s": {"b", "a"}}
    stored = {**LIVE, "n": {"N": "5"}, "s": {"SS": ["b", "a"]}}
    client = FakeApiClient(condition_failed(stored, maybe_applied=True))
    await open_table(client).put(ours, condition=ABSENT)


@pytest.mark.parametrize(
    ("stored", "write"),
    [
        (LIVE, lambda table: table.put({"user": "u", "n": 6}, condition=ABSENT)),
        (LIVE, lambda table: table.delete(("u",), condition=Attr("n") == 6)),
        (
            {**LIVE, "a": {"N": "2"}},
            lambda table: table.update(("u",), SET, condition=Attr("a").absent()),
        ),
        ({**EXPIRED, "a": {"N": "1"}}, lambda table: table.update(("u",), SET, condition=EXISTS)),
    ],
    ids=["put", "delete", "update", "update of an expired one"],
)
async def test_a_write_has_failed_when_the_item_is_not_as_it_leaves_it(
    stored: Any, write: Callable[[DynamoTable], Awaitable[object]]
) -> None:
    client = FakeApiClient(condition_failed(stored, maybe_applied=True))
    with pytest.raises(ConditionFailed) as caught:
        await write(open_table(client))
    assert caught.value.item == (decode_item(stored) if stored["end"] == LIVE["end"] else None)


async def test_an_equal_item_is_no_success_where_no_response_was_lost() -> None:
    client = FakeApiClient(condition_failed(LIVE))
    with pytest.raises(ConditionFailed):
        await open_table(client).put({"user": "u", "n": 5, "end": 1001}, condition=ABSENT)


@pytest.mark.parametrize("stored", [None, EXPIRED], ids=["gone", "expired"])
async def test_a_delete_is_applied_when_the_item_is_gone(stored: Any) -> None:
    client = FakeApiClient(condition_failed(stored, maybe_applied=True), {})
    condition = Attr("n") == 5
    result = await open_table(client).delete(("u",), condition=condition, returning=Returning.OLD)
    assert result is None


@pytest.mark.parametrize("returning", [Returning.OLD, Returning.NEW])
async def test_an_update_is_applied_when_the_item_is_as_it_leaves_it(returning: Returning) -> None:
    stored = {**LIVE, "a": {"N": "1"}}
    client = FakeApiClient(condition_failed(stored, maybe_applied=True))
    condition = Attr("a").absent()
    result = await open_table(client).update(("u",), SET, condition=condition, returning=returning)
    assert result == {"user": "u", "n": 5, "end": 1001, "a": 1}


async def test_a_replacement_is_applied_when_the_item_is_the_same() -> None:
    client = FakeApiClient(
        condition_failed(EXPIRED), condition_failed({**U, "a": {"N": "1"}}, maybe_applied=True)
    )
    new = await open_table(client).update(("u",), SET, returning=Returning.NEW)
    assert new == {"user": "u", "a": 1}


async def test_a_lost_response_is_remembered_over_further_attempts() -> None:
    # Lost: the response to the replacement. Then another client changed the item.
    client = FakeApiClient(
        condition_failed(EXPIRED),
        condition_failed(EXPIRED, maybe_applied=True),
        condition_failed({**LIVE, "a": {"N": "1"}}),
    )
    condition = Attr("a").absent()
    assert await open_table(client).update(("u",), SET, condition=condition) is None


async def test_a_put_of_an_expired_item_is_applied() -> None:
    item: Item = {"user": "u", "n": 5, "end": 1000}
    await open_table(FakeApiClient(condition_failed(EXPIRED, maybe_applied=True))).put(
        item, condition=EXISTS
    )
    with pytest.raises(ConditionFailed):
        await open_table(FakeApiClient(condition_failed(EXPIRED))).put(item, condition=EXISTS)


@pytest.mark.parametrize("condition", [EXISTS, None], ids=["a condition", "none"])
async def test_an_update_that_lets_the_item_expire_is_applied(condition: Condition | None) -> None:
    client = FakeApiClient(condition_failed(EXPIRED, maybe_applied=True))
    end = Update(set={"end": 1000})
    new = await open_table(client).update(("u",), end, condition=condition, returning=Returning.NEW)
    assert new == {"user": "u", "n": 5, "end": 1000}
    assert client.operations == ["UpdateItem"]


@pytest.mark.parametrize(
    "responses",
    [
        [condition_failed(EXPIRED, maybe_applied=True), *[condition_failed(EXPIRED)] * 40],
        [condition_failed(maybe_applied=True), Throttled("when the item is read")],
        [condition_failed(EXPIRED, maybe_applied=True), Throttled("when it is replaced")],
        [
            condition_failed(EXPIRED, maybe_applied=True),
            condition_failed(LIVE),
            Throttled("when it is repeated"),
        ],
    ],
    ids=["it changes all the time", "reading", "replacing", "repeating"],
)
async def test_a_write_that_may_have_been_applied_does_not_end_throttled(responses: Any) -> None:
    with pytest.raises(Unavailable, match="may have been applied"):
        await open_table(FakeApiClient(*responses)).update(("u",), SET)


# --- refused before anything is sent ----------------------------------------------------------


async def test_bad_calls_are_never_sent() -> None:
    client = FakeApiClient()
    table = open_table(client)
    bad: list[Any] = [
        table.put({"user": ""}),
        table.put({"user": "u", "end": "soon"}),
        table.put({"user": "u", "x": "\ud800"}),
        table.put({"user": "u"}, condition=Attr("a") < True),
        table.update(("u",), Update(set=("a",))),
        table.update(("u",), Update(set={"end": "soon"})),
        table.update(("u",), Update(set=("a",)), {"a": "\ud800"}),
        table.delete(("u", "v")),
        table.delete(("u",), returning=Returning.NEW),
        table.batch_write(puts=[{"user": "u"}], deletes=[("u",)]),
    ]
    for write in bad:
        with pytest.raises(SchemaError):
            await write
    large: Item = {"user": "u", "x": "x" * 500_000}
    for write in (
        table.put(large),
        table.put(large, condition=ABSENT),
        table.batch_write(puts=[{"user": "v"}, large]),
    ):
        with pytest.raises(ItemTooLarge):
            await write
    assert client.calls == []


async def test_a_batch_may_be_larger_than_any_item() -> None:
    client = FakeApiClient()
    await open_table(client).batch_write(
        puts=[{"user": str(number), "x": "x" * 300_000} for number in range(3)]
    )
    assert client.operations == ["BatchWriteItem"]
