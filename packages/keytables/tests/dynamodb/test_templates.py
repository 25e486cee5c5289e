"""Request templates: expressions are compiled once, values added by each call."""

from typing import Any

import orjson
import pytest

from keytables import (
    Attr,
    Condition,
    Index,
    Key,
    Kind,
    Param,
    Returning,
    SchemaError,
    Table,
    Update,
    Values,
)
from keytables.checks import key_check
from keytables.dynamodb.writes import ValueCheck, WriteTemplate
from support.cases import cases

PLAIN = Table("plain", Key("user"), indexes=(Index("by_n", Key("n", Kind.NUMBER)),))
EXPIRING = Table("expiring", Key("user"), expiry="end")
CHECKS: dict[str, ValueCheck] = {"n": key_check(Key("n", Kind.NUMBER), 100)}
KEY = b'"Key":{"user":{"S":"u"}}'


def request(
    update: Update | None,
    values: Values | None = None,
    condition: Condition | None = None,
    *,
    table: Table = PLAIN,
    returning: Returning = Returning.NOTHING,
) -> dict[str, Any]:
    template = WriteTemplate(table, "t.name", condition, update, returning, checks=CHECKS)
    found: dict[str, Any] = orjson.loads(template.bind(values).request(KEY, 7.5))
    assert found.pop("TableName") == "t.name"
    assert found.pop("Key") == {"user": {"S": "u"}}
    return found


def test_an_update_has_a_clause_for_each_action() -> None:
    update = Update(
        set={"a": Param("p"), "b": 5}, remove=("c",), add_to=("d",), take_from={"e": Param("d")}
    )
    assert request(update, {"p": "x", "d": {"m"}}) == {
        "ReturnValues": "NONE",
        "UpdateExpression": "SET #0 = :0, #1 = :l0 REMOVE #2 ADD #3 :1 DELETE #4 :1",
        "ExpressionAttributeNames": {"#0": "a", "#1": "b", "#2": "c", "#3": "d", "#4": "e"},
        "ExpressionAttributeValues": {":0": {"S": "x"}, ":l0": {"N": "5"}, ":1": {"SS": ["m"]}},
    }


def test_the_empty_set_is_not_sent() -> None:
    update = Update(set={"a": Param("p"), "b": Param("q")}, add_to=("d",), take_from=("e",))
    values: dict[str, Any] = {"p": set(), "q": 1, "d": set(), "e": frozenset()}
    found = request(update, values)
    assert found["UpdateExpression"] == "SET #0 = :0 REMOVE #1"
    assert found["ExpressionAttributeNames"] == {"#0": "b", "#1": "a"}
    assert found["ExpressionAttributeValues"] == {":0": {"N": "1"}}


def test_an_update_of_nothing_has_no_expression() -> None:
    assert request(Update(add_to=("d",)), {"d": set()}) == {"ReturnValues": "NONE"}


def test_an_expression_is_compiled_once_for_the_same_empty_sets() -> None:
    template = WriteTemplate(PLAIN, "t", None, Update(set=("a",)), checks={})
    assert template.bind({"a": 1}).expression is template.bind({"a": "x"}).expression
    assert template.bind({"a": set()}).expression is template.bind({"a": set()}).expression
    assert template.bind({"a": set()}).expression is not template.bind({"a": 1}).expression


def test_condition_and_update_share_their_parameters() -> None:
    found = request(Update(set=("a",)), {"a": 5}, Attr("a").absent() | (Attr("a") < Param("a")))
    assert found["ConditionExpression"] == "attribute_not_exists(#0) OR #0 < :0"
    assert found["UpdateExpression"] == "SET #0 = :0"
    assert found["ExpressionAttributeValues"] == {":0": {"N": "5"}}
    assert found["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"


def test_the_time_is_given_when_the_request_is_sent() -> None:
    template = WriteTemplate(EXPIRING, "t", Attr("a").exists(), checks={})
    bound = template.bind(None)
    for now in (7.5, 8):
        values = orjson.loads(bound.request(KEY, now))["ExpressionAttributeValues"]
        assert values == {":now": {"N": str(now)}, ":zero": {"N": "0"}}


@cases(
    ("update", "values"),
    [
        (Update(set=("a",)), None),
        (Update(set=("a",)), {"b": 1}),
        (Update(set=("a",)), {"a": (1,)}),
        (Update(set=("n",)), {"n": "text"}),
        (Update(set=("n",)), {"n": set()}),
        (Update(set={"n": Param("x")}), {"x": None}),
        (Update(add_to=("a",)), {"a": "text"}),
        (Update(take_from=("a",)), {"a": ["x"]}),
    ],
)
def test_values_of_the_wrong_type_are_refused(update: Update, values: Any) -> None:
    template = WriteTemplate(PLAIN, "t", None, update, checks=CHECKS)
    with pytest.raises(SchemaError):
        template.bind(values)


@cases(
    "update",
    [
        Update(set={"n": "text"}),
        Update(set={"user": "v"}),
        Update(remove=("user",)),
        Update(add_to={"a": "text"}),
        Update(take_from={"a": 5}),
    ],
)
def test_an_expression_that_is_always_wrong_is_refused_at_once(update: Update) -> None:
    with pytest.raises(SchemaError):
        WriteTemplate(PLAIN, "t", None, update, checks=CHECKS)
