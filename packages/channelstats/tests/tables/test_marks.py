"""What was said of things to do lasts as long as it should."""

from channelstats.tables.marks import LASTS, ItemMark, MarkState, assignment_of
from support.channelstats.house import NOW, House

ITEM = "question CGEN/1709573400000300"


async def test_a_mark_is_read_as_it_was_written_and_taken_back(empty: House) -> None:
    marks, now = empty.tables.marks, int(NOW)
    await marks.put(ITEM, MarkState.DONE, now, "UBOB")
    assert await marks.all() == {
        ITEM: ItemMark(MarkState.DONE, "UBOB", now + LASTS[MarkState.DONE])
    }
    await marks.put(ITEM, MarkState.NOT_A_QUESTION, now)
    assert (await marks.all())[ITEM].by == ""
    await marks.remove(ITEM)
    assert await marks.all() == {}


async def test_what_is_snoozed_comes_back_after_a_week(empty: House) -> None:
    marks, week = empty.tables.marks, 7 * 86_400
    await marks.put(ITEM, MarkState.SNOOZED, int(NOW) - week + 1)
    assert set(await marks.all()) == {ITEM}
    await marks.put(ITEM, MarkState.SNOOZED, int(NOW) - week)
    assert await marks.all() == {}


async def test_an_assignment_lasts_whatever_else_is_said_of_the_item(empty: House) -> None:
    marks, now = empty.tables.marks, int(NOW)
    await marks.assign(ITEM, "UBOB", now, "UALICE")
    await marks.put(ITEM, MarkState.SNOOZED, now)
    await marks.remove(ITEM)
    mark = (await marks.all())[assignment_of(ITEM)]
    assert (mark.state, mark.assignee, mark.by) == (MarkState.ASSIGNED, "UBOB", "UALICE")
    await marks.forget("UBOB")
    assert await marks.all() == {}


async def test_what_another_version_wrote_is_no_mark(empty: House) -> None:
    handle = await empty.table("Mark")
    await handle.put({"item_key": ITEM, "state": "framed", "until": int(NOW) + 9})
    assert await empty.tables.marks.all() == {}
