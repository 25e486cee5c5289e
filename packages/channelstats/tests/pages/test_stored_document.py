"""Documents kept in the table ReportStore."""

import asyncio
import json
from datetime import date, datetime
from typing import Any

import pytest

from channelstats.counting import Counting
from channelstats.facts import Options, Period
from channelstats.pages.stored_document import document_of
from channelstats.tables.directory import User
from channelstats.tables.message_row import MessageRow
from support.channelstats.dated import tamper
from support.channelstats.house import NOW, UTC, House
from support.clocks import ManualClock

pytestmark = pytest.mark.slow

PERIOD = Period(date(2024, 3, 10), 7, UTC)


async def document(of: House, later: float, options: Options, **how: Any) -> dict[str, Any]:
    clock = ManualClock(NOW + later)
    found: dict[str, Any] = json.loads(
        await document_of(of.tables, PERIOD, options, clock=clock, **how)
    )
    return found


async def test_a_document_is_stored_under_its_start_and_days(example: House) -> None:
    made = await document(example, 0, Options())
    stored = await example.tables.reports.get("2024-03-10-7")
    assert stored is not None
    assert json.loads(stored) == made


async def test_a_stored_document_is_used_as_long_as_nothing_changed(example: House) -> None:
    made = await document(example, 0, Options())
    assert await document(example, 60, Options()) == made
    assert (await document(example, 60, Options(), refresh=True))["generated_at"] == NOW + 60


@pytest.mark.parametrize(
    "other",
    [
        Options(Counting(include_bots=True)),
        Options(default_timezone="Europe/Berlin"),
        Options(merge_skin_tones=True),
    ],
)
async def test_other_options_make_it_anew(example: House, other: Options) -> None:
    await document(example, 0, Options())
    assert (await document(example, 60, other))["generated_at"] == NOW + 60


async def test_what_is_known_of_a_user_makes_it_anew(example: House) -> None:
    await document(example, 0, Options())
    await example.tables.users.put([User("UBOB", "bob", tz="Asia/Tokyo", tz_offset=32400)])
    made = await document(example, 60, Options())
    assert "Asia/Tokyo" in made["timezone"]


async def test_one_message_that_changed_makes_it_anew(example: House) -> None:
    await document(example, 0, Options())
    rows = await example.tables.messages.of_channel("CDEV", "1710630900.001500")
    row = rows["1710630900.001500"]
    row.word_count = 12
    await example.tables.messages.write([row])
    await example.tables.messages.close_days()
    made = await document(example, 60, Options())
    assert made["statistics"]["words"] == 50
    assert await document(example, 120, Options()) == made


async def test_while_messages_are_written_a_document_is_made_anew_and_not_kept(
    example: House,
) -> None:
    kept = await document(example, 0, Options())
    row = MessageRow("CDEV", "1710630900.009999", "UBOB", word_count=3)
    await example.tables.messages.write([row])
    made = await document(example, 60, Options())
    assert made["statistics"]["words"] == kept["statistics"]["words"] + 3
    assert json.loads(await example.tables.reports.get("2024-03-10-7") or "") == kept


async def test_what_came_while_a_document_was_made_keeps_it_from_being_kept(
    example: House,
) -> None:
    async def write() -> None:
        row = MessageRow("CDEV", "1710630900.009999", "UBOB", word_count=3)
        await example.tables.messages.write([row])
        await example.tables.messages.close_days()

    writing: list[asyncio.Task[None]] = []

    def progress(done: int, days: int) -> None:
        if done == days:
            writing.append(asyncio.create_task(write()))

    await document(example, 0, Options(), progress=progress)
    assert writing
    await asyncio.gather(*writing)
    made = await document(example, 60, Options())
    assert made["statistics"]["words"] == 43
    assert await document(example, 120, Options()) == made


@pytest.mark.parametrize("day", ["2024-03-17", "2024-06-01"])
async def test_a_day_that_came_later_may_hold_late_replies(example: House, day: str) -> None:
    made = await document(example, 0, Options())
    ts = f"{int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())}.000000"
    await example.tables.messages.write([MessageRow("CDEV", ts, "UBOB")])
    await example.tables.messages.close_days()
    again = await document(example, 60, Options())
    assert again["generated_at"] == NOW + 60
    assert again["statistics"] == made["statistics"]


async def test_a_day_before_all_that_is_read_changes_nothing(example: House) -> None:
    made = await document(example, 0, Options())
    await example.tables.messages.write([MessageRow("CDEV", "1609459200.000000", "UNEW")])
    await example.tables.messages.close_days()
    assert await document(example, 60, Options()) == made


async def test_where_first_posts_are_looked_for_every_message_matters(example: House) -> None:
    options = Options(Counting(include_bots=True))  # first posts are kept of another way to count
    made = await document(example, 0, options)
    assert await document(example, 60, options) == made
    await example.tables.messages.write([MessageRow("CDEV", "1609459200.000000", "UNEW")])
    await example.tables.messages.close_days()
    assert (await document(example, 120, options))["generated_at"] == NOW + 120


async def test_for_a_stored_document_no_message_is_read(
    example: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await document(example, 0, Options())

    def unwanted(*_: object, **__: object) -> None:
        raise AssertionError("messages are read")

    for name in ("of_days", "of_keys", "all"):
        monkeypatch.setattr(example.tables.messages, name, unwanted)
    assert await document(example, 60, Options()) == made


async def test_made_anew_it_is_made_from_the_rows(example: House) -> None:
    """Even where something else has changed them."""
    await document(example, 0, Options())
    row = (await example.tables.messages.of_channel("CDEV", ""))["1710630900.001500"]
    await tamper(example.engine, row, 12)
    assert (await document(example, 60, Options()))["statistics"]["words"] == 40
    made = await document(example, 60, Options(), refresh=True)
    assert made["statistics"]["words"] == 50
    assert await document(example, 120, Options()) == made


async def test_a_broken_stored_document_is_made_anew(example: House) -> None:
    await example.tables.reports.put("2024-03-10-7", "{ not json")
    made = await document(example, 60, Options())
    assert made["statistics"]["words"] == 40
