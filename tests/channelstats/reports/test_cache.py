"""Documents kept in the table ReportStore."""

import json
from datetime import date
from typing import Any

import pytest

from channelstats.reports.cache import document_of
from channelstats.stats import Options, Period
from channelstats.tables.directory import User
from support.channelstats.house import COMPAT, EXAMPLE, MODERN, NOW, UTC, House
from support.clocks import ManualClock

PERIOD = Period(date(2024, 3, 10), 7, UTC)


@pytest.fixture
async def filled(empty: House) -> House:
    await empty.take_in(EXAMPLE)
    return empty


async def document(of: House, later: float, options: Options, **how: Any) -> dict[str, Any]:
    clock = ManualClock(NOW + later)
    return await document_of(of.tables, PERIOD, options, clock=clock, **how)


async def test_a_document_is_stored_under_its_start_and_days(filled: House) -> None:
    made = await document(filled, 0, Options(COMPAT))
    stored = await filled.tables.reports.get("2024-03-10-7")
    assert stored is not None
    assert json.loads(stored) == made


async def test_a_stored_document_is_used_as_long_as_nothing_changed(filled: House) -> None:
    made = await document(filled, 0, Options(COMPAT))
    assert await document(filled, 60, Options(COMPAT)) == made
    assert (await document(filled, 60, Options(COMPAT), anew=True))["generated_at"] == NOW + 60


@pytest.mark.parametrize(
    "other",
    [Options(MODERN), Options(COMPAT, "Europe/Berlin"), Options(COMPAT, merge_skin_tones=True)],
)
async def test_other_options_make_it_anew(filled: House, other: Options) -> None:
    await document(filled, 0, Options(COMPAT))
    assert (await document(filled, 60, other))["generated_at"] == NOW + 60


async def test_what_is_known_of_a_user_makes_it_anew(filled: House) -> None:
    await document(filled, 0, Options(COMPAT))
    await filled.tables.users.put([User("UBOB", "bob", tz="Asia/Tokyo", tz_offset=32400)])
    made = await document(filled, 60, Options(COMPAT))
    assert "Asia/Tokyo" in made["timezone"]


async def test_one_message_that_changed_makes_it_anew(filled: House) -> None:
    await document(filled, 0, Options(COMPAT))
    rows = await filled.tables.messages.of_channel("CDEV", "1710630900.001500")
    row = rows["1710630900.001500"]
    row.word_count = 12
    await filled.tables.messages.write([row])
    made = await document(filled, 60, Options(COMPAT))
    assert made["statistics"]["words"] == 50


async def test_a_broken_stored_document_is_made_anew(filled: House) -> None:
    await filled.tables.reports.put("2024-03-10-7", "{ not json")
    made = await document(filled, 60, Options(COMPAT))
    assert made["statistics"]["words"] == 40
