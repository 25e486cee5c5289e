"""Ranges of sort keys, requests of queries, and pages whose limit counts what is shown."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keytables import Cursor, Key, Page, Range, Table
from keytables.checks import key_check
from keytables.dynamodb.queries import ALL_KEYS, KeyRange, PageRequest, key_range, read_page
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.table_client import StoreClient, TableClient
from keytables.failures import FailureReports
from support.clocks import ManualClock
from support.fake_api_client import FakeApiClient

# --- ranges ---------------------------------------------------------------------------------------

check = key_check(Key("place"), 1024)

texts = st.text(st.characters(codec="utf-8"), max_size=2)
bounds = st.one_of(st.none(), texts)
ranges = st.builds(
    lambda low, high, low_open, high_open: Range(
        **{"gt" if low_open else "ge": low, "lt" if high_open else "le": high}
    ),
    bounds,
    bounds,
    st.booleans(),
    st.booleans(),
)


def matches(found: KeyRange, place: str) -> bool:
    """Whether DynamoDB finds a key by that comparison."""
    key, values = place.encode(), [str(value).encode() for value in found.values]
    match found.text:
        case "":
            return True
        case "{0} > :a":
            return key > values[0]
        case "{0} >= :a":
            return key >= values[0]
        case "{0} < :a":
            return key < values[0]
        case "{0} <= :a":
            return key <= values[0]
        case "{0} BETWEEN :a AND :b":
            assert values[0] <= values[1], "DynamoDB refuses it"
            return values[0] <= key <= values[1]
    raise AssertionError(found.text)


@given(ranges, st.text(st.characters(codec="utf-8"), min_size=1, max_size=3))
def test_a_key_is_found_exactly_if_it_is_in_the_range(sort: Range, place: str) -> None:
    key = place.encode()
    expected = (
        (sort.gt is None or key > str(sort.gt).encode())
        and (sort.ge is None or key >= str(sort.ge).encode())
        and (sort.lt is None or key < str(sort.lt).encode())
        and (sort.le is None or key <= str(sort.le).encode())
    )
    found = key_range(sort, Key("place"), check)
    if found is None:
        assert not expected
    else:
        assert "" not in found.values, "DynamoDB takes no empty key"
        assert (matches(found, place) and place not in found.excluded) is expected


def test_a_prefix_is_a_comparison() -> None:
    assert key_range(Range(prefix="a"), Key("place"), check) == KeyRange(
        "begins_with({0}, :a)", ("a",)
    )
    assert key_range(Range(prefix=""), Key("place"), check) == ALL_KEYS


def test_a_range_of_one_key_is_a_between() -> None:
    found = key_range(Range(ge="a", le="a"), Key("place"), check)
    assert found == KeyRange("{0} BETWEEN :a AND :b", ("a", "a"))


# --- pages ----------------------------------------------------------------------------------------

TABLE = Table("things", Key("user"), Key("place"), expiry="end")
NOW = 1000.0


def item(place: str, end: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"user": {"S": "u"}, "place": {"S": place}}
    return found if end is None else {**found, "end": {"N": str(end)}}


def expired(place: str) -> dict[str, Any]:
    return item(place, 1000)


def response(*items: dict[str, Any], more: bool = False) -> dict[str, Any]:
    key = {name: items[-1][name] for name in ("user", "place")} if more else None
    return {"Items": list(items), **({"LastEvaluatedKey": key} if key else {})}


async def page(client: FakeApiClient, limit: int | None = None, **options: Any) -> Page:
    table = TableClient(
        StoreClient(client, FailureReports(), "x."), TABLE, ManualClock(NOW), RetryPolicy()
    )
    head = b'{"TableName":"x.things"'
    request = PageRequest(operation="Query", head=head, position=("place",), **options)
    return await read_page(table, request, limit)


def places(found: Page) -> str:
    return "".join(str(one["place"]) for one in found.items)


async def test_one_more_than_wanted_is_requested_and_not_shown() -> None:
    client = FakeApiClient(response(item("a"), item("b"), item("c"), more=True))
    found = await page(client, 2)
    assert places(found) == "ab"
    assert found.cursor == Cursor(("b",))
    assert client.calls[0][1]["Limit"] == 3


async def test_a_page_that_is_exactly_full_has_no_cursor() -> None:
    found = await page(FakeApiClient(response(item("a"), item("b"))), 2)
    assert places(found) == "ab"
    assert found.cursor is None


async def test_without_a_limit_a_page_is_one_response() -> None:
    client = FakeApiClient(response(item("a"), expired("b"), more=True))
    found = await page(client)
    assert places(found) == "a"
    assert found.cursor == Cursor(("b",))
    assert "Limit" not in client.calls[0][1]


async def test_expired_items_do_not_count_for_a_limit() -> None:
    client = FakeApiClient(
        response(expired("a"), expired("b"), item("c", 0), more=True),
        response(expired("d"), item("e", 1001), item("f"), more=True),
    )
    found = await page(client, 2)
    assert places(found) == "ce"
    assert found.cursor == Cursor(("e",))
    first, second = (request for _, request in client.calls)
    assert "ExclusiveStartKey" not in first
    assert second["ExclusiveStartKey"] == {"user": {"S": "u"}, "place": {"S": "c"}}
    assert second["Limit"] > first["Limit"]


async def test_a_page_ends_after_many_responses_with_nothing_to_show() -> None:
    client = FakeApiClient(*[response(expired("a"), more=True)] * 100)
    found = await page(client, 2)
    assert found == Page([], Cursor(("a",)))
    assert len(client.calls) < 30


async def test_an_excluded_bound_is_left_out() -> None:
    client = FakeApiClient(response(item("a"), item("b"), item("c")))
    assert places(await page(client, excluded=("a", "c"))) == "b"


async def test_a_page_begins_after_the_given_key() -> None:
    client = FakeApiClient(response(item("b")))
    start = {"user": {"S": "u"}, "place": {"S": "a"}}
    await page(client, start=start)
    assert client.calls[0][1]["ExclusiveStartKey"] == start


async def test_an_expiry_that_is_not_in_the_response_is_looked_up() -> None:
    client = FakeApiClient(
        response(item("a"), item("b"), item("c")),
        {"Responses": {"x.things": [expired("a"), item("c", 1001)]}},  # b was deleted meanwhile
    )
    found = await page(client, 5, lacks_expiry=True)
    assert found.items == [{"user": "u", "place": "c"}]
    keys_request = client.calls[1][1]["RequestItems"]["x.things"]
    assert keys_request["Keys"] == [item("a"), item("b"), item("c")]
    assert set(keys_request["ExpressionAttributeNames"].values()) == {"user", "place", "end"}


async def test_pages_that_are_looked_up_have_a_limit_in_any_case() -> None:
    client = FakeApiClient(response())
    await page(client, lacks_expiry=True)
    assert client.calls[0][1]["Limit"] == 500
