"""A row of what was sent, or of who is notified, holds what it was given until it goes."""

from datetime import date

import msgspec

from channelstats.tables.sending import Sent, SentKey, Subscription, columns_of, id_of, warned
from support.channelstats.house import House
from support.clocks import ManualClock

KEY = SentKey("user", "UBOB", date(2024, 3, 10), 7, "UBOB")
GLOBAL = SentKey("global", "", date(2024, 3, 10), 7, "CGEN")
MINE = Sent("CGEN", "1.1")


async def stored(house: House, key: SentKey, row: Sent) -> None:
    lease = house.tables.sent.lease(key, ManualClock())
    assert await lease.acquire()
    assert await lease.release(columns_of(row))


async def test_a_row_is_read_as_it_was_written_and_its_key_says_what_went_where(
    empty: House,
) -> None:
    for key, row in ((KEY, msgspec.structs.replace(MINE, done=9)), (GLOBAL, MINE), (KEY, MINE)):
        await stored(empty, key, row)
        assert await empty.tables.sent.get(key) == row
    assert set(await empty.items("Configuration")) == {
        "sent user UBOB 2024-03-10-7 UBOB",
        "sent global - 2024-03-10-7 CGEN",
    }


async def test_what_a_person_was_sent_can_be_forgotten(empty: House) -> None:
    sent = empty.tables.sent
    to_other = SentKey("user", "UBOBBY", date(2024, 3, 10), 7, "UBOBBY")
    for key in (KEY, GLOBAL, to_other):
        await stored(empty, key, MINE)
    await empty.tables.configuration.put("counts", {"active_users": 1})
    await sent.forget("UBOB")
    assert await sent.get(KEY) is None
    assert await sent.get(GLOBAL) == await sent.get(to_other) == MINE
    assert len(await empty.items("Configuration")) == 3


async def test_what_is_long_past_expires(empty: House) -> None:
    sent = empty.tables.sent
    keys = [msgspec.structs.replace(KEY, start=date(2023, 12, day)) for day in (3, 10, 17)]
    for key in keys:
        await stored(empty, key, MINE)
    await empty.tables.configuration.put("counts", {"active_users": 1})
    await sent.expire(date(2023, 12, 10))
    assert [await sent.get(key) for key in keys] == [None, MINE, MINE]
    assert len(await empty.items("Configuration")) == 3


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
