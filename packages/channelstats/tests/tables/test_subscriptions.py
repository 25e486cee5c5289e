"""A row for each subscribed browser; what is noted about one that is gone is dropped."""

import asyncio
from datetime import date

from channelstats.tables.subscriptions import Subscription, id_of
from support.channelstats.house import House

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


async def test_a_claim_is_one_programs_until_it_is_given_back_or_over(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    await subscriptions.add(ONE)
    claims = [subscriptions.claim(ONE.endpoint, WEEK, 100, lease) for lease in (400, 401, 402)]
    assert sorted(await asyncio.gather(*claims)) == [False, False, True]
    assert not (await one(empty)).waits_for(WEEK, 399)
    assert await subscriptions.claim(ONE.endpoint, WEEK, 402, 700)
    assert not await subscriptions.note_announced(ONE.endpoint, WEEK, 400)  # whose time was over
    assert await subscriptions.failed(ONE.endpoint, 700, 450, 402)
    assert not (await one(empty)).waits_for(WEEK, 449)
    assert (await one(empty)).waits_for(WEEK, 450)
    assert (await one(empty)).failing_since == 402


async def test_who_was_told_of_a_week_cannot_be_claimed_for_it_or_an_earlier_one(
    empty: House,
) -> None:
    subscriptions = empty.tables.subscriptions
    await subscriptions.add(ONE)
    assert await subscriptions.claim(ONE.endpoint, WEEK, 100, 400)
    assert await subscriptions.note_announced(ONE.endpoint, WEEK, 400)
    assert await one(empty) == Subscription(ONE.endpoint, "key", "secret", "vapid", 5, "2024-03-10")
    for week in (date(2024, 3, 3), WEEK):
        assert not await subscriptions.claim(ONE.endpoint, week, 1000, 1300)
    assert await subscriptions.claim(ONE.endpoint, NEXT, 1000, 1300)


async def test_nothing_brings_a_removed_row_back(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    await subscriptions.add(ONE)
    assert await subscriptions.claim(ONE.endpoint, WEEK, 100, 400)
    await subscriptions.remove(ONE.endpoint)
    await subscriptions.remove(ONE.endpoint)
    assert not await subscriptions.note_announced(ONE.endpoint, WEEK, 400)
    assert not await subscriptions.failed(ONE.endpoint, 400, 500, 100)
    assert not await subscriptions.claim(ONE.endpoint, WEEK, 500, 800)
    assert await empty.items("Subscription") == {}


async def test_rows_are_counted_as_far_as_is_asked(empty: House) -> None:
    subscriptions = empty.tables.subscriptions
    for number in range(450):
        await subscriptions.add(Subscription(f"https://push.example.com/{number}", "k", "a"))
    assert await subscriptions.at_least(450)
    assert not await subscriptions.at_least(451)
    assert await subscriptions.at_least(0)


async def test_a_row_without_endpoint_is_nobody(empty: House) -> None:
    await (await empty.table("Subscription")).put({"subscription_id": "x"})
    assert await empty.tables.subscriptions.all() == []
