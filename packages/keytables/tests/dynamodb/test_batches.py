"""Batches: portions of what the database takes, and nothing left undone."""

import itertools
from typing import Any

import orjson
import pytest

from keytables import Key, Table, Throttled
from keytables.dynamodb import batches
from keytables.dynamodb.batches import get_all, write_all, write_requests
from keytables.dynamodb.remote import Remote
from support.clocks import ManualClock
from support.fake_caller import FakeCaller

TABLE = Table("things", Key("a"))


def remote(caller: FakeCaller) -> Remote:
    return Remote(caller, TABLE, "x.things", ManualClock())


def put(number: int) -> dict[str, Any]:
    return {"PutRequest": {"Item": {"a": {"S": str(number)}}}}


def requests(*numbers: int) -> list[bytes]:
    return write_requests("x.things", [put(number) for number in numbers])


def key(number: int) -> dict[str, Any]:
    return {"a": {"S": str(number)}}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keytables.dynamodb.pauses.FIRST", 0.0)


@pytest.mark.parametrize(
    ("count", "portions"), [(0, []), (25, [25]), (26, [25, 1]), (60, [25, 25, 10])]
)
async def test_writes_go_in_portions_of_25(count: int, portions: list[int]) -> None:
    caller = FakeCaller()
    await write_all(remote(caller), requests(*range(count)))
    sent = [request["RequestItems"]["x.things"] for _, request in caller.calls]
    assert [len(portion) for portion in sent] == portions
    assert list(itertools.chain(*sent)) == [put(number) for number in range(count)]


def test_a_portion_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_BYTES", len(requests(1, 2)[0]))
    found = requests(1, 2, 30000, 4, 5)
    assert [
        each for request in found for each in orjson.loads(request)["RequestItems"]["x.things"]
    ] == [put(1), put(2), put(30000), put(4), put(5)]
    assert all(len(request) <= batches.MAX_BYTES for request in found)


async def test_writes_left_undone_are_asked_for_again() -> None:
    caller = FakeCaller(
        {"UnprocessedItems": {"x.things": [put(2), put(3)]}},
        {"UnprocessedItems": {"x.things": [put(3)]}},
        {"UnprocessedItems": {}},
    )
    await write_all(remote(caller), requests(1, 2, 3))
    assert [r["RequestItems"]["x.things"] for _, r in caller.calls] == [
        [put(1), put(2), put(3)],
        [put(2), put(3)],
        [put(3)],
    ]


async def test_writes_left_undone_for_too_long_are_throttled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "PATIENCE", -1.0)
    caller = FakeCaller({"UnprocessedItems": {"x.things": [put(1)]}})
    with pytest.raises(Throttled, match="things"):
        await write_all(remote(caller), requests(1))


@pytest.mark.parametrize(("count", "portions"), [(0, []), (100, [100]), (101, [100, 1])])
async def test_keys_go_in_portions_of_100(count: int, portions: list[int]) -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        return {"Responses": {"x.things": request["RequestItems"]["x.things"]["Keys"]}}

    caller = FakeCaller(answer, answer)
    wanted = [key(number) for number in range(count)]
    assert await get_all(remote(caller), wanted) == wanted
    asked = [request["RequestItems"]["x.things"] for _, request in caller.calls]
    assert [len(one["Keys"]) for one in asked] == portions
    assert all(one["ConsistentRead"] is True for one in asked)


async def test_keys_left_undone_are_asked_for_again() -> None:
    left = {"UnprocessedKeys": {"x.things": {"Keys": [key(2)], "ConsistentRead": True}}}
    caller = FakeCaller(
        {"Responses": {"x.things": [key(1)]}, **left},
        {"Responses": {"x.things": []}, **left},
        {"Responses": {"x.things": [key(2)]}, "UnprocessedKeys": {}},
    )
    assert await get_all(remote(caller), [key(1), key(2)]) == [key(1), key(2)]
    assert [r["RequestItems"]["x.things"]["Keys"] for _, r in caller.calls] == [
        [key(1), key(2)],
        [key(2)],
        [key(2)],
    ]


async def test_keys_left_undone_for_too_long_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PATIENCE", -1.0)
    caller = FakeCaller({"UnprocessedKeys": {"x.things": {"Keys": [key(1)]}}})
    with pytest.raises(Throttled):
        await get_all(remote(caller), [key(1)])


async def test_only_the_attributes_asked_for_are_read() -> None:
    caller = FakeCaller()
    await get_all(remote(caller), [key(1)], ("a", "end"))
    asked = caller.calls[0][1]["RequestItems"]["x.things"]
    assert asked["ProjectionExpression"] == "#0, #1"
    assert asked["ExpressionAttributeNames"] == {"#0": "a", "#1": "end"}
