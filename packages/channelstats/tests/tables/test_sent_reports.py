"""A row of what was sent holds what it was given, until it is forgotten or long past."""

from datetime import date

import msgspec

from channelstats.tables.sent_reports import Sent, SentKey, columns_of
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
