"""A row of what was sent has one holder, and holds what it was given."""

from datetime import date

import msgspec
import pytest

from channelstats.tables.sent_reports import NotHeld, Sent, SentKey
from support.channelstats.house import House

KEY = SentKey("user", "UBOB", date(2024, 3, 10), 7, "UBOB")
GLOBAL = SentKey("global", "", date(2024, 3, 10), 7, "CGEN")
MINE = Sent(run="mine", until=100, edition="e", content="c")


async def test_a_row_is_read_as_it_was_written(empty: House) -> None:
    full = Sent("r", 5, "e", "c", "CGEN", "1.1", ("1.1", "1.2"), 60, 3, 7, "F1", 9)
    for key, row in ((KEY, full), (GLOBAL, MINE)):
        assert await empty.tables.sent.get(key) is None
        assert await empty.tables.sent.take(key, None, row)
        assert await empty.tables.sent.get(key) == row


async def test_its_key_says_what_went_where(empty: House) -> None:
    await empty.tables.sent.take(KEY, None, MINE)
    await empty.tables.sent.take(GLOBAL, None, MINE)
    assert set(await empty.items("Configuration")) == {
        "sent user UBOB 2024-03-10-7 UBOB",
        "sent global - 2024-03-10-7 CGEN",
    }


async def test_a_row_is_taken_only_as_it_was_seen(empty: House) -> None:
    sent = empty.tables.sent
    assert await sent.take(KEY, None, MINE)
    assert not await sent.take(KEY, None, msgspec.structs.replace(MINE, run="other"))
    older = msgspec.structs.replace(MINE, until=99)
    assert not await sent.take(KEY, older, msgspec.structs.replace(MINE, run="other"))
    assert await sent.take(KEY, MINE, msgspec.structs.replace(MINE, run="other"))


async def test_only_the_holder_changes_it(empty: House) -> None:
    sent = empty.tables.sent
    await sent.take(KEY, None, MINE)
    await sent.keep(KEY, msgspec.structs.replace(MINE, until=0))
    with pytest.raises(NotHeld):
        await sent.keep(KEY, msgspec.structs.replace(MINE, run="other"))
    with pytest.raises(NotHeld):
        await sent.keep(GLOBAL, MINE)


async def test_what_a_person_was_sent_can_be_forgotten(empty: House) -> None:
    sent = empty.tables.sent
    to_other = SentKey("user", "UBOBBY", date(2024, 3, 10), 7, "UBOBBY")
    for key in (KEY, GLOBAL, to_other):
        await sent.take(key, None, MINE)
    await empty.tables.configuration.put("counts", {"active_users": 1})
    await sent.forget("UBOB")
    assert await sent.get(KEY) is None
    assert await sent.get(GLOBAL) == await sent.get(to_other) == MINE
    assert len(await empty.items("Configuration")) == 3


async def test_what_is_long_past_expires(empty: House) -> None:
    sent = empty.tables.sent
    keys = [msgspec.structs.replace(KEY, start=date(2023, 12, day)) for day in (3, 10, 17)]
    for key in keys:
        await sent.take(key, None, MINE)
    await empty.tables.configuration.put("counts", {"active_users": 1})
    await sent.expire(date(2023, 12, 10))
    assert [await sent.get(key) for key in keys] == [None, MINE, MINE]
    assert len(await empty.items("Configuration")) == 3
