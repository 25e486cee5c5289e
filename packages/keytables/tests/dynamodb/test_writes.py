"""Writes: what is sent, what a refusal means, and what a lost reply is found to have done."""

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
from keytables.dynamodb.handle import DynamoTable
from keytables.dynamodb.order import Order, Room
from keytables.dynamodb.remote import Remote
from support.clocks import ManualClock
from support.fake_caller import FakeCaller, refused, verdict

PLAIN = Table("things", Key("user"))
EXPIRING = Table("things", Key("user"), expiry="end")
NOW = 1000.0
U: Any = {"user": {"S": "u"}}
LIVE: Any = {**U, "n": {"N": "5"}, "end": {"N": "1001"}}
DEAD: Any = {**U, "n": {"N": "5"}, "end": {"N": "1000"}}
SET = Update(set={"a": 1})
TAKE = Update(remove=("a",), take_from={"s": {"x"}})
EXISTS, ABSENT = Attr("user").exists(), Attr("user").absent()


def handle(caller: FakeCaller, table: Table = EXPIRING) -> DynamoTable:
    return DynamoTable(Remote(caller, table, "x.things", ManualClock(NOW)), Order(Room()))


# --- what is sent -----------------------------------------------------------------------------


async def test_a_put_that_looks_at_nothing_is_plain() -> None:
    caller = FakeCaller()
    await handle(caller).put({"user": "u", "n": 1})
    item = {"user": {"S": "u"}, "n": {"N": "1"}}
    assert caller.calls == [("PutItem", {"TableName": "x.things", "Item": item})]


async def test_a_delete_that_looks_at_nothing_is_plain() -> None:
    caller = FakeCaller()
    await handle(caller).delete(("u",))
    assert caller.calls == [("DeleteItem", {"TableName": "x.things", "Key": U})]


async def test_an_update_without_expiry_and_condition_has_none() -> None:
    caller = FakeCaller()
    await handle(caller, PLAIN).update(("u",), SET)
    [(operation, request)] = caller.calls
    assert operation == "UpdateItem"
    assert "ConditionExpression" not in request


async def test_a_get_is_consistent_and_sees_no_expired_item() -> None:
    caller = FakeCaller({"Item": DEAD}, {"Item": LIVE}, {})
    table = handle(caller)
    assert await table.get(("u",)) is None
    assert await table.get(("u",)) == {"user": "u", "n": 5, "end": 1001}
    assert await table.get(("u",)) is None
    assert caller.calls[0] == (
        "GetItem",
        {"TableName": "x.things", "ConsistentRead": True, "Key": U},
    )


# --- what a refusal means ---------------------------------------------------------------------


async def test_a_refusal_carries_the_item_it_was_judged_on() -> None:
    caller = FakeCaller(refused(LIVE))
    with pytest.raises(ConditionFailed) as caught:
        await handle(caller).put({"user": "u"}, condition=Attr("n") == 6)
    assert caught.value.item == {"user": "u", "n": 5, "end": 1001}
    assert len(caller.calls) == 1


async def test_a_refusal_shows_no_expired_item() -> None:
    caller = FakeCaller(refused(DEAD))
    with pytest.raises(ConditionFailed) as caught:
        await handle(caller).update(("u",), SET, condition=EXISTS)
    assert caught.value.item is None


async def test_a_server_that_does_not_show_the_item_is_asked_for_it() -> None:
    caller = FakeCaller(refused(), {"Item": LIVE})
    with pytest.raises(ConditionFailed) as caught:
        await handle(caller).delete(("u",), condition=Attr("n") == 6)
    assert caught.value.item == {"user": "u", "n": 5, "end": 1001}
    assert caller.operations == ["DeleteItem", "GetItem"]


async def test_a_server_that_has_shown_one_is_believed_to_show_all() -> None:
    caller = FakeCaller(refused(LIVE), refused())
    table = handle(caller)
    for _ in range(2):
        with pytest.raises(ConditionFailed):
            await table.delete(("u",), condition=Attr("n") == 6)
    assert caller.operations == ["DeleteItem", "DeleteItem"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (verdict("ResourceNotFoundException"), TableNotFound),
        (verdict("ValidationException", "Item size has exceeded the maximum"), ItemTooLarge),
        (verdict("ValidationException", "An operand has an incorrect data type"), SchemaError),
        (verdict("ValidationException", "Something else"), SchemaError),
        (verdict("UnknownOperationException"), Unavailable),
        (Throttled("later"), Throttled),
        (AccessRefused("UpdateItem", "x.things"), AccessRefused),
    ],
    ids=repr,
)
async def test_every_failure_is_one_of_ours(
    failure: Exception, expected: type[KeytablesError]
) -> None:
    table = handle(FakeCaller(*[failure] * 4))
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


async def test_an_update_replaces_what_has_expired_as_a_whole() -> None:
    caller = FakeCaller(refused(DEAD), {})
    new = await handle(caller).update(("u",), SET, returning=Returning.NEW)
    assert new == {"user": "u", "a": 1}
    assert caller.operations == ["UpdateItem", "PutItem"]
    put = caller.calls[1][1]
    assert put["Item"] == {**U, "a": {"N": "1"}}
    assert "attribute_not_exists" in put["ConditionExpression"]
    assert put["ExpressionAttributeValues"][":now"] == {"N": str(NOW)}


async def test_an_update_begins_again_when_another_was_first_to_replace() -> None:
    caller = FakeCaller(refused(DEAD), refused(LIVE), {"Attributes": LIVE})
    old = await handle(caller).update(("u",), SET, returning=Returning.OLD)
    assert old == {"user": "u", "n": 5, "end": 1001}
    assert caller.operations == ["UpdateItem", "PutItem", "UpdateItem"]


async def test_an_update_that_only_takes_away_leaves_what_has_expired() -> None:
    caller = FakeCaller(refused(DEAD))
    assert await handle(caller).update(("u",), TAKE, returning=Returning.NEW) is None
    assert caller.operations == ["UpdateItem"]


async def test_an_update_that_only_takes_away_leaves_an_absent_item_absent() -> None:
    caller = FakeCaller(refused(), {})
    assert await handle(caller, PLAIN).update(("u",), TAKE) is None
    assert caller.operations == ["UpdateItem", "GetItem"]


async def test_a_delete_returns_no_expired_item() -> None:
    caller = FakeCaller({"Attributes": DEAD}, {"Attributes": LIVE})
    table = handle(caller)
    assert await table.delete(("u",), returning=Returning.OLD) is None
    assert await table.delete(("u",), returning=Returning.OLD) is not None


async def test_an_item_that_never_holds_still_is_throttled_in_the_end() -> None:
    caller = FakeCaller(*[refused(DEAD), refused(LIVE)] * 20)
    with pytest.raises(Throttled):
        await handle(caller).update(("u",), SET)


# --- lost replies -----------------------------------------------------------------------------


async def test_a_put_is_done_when_the_item_is_as_it_puts_it() -> None:
    ours: Item = {"user": "u", "n": 5.0, "end": 1001, "s": {"b", "a"}}
    there = {**LIVE, "n": {"N": "5"}, "s": {"SS": ["b", "a"]}}
    caller = FakeCaller(refused(there, repeated=True))
    await handle(caller).put(ours, condition=ABSENT)


async def test_a_put_has_failed_when_the_item_is_another() -> None:
    caller = FakeCaller(refused(LIVE, repeated=True))
    with pytest.raises(ConditionFailed) as caught:
        await handle(caller).put({"user": "u", "n": 6}, condition=ABSENT)
    assert caught.value.item == {"user": "u", "n": 5, "end": 1001}


async def test_an_equal_item_is_no_success_where_no_reply_was_lost() -> None:
    caller = FakeCaller(refused(LIVE))
    with pytest.raises(ConditionFailed):
        await handle(caller).put({"user": "u", "n": 5, "end": 1001}, condition=ABSENT)


@pytest.mark.parametrize("there", [None, DEAD], ids=["gone", "expired"])
async def test_a_delete_is_done_when_the_item_is_gone(there: Any) -> None:
    caller = FakeCaller(refused(there, repeated=True), {})
    condition = Attr("n") == 5
    answer = await handle(caller).delete(("u",), condition=condition, returning=Returning.OLD)
    assert answer is None


async def test_a_delete_has_failed_when_the_item_is_there() -> None:
    caller = FakeCaller(refused(LIVE, repeated=True))
    with pytest.raises(ConditionFailed):
        await handle(caller).delete(("u",), condition=Attr("n") == 6)


@pytest.mark.parametrize("returning", [Returning.OLD, Returning.NEW])
async def test_an_update_is_done_when_the_item_is_as_it_leaves_it(returning: Returning) -> None:
    there = {**LIVE, "a": {"N": "1"}}
    caller = FakeCaller(refused(there, repeated=True))
    condition = Attr("a").absent()
    answer = await handle(caller).update(("u",), SET, condition=condition, returning=returning)
    assert answer == {"user": "u", "n": 5, "end": 1001, "a": 1}


async def test_an_update_has_failed_when_the_item_is_otherwise() -> None:
    caller = FakeCaller(refused({**LIVE, "a": {"N": "2"}}, repeated=True))
    with pytest.raises(ConditionFailed):
        await handle(caller).update(("u",), SET, condition=Attr("a").absent())


async def test_a_replacement_is_done_when_the_item_is_as_it_puts_it() -> None:
    caller = FakeCaller(refused(DEAD), refused({**U, "a": {"N": "1"}}, repeated=True))
    new = await handle(caller).update(("u",), SET, returning=Returning.NEW)
    assert new == {"user": "u", "a": 1}


async def test_it_is_remembered_over_further_tries_that_a_reply_was_lost() -> None:
    # Lost: the put in place of what has expired. Then another changed the item and it expired.
    caller = FakeCaller(
        refused(DEAD),
        refused(DEAD, repeated=True),
        refused({**LIVE, "a": {"N": "1"}}),
    )
    condition = Attr("a").absent()
    assert await handle(caller).update(("u",), SET, condition=condition) is None


async def test_a_put_of_what_has_expired_already_is_done() -> None:
    item: Item = {"user": "u", "n": 5, "end": 1000}
    await handle(FakeCaller(refused(DEAD, repeated=True))).put(item, condition=EXISTS)
    with pytest.raises(ConditionFailed):
        await handle(FakeCaller(refused(DEAD))).put(item, condition=EXISTS)


@pytest.mark.parametrize("condition", [EXISTS, None], ids=["a condition", "none"])
async def test_an_update_that_lets_the_item_expire_is_done(condition: Condition | None) -> None:
    caller = FakeCaller(refused(DEAD, repeated=True))
    end = Update(set={"end": 1000})
    new = await handle(caller).update(("u",), end, condition=condition, returning=Returning.NEW)
    assert new == {"user": "u", "n": 5, "end": 1000}
    assert caller.operations == ["UpdateItem"]


async def test_an_update_of_other_attributes_has_failed_when_the_item_has_expired() -> None:
    caller = FakeCaller(refused({**DEAD, "a": {"N": "1"}}, repeated=True))
    with pytest.raises(ConditionFailed):
        await handle(caller).update(("u",), SET, condition=EXISTS)


@pytest.mark.parametrize(
    "answers",
    [
        [refused(DEAD, repeated=True), *[refused(DEAD)] * 40],
        [refused(repeated=True), Throttled("when the item is looked at")],
        [refused(DEAD, repeated=True), Throttled("when it is replaced")],
        [refused(DEAD, repeated=True), refused(LIVE), Throttled("when it is begun anew")],
    ],
    ids=["it never holds still", "looking", "replacing", "again"],
)
async def test_a_write_that_may_have_been_applied_is_not_called_throttled(answers: Any) -> None:
    with pytest.raises(Unavailable, match="may have been applied"):
        await handle(FakeCaller(*answers)).update(("u",), SET)


# --- refused before anything is sent ----------------------------------------------------------


async def test_what_cannot_be_right_is_never_sent() -> None:
    caller = FakeCaller()
    table = handle(caller)
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
    assert caller.calls == []


async def test_a_batch_may_be_larger_than_any_item() -> None:
    caller = FakeCaller()
    await handle(caller).batch_write(
        puts=[{"user": str(number), "x": "x" * 300_000} for number in range(3)]
    )
    assert caller.operations == ["BatchWriteItem"]


async def test_writes_of_one_item_are_sent_in_the_order_submitted() -> None:
    caller = FakeCaller()
    table = handle(caller)
    writes = [
        table.put({"user": "u", "n": 1}),
        table.update(("u",), SET),
        table.batch_write(puts=[{"user": "u"}]),
        table.delete(("u",)),
    ]
    assert await table.get(("u",)) is None
    assert caller.operations == ["PutItem", "UpdateItem", "BatchWriteItem", "DeleteItem", "GetItem"]
    for write in writes:
        await write
