"""Reading the days of a choice: enough for every view, once, and never too many."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from channelstats.days import DAY
from channelstats.facts import Options, Period
from channelstats.facts.periods import YEAR, History
from channelstats.pages import loading as reading
from channelstats.pages.loading import MOST_DAYS, NO_MEMBERS, DashboardData, load, load_members
from channelstats.pages.model import VIEWS, Choice, ChoiceError
from channelstats.pages.reports import ReportKind, ReportRequest, load_report_data
from channelstats.pages.views import view_of
from channelstats.tables.columns import ID, MESSAGES
from channelstats.tables.message_row import MessageRow
from support.channelstats.house import House, house
from support.channelstats.inputs import inputs_of, wanted
from support.channelstats.pages import Looked, comparable, everything, look
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.workspace import write_zip
from support.soak import slow, slow_after

FIRST = date(2024, 3, 10)


async def test_the_members_of_a_channel_are_those_read_last(example: House) -> None:
    chosen, options = Choice(FIRST, FIRST, "CGEN"), Options()
    members = await load_members(example.tables, chosen, options)
    assert members.people == ("UALICE", "UBOB", "UCARA")
    without = replace(options, excluded_users=frozenset({"bob"}))
    assert (await load_members(example.tables, chosen, without)).people == ("UALICE", "UCARA")
    assert await load_members(example.tables, Choice(FIRST, FIRST, "CNONE"), options) == NO_MEMBERS


@pytest.mark.parametrize("seed", slow_after(1, range(300, 303)))
async def test_views_of_what_was_read_are_those_of_everything(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    of = settings(rng)
    workspace = Maker(rng, of).workspace(60)
    workspace.deleted.clear()
    period, options = wanted(of)
    export = write_zip(workspace.files(), tmp_path / "export.zip")
    async with house(tmp_path, ZoneInfo(of.zone)) as opened:
        await opened.take_in(export, counting=options.counting, now=1_800_000_000)
        read = await load(opened.tables, Choice(period.start, period.last), options)
    of_all = DashboardData(inputs_of(workspace), period, options)
    # When people were counted, what members an export has and since when messages are known is not
    # what this is about.
    everybody = of_all.inputs
    inputs = replace(
        read.inputs,
        channels=everybody.channels,
        counts=everybody.counts,
        history=everybody.history,
    )
    read = replace(read, inputs=inputs)
    for name in VIEWS:
        choice = everything(of_all)
        one, other = (comparable(view_of(name, of, choice)) for of in (read, of_all))
        assert one == other


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (FIRST - DAY, "2024-03-10 is after 2024-03-09"),
        (FIRST + MOST_DAYS * DAY, "401 days are too many to show: 400 are the most"),
    ],
)
async def test_days_that_cannot_be_shown_are_refused(empty: House, last: date, said: str) -> None:
    with pytest.raises(ChoiceError, match=said):
        await load(empty.tables, Choice(FIRST, last), Options())


@pytest.mark.parametrize("day", [date.min, date(1999, 12, 31), date(2200, 1, 1), date.max])
async def test_days_beyond_all_messages_are_refused(empty: House, day: date) -> None:
    with pytest.raises(ChoiceError, match="days lie between"):
        await load(empty.tables, Choice(day, day), Options())


@pytest.mark.slow
async def test_the_most_days_of_nothing_can_be_read(empty: House) -> None:
    last = FIRST + (MOST_DAYS - 1) * DAY
    data = await load(empty.tables, Choice(FIRST, last), Options())
    for name in VIEWS:
        assert view_of(name, data, everything(data)).notes


@pytest.mark.parametrize(
    ("weeks", "rows", "title"),
    [(1, 12, "week_12"), (26, 26, "week_26"), slow(52, 13, "weeks_49_to_52")],
)
async def test_newcomers_are_followed_over_the_whole_period(
    empty: House, weeks: int, rows: int, title: str
) -> None:
    data = await load(empty.tables, Choice(FIRST, FIRST + (7 * weeks - 1) * DAY), Options())
    cohorts = Looked(view_of("newcomers", data, everything(data))).tables["cohorts"]
    assert cohorts.rows.height == rows
    assert cohorts.columns[-1].name == title


async def test_a_view_is_of_the_days_that_were_read(empty: House) -> None:
    data = await load(empty.tables, Choice(FIRST, FIRST), Options())
    with pytest.raises(ChoiceError, match="days are those from 2024-03-10 to 2024-03-10"):
        view_of("volume", data, Choice(FIRST, FIRST + DAY))
    with pytest.raises(KeyError):
        view_of("nothing", data, Choice(FIRST, FIRST))


async def test_more_messages_than_fit_are_refused(
    example: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = Choice(FIRST, FIRST + 6 * DAY)
    read = await load(example.tables, choice, Options())
    messages = read.inputs.messages.height
    monkeypatch.setattr(reading, "MOST_MESSAGES", messages - 1)
    with pytest.raises(ChoiceError, match=f"more than {messages - 1} messages .* fewer days"):
        await load(example.tables, choice, Options())
    monkeypatch.setattr(reading, "MOST_MESSAGES", messages)
    assert (await load(example.tables, choice, Options())).inputs.messages.height


async def test_where_there_is_too_much_newcomers_are_followed_over_fewer_weeks(
    example: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = Choice(FIRST, FIRST + 6 * DAY)
    long_ago = MessageRow("CGEN", "1705320000.000000", "UALICE")  # eight weeks before
    await example.tables.messages.write([long_ago])
    whole = await load(example.tables, choice, Options())
    monkeypatch.setattr(reading, "MOST_MESSAGES", whole.inputs.messages.height - 1)
    data = await load(example.tables, choice, Options())
    assert (whole.cohorts, data.cohorts) == (12, 5)
    assert data.inputs.messages.height == whole.inputs.messages.height - 1
    cohorts = Looked(view_of("newcomers", data, choice)).tables["cohorts"]
    assert cohorts.rows.height == 5
    for name in set(VIEWS) - {"newcomers"}:
        one, other = (comparable(view_of(name, of, choice)) for of in (data, whole))
        assert one == other


async def test_a_year_of_more_than_a_million_messages_is_shown(
    empty: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, days = 1_200_000, 364
    end = Period(FIRST, 1, empty.tables.zone).end * 1_000_000
    step = days * 86_400 * 1_000_000 // rows
    year = pl.select(
        ts=end - step * pl.int_range(rows, 0, -1),
        slack_cid=pl.lit("CGEN", ID),
        slack_uid=pl.lit("UALICE", ID),
        word_count=pl.lit(1, pl.Int64),
    )
    numbers = ("reaction_count", "reply_count", "file_count", "fetched_at")
    year = year.with_columns(pl.lit(0, pl.Int64).alias(name) for name in numbers).with_columns(
        deleted=pl.lit(value=False)
    )
    missing = {name: pl.lit(None, of).alias(name) for name, of in MESSAGES.items()}
    year = year.with_columns(of for name, of in missing.items() if name not in year.columns)

    async def of_days(*_: object, **__: object) -> AsyncIterator[pl.DataFrame]:
        yield year.select(MESSAGES.names())

    monkeypatch.setattr(empty.tables.messages, "of_days", of_days)
    choice = Choice(FIRST - (days - 1) * DAY, FIRST)
    data = await load(empty.tables, choice, Options())
    assert look("volume", data).number("messages") == rows


async def test_where_there_is_too_much_a_channel_is_read_alone(
    example: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_channel = Choice(FIRST, FIRST + 6 * DAY, channel="CDEV")
    everything = Choice(of_channel.first, of_channel.last)
    whole = await load(example.tables, everything, Options())
    here = whole.inputs.messages.filter(slack_cid="CDEV").height
    monkeypatch.setattr(reading, "MOST_MESSAGES", here)
    with pytest.raises(ChoiceError, match="choose fewer days, or a channel"):
        await load(example.tables, everything, Options())
    alone = await load(example.tables, of_channel, Options())
    assert alone.inputs.messages.height == here
    for name in VIEWS:
        one, other = (comparable(view_of(name, of, of_channel)) for of in (alone, whole))
        assert one == other


@pytest.mark.parametrize(
    ("first", "last", "compared"),
    [
        (FIRST - 7 * DAY, FIRST + 6 * DAY, True),
        (FIRST - 6 * DAY, FIRST + 6 * DAY, False),
        (FIRST - 7 * DAY, FIRST + 2 * DAY, False),
    ],
)
def test_days_that_are_not_known_whole_are_not_compared(
    first: date, last: date, compared: bool
) -> None:
    inputs = replace(
        inputs_of(Maker(random.Random(1), settings(random.Random(1))).workspace(60)),
        history=History(first, last),
    )
    data = DashboardData(inputs, Period(FIRST, 7, ZoneInfo("UTC")), Options())
    found = look("overview", data)
    states = {tile.change["state"] for tile in found.view.tiles if tile.change is not None}
    assert ("not_compared" not in states) == compared
    assert (states == {"not_compared"}) != compared


def test_a_year_before_takes_the_place_of_the_period_before() -> None:
    rng = random.Random(7)
    inputs = inputs_of(Maker(rng, settings(rng)).workspace(200))
    inputs = replace(inputs, history=History(FIRST - 500 * DAY, FIRST + 6 * DAY))
    days = Period(FIRST, 7, ZoneInfo("UTC"))
    then = DashboardData(inputs, replace(days, start=FIRST - YEAR * DAY), Options())
    # Messages of now stand in for those of then.
    earlier = pl.col("ts") - YEAR * 86_400_000_000
    then = replace(then, inputs=replace(inputs, messages=inputs.messages.with_columns(earlier)))
    data = DashboardData(inputs, days, Options()).against_year(then)
    for person in ("", "UA"):
        found = look("volume", data, person=person)
        assert found.number("messages")
        for tile in found.view.tiles:
            assert tile.change is not None
            assert tile.change["cur"] == tile.change["prev"]
        for name in found.charts:
            series = found.series(name)
            assert series["before"] == series["now"]
    assert found.charts["messages"].series[1].title == "A year before"
    assert found.view.before == (date(2023, 3, 12), date(2023, 3, 18))


def test_nobody_is_new_before_four_weeks_of_messages_are_known() -> None:
    week = Period(FIRST, 7, ZoneInfo("UTC"))
    assert not History(FIRST - 27 * DAY, None).knows_newcomers(week)
    assert History(FIRST - 28 * DAY, None).knows_newcomers(week)


async def test_a_report_says_the_same_is_to_be_done_as_the_dashboard(empty: House) -> None:
    """Of two who wrote in eight weeks and in the last two not, one is back since."""
    weeks = {
        **{f"UHERE{n}": range(10) for n in range(2)},
        "UBACK": [-1, *range(2, 10)],
        "UMISSED": range(2, 10),
    }
    said_in, days = Period(FIRST, 7, ZoneInfo("UTC")), 86_400
    await empty.tables.messages.write(
        MessageRow("C1", f"{said_in.begin + (3 - 7 * week) * days + n}.000000", uid)
        for n, (uid, some) in enumerate(weeks.items())
        for week in some
    )
    await empty.tables.messages.close_days()
    choice = Choice(said_in.start, said_in.last)
    view = view_of("todo", await load(empty.tables, choice, Options()), choice)
    report = await load_report_data(empty.tables, said_in, Options(), now=said_in.end)
    to_do = report.page("todo", ReportRequest(ReportKind.GLOBAL)).tables[0].rows
    found = to_do.filter(action="Write to").to_dicts()
    assert found == view.tables[0].rows.filter(action="Write to").to_dicts()
    assert [(row["person"], row["reason"]) for row in found] == [
        ("UMISSED", "Wrote in 8 of 8 weeks, then for 2 weeks nothing.")
    ]
