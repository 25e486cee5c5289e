"""What is read from the tables is enough for the report, and not the whole table."""

import dataclasses
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from channelstats.counting import Counting
from channelstats.facts import Options, Period
from channelstats.facts.reading import load_inputs
from channelstats.pages.document import report
from channelstats.tables.message_row import MessageRow
from channelstats.tables.messages import Messages
from support.channelstats.house import EXAMPLE, UTC, House, decoded, house

W1 = Period(date(2024, 3, 3), 7, UTC)
LATER = "1719792000.000000"
"""Months after the example."""

WITH_BOTS = Counting(include_bots=True)


async def test_replies_are_read_however_late_they_came(example: House) -> None:
    tables = example.tables
    head = (await tables.messages.of_channel("CDEV", ""))["1709508600.000200"]
    head.thread_ts = head.ts
    for replies, author, is_bot in ((f"UCARA:{LATER}", "UCARA", False), ("", "BHOOK", True)):
        head.replies, head.bot_replies = replies, "" if replies else f"BHOOK:{LATER}"
        reply = MessageRow("CDEV", LATER, author, thread_ts=head.ts, is_bot=is_bot)
        await tables.messages.write([head, reply])
        found: Any = decoded(await example.report(W1, Options(WITH_BOTS)))["new_statistics"]
        assert found["unanswered"] == 0
        assert found["first_reply"]["count"] == 2


@pytest.mark.parametrize(("later", "excluded"), [(False, ""), (True, ""), (False, "UBOB")])
async def test_lists_of_replies_are_read_only_where_they_may_change_a_figure(
    example: House, monkeypatch: pytest.MonkeyPatch, later: bool, excluded: str
) -> None:
    if later:
        await example.tables.messages.write([MessageRow("CDEV", LATER, "UCARA")])
    columns: set[str] = set()
    of_days = Messages.of_days

    def noted(*of: Any, **how: Any) -> AsyncIterator[pl.DataFrame]:
        columns.update(of[3])
        return of_days(*of, **how)

    monkeypatch.setattr(Messages, "of_days", noted)
    options = Options(excluded_users=frozenset({excluded} - {""}))
    newest = Period(date(2024, 3, 17), 7, UTC)
    await load_inputs(example.tables, newest, options)
    assert ("replies" in columns) is (later or bool(excluded))


async def test_what_lies_far_away_is_not_read(example: House) -> None:
    far = [MessageRow("CDEV", ts, "UBOB") for ts in ("1609459200.000000", LATER)]
    await example.tables.messages.write(far)
    inputs = await load_inputs(example.tables, W1, Options())
    assert inputs.messages.height < 15
    whole = pl.concat([frame async for frame in example.tables.messages.all()])
    assert whole.height == 17
    options = Options()
    same = report(dataclasses.replace(inputs, messages=whole), W1, options, generated_at=0)
    assert report(inputs, W1, options, generated_at=0) == same


async def test_of_the_days_read_so_far_it_is_told(example: House) -> None:
    days = 6  # with messages, of 28 for monthly posters and 4 for zones
    told: list[tuple[int, int]] = []
    for _ in range(2):
        told.clear()
        await load_inputs(example.tables, W1, Options(), lambda *of: told.append(of))
        assert told == sorted(told)
        assert told[-1] == (days, days)


async def test_some_columns_of_days_are_read_alone(example: House) -> None:
    columns = ["word_count", "ts"]
    for _ in range(2):  # from rows, then from what was kept of them
        frames = [
            frame
            async for frame in example.tables.messages.of_days(
                date(2024, 3, 1), date(2024, 3, 31), columns
            )
        ]
        assert all(frame.columns == columns for frame in frames)
        assert pl.concat(frames)["word_count"].sum() == 74


@pytest.mark.parametrize("stored", ["Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
async def test_the_zone_that_rows_are_dated_in_does_not_matter(
    tmp_path: Path, stored: str, zone: str
) -> None:
    period = Period(date(2024, 3, 10), 1, ZoneInfo(zone))
    async with house(tmp_path, ZoneInfo(stored)) as opened:
        edges = [period.begin, period.end - 1]
        rows = [MessageRow("C1", f"{at}.000000", "UA", word_count=1) for at in edges]
        await opened.tables.messages.write(rows)
        found = decoded(await opened.report(period, Options()))
    assert found["users"] == {"UA": [2, 2]}


@pytest.mark.parametrize("wanted", [Counting(), WITH_BOTS])
@pytest.mark.parametrize("configured", [Counting(), WITH_BOTS])
async def test_first_posts_of_another_way_of_counting_come_from_the_messages(
    empty: House, configured: Counting, wanted: Counting
) -> None:
    await empty.take_in(EXAMPLE, counting=configured)
    early = MessageRow("CDEV", "1609459200.000000", "UBOB", subtype="me_message")
    await empty.tables.messages.write([early])
    # Where they are of the same way the table says so, and is believed.
    expected = "1709508600.000200" if configured == wanted else early.ts
    inputs = await load_inputs(empty.tables, W1, Options(wanted))
    assert inputs.first_posts is not None
    assert inputs.first_posts["UBOB"].message_id == expected
