"""Pages: a limit counts what is shown."""

from typing import Any

import pytest

from keytables import Cursor, Key, Page, SchemaError, Table
from keytables.dynamodb.pages import check_limit, read_page
from keytables.dynamodb.remote import Remote
from support.clocks import ManualClock
from support.fake_caller import FakeCaller

TABLE = Table("things", Key("user"), Key("place"), expiry="end")
NOW = 1000.0


def item(place: str, end: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"user": {"S": "u"}, "place": {"S": place}}
    return found if end is None else {**found, "end": {"N": str(end)}}


def dead(place: str) -> dict[str, Any]:
    return item(place, 1000)


def answer(*items: dict[str, Any], more: bool = False) -> dict[str, Any]:
    key = {name: items[-1][name] for name in ("user", "place")} if more else None
    return {"Items": list(items), **({"LastEvaluatedKey": key} if key else {})}


async def page(caller: FakeCaller, limit: int | None = None, **options: Any) -> Page:
    remote = Remote(caller, TABLE, "x.things", ManualClock(NOW))
    given = {"place": ("place",), "start": None, **options}
    return await read_page(remote, "Query", b'{"TableName":"x.things"', limit=limit, **given)


def places(found: Page) -> str:
    return "".join(str(one["place"]) for one in found.items)


async def test_one_more_than_wanted_is_asked_for_and_not_shown() -> None:
    caller = FakeCaller(answer(item("a"), item("b"), item("c"), more=True))
    found = await page(caller, 2)
    assert places(found) == "ab"
    assert found.cursor == Cursor(("b",))
    assert caller.calls[0][1]["Limit"] == 3


async def test_a_page_that_is_just_full_has_no_cursor() -> None:
    found = await page(FakeCaller(answer(item("a"), item("b"))), 2)
    assert places(found) == "ab"
    assert found.cursor is None


async def test_without_a_limit_a_page_is_one_answer() -> None:
    caller = FakeCaller(answer(item("a"), dead("b"), more=True))
    found = await page(caller)
    assert places(found) == "a"
    assert found.cursor == Cursor(("b",))
    assert "Limit" not in caller.calls[0][1]


async def test_expired_items_do_not_count_for_a_limit() -> None:
    caller = FakeCaller(
        answer(dead("a"), dead("b"), item("c", 0), more=True),
        answer(dead("d"), item("e", 1001), item("f"), more=True),
    )
    found = await page(caller, 2)
    assert places(found) == "ce"
    assert found.cursor == Cursor(("e",))
    first, second = (request for _, request in caller.calls)
    assert "ExclusiveStartKey" not in first
    assert second["ExclusiveStartKey"] == {"user": {"S": "u"}, "place": {"S": "c"}}
    assert second["Limit"] > first["Limit"]


async def test_a_page_ends_after_so_many_answers_with_nothing_to_show() -> None:
    caller = FakeCaller(*[answer(dead("a"), more=True)] * 100)
    found = await page(caller, 2)
    assert found == Page([], Cursor(("a",)))
    assert len(caller.calls) < 30


async def test_a_bound_that_is_not_in_the_range_is_left_out() -> None:
    caller = FakeCaller(answer(item("a"), item("b"), item("c")))
    assert places(await page(caller, without=("a", "c"))) == "b"


async def test_it_begins_after_the_key_it_is_given() -> None:
    caller = FakeCaller(answer(item("b")))
    start = {"user": {"S": "u"}, "place": {"S": "a"}}
    await page(caller, start=start)
    assert caller.calls[0][1]["ExclusiveStartKey"] == start


async def test_where_the_expiry_is_not_in_the_answer_it_is_looked_up() -> None:
    caller = FakeCaller(
        answer(item("a"), item("b"), item("c")),
        {"Responses": {"x.things": [dead("a"), item("c", 1001)]}},  # b is gone meanwhile
    )
    found = await page(caller, 5, keys_only=True)
    assert found.items == [{"user": "u", "place": "c"}]
    asked = caller.calls[1][1]["RequestItems"]["x.things"]
    assert asked["Keys"] == [item("a"), item("b"), item("c")]
    assert set(asked["ExpressionAttributeNames"].values()) == {"user", "place", "end"}


async def test_pages_that_are_looked_up_are_bounded_without_a_limit() -> None:
    caller = FakeCaller(answer())
    await page(caller, keys_only=True)
    assert caller.calls[0][1]["Limit"] == 500


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_at_least_one(limit: int) -> None:
    with pytest.raises(SchemaError):
        check_limit(limit)
