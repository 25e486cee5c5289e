"""Forgetting somebody leaves nothing of them, and no import brings them back."""

from datetime import date

import pytest

from channelstats.facts import Options, Period
from channelstats.tables import Tables
from channelstats.tables.exclusion import Forgotten, digest, forget_person
from channelstats.tables.marks import MarkState
from support.channelstats.house import EXAMPLE, NOW, UTC, House
from support.clocks import ManualClock

WEEK = Period(date(2024, 3, 10), 7, UTC)
BOB = ("UBOB", "bob", "Bob Berg")


@pytest.fixture
async def known(example: House) -> House:
    """The worked example, with everything that is kept of it beside the rows."""
    await example.tables.user_hash.add(["UALICE", "UBOB"])
    await example.tables.users_created.add([("UBOB", 1_500_000_000)])
    await example.tables.reports.put("2024-03-10-7", "a report on UBOB")
    await example.report(WEEK, Options())
    await example.tables.bulk.put("COLD", "UALICE,UBOB")
    marks = example.tables.marks
    await marks.put("newcomer UBOB", MarkState.DONE, int(NOW), "UCARA")
    await marks.put("newcomer UDAVE", MarkState.DONE, int(NOW), "UBOB")
    await marks.put("newcomer UERIN", MarkState.DONE, int(NOW), "UCARA")
    return example


async def remove(tables: Tables, uid: str) -> Forgotten:
    async with tables.writing(ManualClock(0)):
        return [done async for done in forget_person(tables, uid)][-1]


async def test_nothing_of_them_stays(known: House) -> None:
    assert "UBOB" in str(await known.everything())
    assert "UBOB" in str(known.kept().rows())
    done = await remove(known.tables, "UBOB")
    everything = str(await known.everything())
    assert not any(name in everything for name in BOB)
    assert "UBOB" not in str(known.kept().rows())
    assert (done.deleted, done.read) == (6, 15)
    assert set(await known.tables.marks.all()) == {"newcomer UERIN"}
    configuration = await known.items("Configuration")
    assert configuration["forgotten"]["people"] == frozenset({digest("UBOB")})


async def test_the_others_keep_what_is_theirs(known: House) -> None:
    before = await known.items("Message")
    await remove(known.tables, "UBOB")
    after = await known.items("Message")
    assert set(before) - set(after) == {
        key for key, item in before.items() if item.get("slack_uid") == "UBOB"
    }
    head = after["CGEN_1709573400.000300"]
    assert head["reactions"] == "wave:UCARA"
    assert (head["reaction_count"], head["reply_count"]) == (1, 1)
    assert head["replies"] == "UCARA:1709755200.000600"
    assert after["CDEV_1709608500.000500"] == before["CDEV_1709608500.000500"]
    members = [await known.tables.bulk.get(cid) for cid in ("CGEN", "COLD")]
    assert members == ["UALICE,UCARA", "UALICE"]


async def test_no_import_brings_them_back(known: House) -> None:
    await remove(known.tables, "UBOB")
    forgotten = await known.everything()
    await known.take_in(EXAMPLE)
    again = await known.everything()
    assert "UBOB" not in str(again)
    assert again["Message"] == forgotten["Message"]
    assert again["FirstPost"] == forgotten["FirstPost"]


async def test_it_can_be_done_again(known: House) -> None:
    await remove(known.tables, "UBOB")
    once = await known.everything()
    assert (await remove(known.tables, "UBOB")).deleted == 0
    assert await known.everything() == once
