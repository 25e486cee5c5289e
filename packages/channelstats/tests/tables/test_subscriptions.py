"""A row for each subscribed browser; what is noted about one that is gone is dropped."""

import asyncio
from datetime import date

from channelstats.tables.subscriptions import HELD, Subscription, announced, failed, id_of
from support.channelstats.house import House
from support.clocks import ManualClock

WEEK, NEXT = date(2024, 3, 10), date(2024, 3, 17)
ONE = Subscription("https://push.example.com/1", "key", "secret", "vapid", 5, "2024-03-03")


async def one(of: House) -> Subscription:
    [found] = await of.tables.subscriptions.all()
    return found


async def test_a_row_is_known_by_a_digest_of_its_endpoint(empty: House) -> None:
    assert await empty.tables.subscriptions.add(ONE)
    assert await empty.items("Subscription") == {
        id_of(ONE.endpoint): {
            "subscription_id": id_of(ONE.endpoint),
            "endpoint": "https://push.example.com/1",
            "p256dh": "key",
            "auth": "secret",
            "vapid": "vapid",
            "created_at": 5,
            "announced": "2024-03-03",
            "not_before": 0,
            "failing_since": 0,
        }
    }
    assert await empty.tables.subscriptions.knows(ONE.endpoint)
    assert await one(empty) == ONE


async def test_of_a_known_subscription_only_the_keys_are_taken(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    await subscriptions.add(ONE)
    assert not await subscriptions.add(
        Subscription(ONE.endpoint, "key 2", "secret 2", "v 2", 9, "2025")
    )
    assert await one(empty) == Subscription(
        ONE.endpoint, "key 2", "secret 2", "v 2", 5, "2024-03-03"
    )


async def test_a_lease_is_one_programs_until_it_is_given_back_or_over(empty: House) -> None:
    subscriptions, clock = empty.tables.subscriptions, ManualClock(100)
    await subscriptions.add(ONE)
    leases = [subscriptions.lease_if_due(ONE.endpoint, WEEK, clock) for _ in range(3)]
    [late] = [lease for lease in await asyncio.gather(*leases) if lease is not None]
    clock.advance(HELD - 1)
    assert await subscriptions.lease_if_due(ONE.endpoint, WEEK, clock) is None
    clock.advance(1)
    lease = await subscriptions.lease_if_due(ONE.endpoint, WEEK, clock)
    assert lease is not None
    assert not await late.release(announced(WEEK))  # whose time was over
    assert await lease.release(failed(450, 402))
    assert (await one(empty)).not_before == 450
    assert await subscriptions.lease_if_due(ONE.endpoint, WEEK, ManualClock(449)) is None
    assert (await one(empty)).waits_for(WEEK)
    assert (await one(empty)).failing_since == 402
    assert await subscriptions.lease_if_due(ONE.endpoint, WEEK, ManualClock(450)) is not None


async def test_who_was_told_of_a_week_cannot_be_leased_for_it_or_an_earlier_one(
    empty: House,
) -> None:
    subscriptions, clock = empty.tables.subscriptions, ManualClock(100)
    await subscriptions.add(ONE)
    lease = await subscriptions.lease_if_due(ONE.endpoint, WEEK, clock)
    assert lease is not None
    assert await lease.release(announced(WEEK))
    assert await one(empty) == Subscription(ONE.endpoint, "key", "secret", "vapid", 5, "2024-03-10")
    for week in (date(2024, 3, 3), WEEK):
        assert await subscriptions.lease_if_due(ONE.endpoint, week, clock) is None
    assert await subscriptions.lease_if_due(ONE.endpoint, NEXT, clock) is not None


async def test_nothing_brings_a_removed_row_back(empty: House) -> None:
    subscriptions, clock = empty.tables.subscriptions, ManualClock(100)
    await subscriptions.add(ONE)
    lease = await subscriptions.lease_if_due(ONE.endpoint, WEEK, clock)
    assert lease is not None
    await subscriptions.remove(ONE.endpoint)
    await subscriptions.remove(ONE.endpoint)
    assert not await lease.release(announced(WEEK))
    assert not await lease.release(failed(500, 100))
    assert await subscriptions.lease_if_due(ONE.endpoint, WEEK, clock) is None
    assert await empty.items("Subscription") == {}


async def test_all_are_found_page_by_page(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    endpoints = {f"https://push.example.com/{number}" for number in range(450)}
    for endpoint in endpoints:
        await subscriptions.add(Subscription(endpoint, "k", "a"))
    assert {one.endpoint for one in await subscriptions.all()} == endpoints


async def test_a_row_without_endpoint_is_nobody(empty: House) -> None:
    await (await empty.table("Subscription")).put({"subscription_id": "x"})
    assert await empty.tables.subscriptions.all() == []
