"""A row of what was sent has one holder, and holds what it was given."""

from datetime import date

import msgspec

from channelstats.tables.sent_reports import HELD, NOT_DONE, Sent, SentKey, columns_of
from support.channelstats.house import House
from support.clocks import ManualClock

KEY = SentKey("user", "UBOB", date(2024, 3, 10), 7, "UBOB")
GLOBAL = SentKey("global", "", date(2024, 3, 10), 7, "CGEN")
MINE = Sent("CGEN", "1.1")


async def stored(house: House, key: SentKey, row: Sent) -> None:
    lease = house.tables.sent.lease(key, ManualClock())
    assert await lease.acquire()
    assert await lease.release(columns_of(row))


async def test_a_row_is_read_as_it_was_written(empty: House) -> None:
    full = Sent("CGEN", "1.1", 9)
    for key, row in ((KEY, full), (GLOBAL, MINE), (KEY, MINE)):
        await stored(empty, key, row)
        assert await empty.tables.sent.get(key) == row


async def test_its_key_says_what_went_where(empty: House) -> None:
    await stored(empty, KEY, MINE)
    await stored(empty, GLOBAL, MINE)
    assert set(await empty.items("Configuration")) == {
        "sent user UBOB 2024-03-10-7 UBOB",
        "sent global - 2024-03-10-7 CGEN",
    }


async def test_a_row_has_one_holder_and_only_the_holder_changes_it(empty: House) -> None:
    clock, other = ManualClock(), Sent("CDEV")
    first, second = (empty.tables.sent.lease(KEY, clock) for _ in range(2))
    assert await first.acquire()
    assert await first.renew(columns_of(MINE))
    assert not await second.acquire()
    assert not await second.renew(columns_of(other))
    assert not await second.release(columns_of(other))
    assert await empty.tables.sent.get(KEY) == MINE
    clock.advance(HELD)
    assert await second.acquire()
    assert not await first.renew(columns_of(other))


async def test_what_is_done_is_not_acquired_unless_on_purpose(empty: House) -> None:
    await stored(empty, KEY, msgspec.structs.replace(MINE, done=9))
    lease = empty.tables.sent.lease(KEY, ManualClock())
    assert not await lease.acquire(NOT_DONE)
    assert await lease.acquire()


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
