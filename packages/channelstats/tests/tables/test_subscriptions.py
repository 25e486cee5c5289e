"""A row for each subscribed browser; what is noted about one that is gone is dropped."""

from datetime import date

from channelstats.tables.subscriptions import Subscription, id_of, warned
from support.channelstats.house import House
from support.clocks import ManualClock

WEEK, NEXT = date(2024, 3, 10), date(2024, 3, 17)
ONE = Subscription("https://push.example.com/1", "key", "secret", "vapid", 5, "2024-03-03")


async def test_a_row_is_known_by_a_digest_of_its_endpoint(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    assert await subscriptions.add(ONE)
    assert await empty.items("Subscription") == {
        id_of(ONE.endpoint): {
            "subscription_id": id_of(ONE.endpoint),
            "endpoint": "https://push.example.com/1",
            "p256dh": "key",
            "auth": "secret",
            "vapid": "vapid",
            "created_at": 5,
            "announced": "2024-03-03",
            "failing_since": 0,
        }
    }
    assert await subscriptions.knows(ONE.endpoint)
    assert await subscriptions.all() == [ONE]
    assert ONE.waits_for(WEEK)
    assert not ONE.waits_for(date(2024, 3, 3))


async def test_of_a_known_subscription_only_the_keys_are_taken(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    await subscriptions.add(ONE)
    again = Subscription(ONE.endpoint, "key 2", "secret 2", "v 2", 9, "2025")
    assert not await subscriptions.add(again)
    [stored] = await subscriptions.all()
    assert stored == Subscription(ONE.endpoint, "key 2", "secret 2", "v 2", 5, "2024-03-03")


async def test_what_is_noted_stays_and_brings_no_removed_row_back(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    await subscriptions.add(ONE)
    await subscriptions.note(ONE.endpoint, announced="2024-03-10", failing_since=7)
    [noted] = await subscriptions.all()
    assert (noted.announced, noted.failing_since, noted.auth) == ("2024-03-10", 7, "secret")
    for _ in range(2):
        await subscriptions.remove(ONE.endpoint)
    await subscriptions.note(ONE.endpoint, announced="2024-03-17")
    assert await empty.items("Subscription") == {}


def test_bounds_that_were_warned_of_are_those_of_one_week() -> None:
    one = Subscription("mailto:a@example.org", "", "", warned=warned(WEEK, {"b>1", "a<2"}))
    assert one.warned == "2024-03-10 a<2 b>1"
    assert sorted(one.warned_of(WEEK)) == ["a<2", "b>1"]
    assert one.warned_of(NEXT) == frozenset()
    assert ONE.warned_of(WEEK) == frozenset()


async def test_all_are_found_page_by_page_and_the_lease_is_none_of_them(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    endpoints = {f"https://push.example.com/{number}" for number in range(250)}
    for endpoint in endpoints:
        await subscriptions.add(Subscription(endpoint, "k", "a"))
    assert await subscriptions.lease(ManualClock(100)).acquire()
    assert {one.endpoint for one in await subscriptions.all()} == endpoints
    assert not await subscriptions.lease(ManualClock(100)).acquire()
