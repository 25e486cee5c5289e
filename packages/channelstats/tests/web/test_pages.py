"""Pages, and what their templates ask for."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from channelstats.days import DAY
from channelstats.facts.periods import History, Now
from channelstats.lookup import Names
from channelstats.metrics.quantities import change, not_compared
from channelstats.metrics.table import Column, Kind, Table
from channelstats.pages.goals import Bound
from channelstats.pages.model import Choice, Page, Section, Tile, Tiles
from channelstats.render.html import delta
from channelstats.web.filters import Query
from channelstats.web.pages import ViewContext, Visit, view_page

FIRST, LAST = date(2024, 3, 10), date(2024, 3, 16)
CHOICE = Choice(FIRST, LAST)


@pytest.mark.parametrize(
    ("now", "before", "colour", "arrow", "word"),
    [
        (76, 100, "better", "▼", ", better"),
        (124, 100, "worse", "▲", ", worse"),
        (3, 0, "worse", "▲", ", worse"),
    ],
)
def test_where_less_is_better_a_word_and_the_colour_say_so_and_the_arrow_the_direction(
    now: int, before: int, colour: str, arrow: str, word: str
) -> None:
    shown = delta(change(now, before), Kind.COUNT, less_is_better=True)
    assert f'class="delta {colour}"' in shown
    assert arrow in shown
    assert shown.endswith(f"{word}</span>")


@pytest.mark.parametrize(("now", "before"), [(76, 100), (124, 100)])
def test_of_anything_else_a_change_is_shown_as_it_is(now: int, before: int) -> None:
    shown = delta(change(now, before), Kind.COUNT)
    assert f"{now - before:+}%" in shown
    assert "better" not in shown
    assert "worse" not in shown


def test_percentages_change_by_points() -> None:
    assert "+1.0 point<" in delta(change(51, 50), Kind.PERCENT)
    assert "-24.0 points<" in delta(change(76, 100), Kind.PERCENT)


def test_what_is_not_known_whole_is_compared_with_nothing() -> None:
    assert not delta(not_compared(76), Kind.COUNT)


@pytest.mark.parametrize(("now", "before"), [(5, 5), (5, None)])
def test_a_number_without_another_is_neither_better_nor_worse(now: int, before: int | None) -> None:
    compared = change(now, before)
    assert delta(compared, Kind.COUNT, less_is_better=True) == delta(compared, Kind.COUNT)


@pytest.mark.parametrize(
    ("days", "person", "shown"),
    [
        (7, "", [["Goal: at most 30%, not met"], ["Goal: at least 3, met"]]),
        (28, "", [["Goal: at most 30%, not met"], []]),
        (7, "UANN", [[], []]),
    ],
)
def test_goals_stand_at_the_tiles_of_everybody_and_of_counts_at_those_of_a_week(
    days: int, person: str, shown: list[list[str]]
) -> None:
    tiles = (
        Tile("share", "% unanswered", Kind.PERCENT, change(40, 30)),
        Tile("posters", "People posting", Kind.COUNT, change(4, 3)),
    )
    first = LAST - timedelta(days - 1)
    choice = Choice(first, LAST, person=person)
    view = Page("threads", ("Threads",), choice, (FIRST, LAST), lead=(Tiles(tiles),))
    goals = (
        Bound("threads.share", "<=", 30),
        Bound("threads.posters", ">=", 3),
        Bound("people.posters", ">=", 9),
    )
    now = Now(LAST, History(FIRST, LAST), 6)
    query = Query(Choice(first, LAST), days // 7)
    context = ViewContext(view, Visit(query, Names({}, {}), now, ZoneInfo("UTC"), goals=goals))
    assert [context.goals(tile) for tile in tiles] == shown


@pytest.mark.parametrize(
    ("weeks", "newest", "newer"),
    [
        (1, LAST + timedelta(3), (LAST + timedelta(1), LAST + timedelta(3))),
        (1, LAST, None),
        (1, None, None),
        (0, LAST + timedelta(3), None),  # days that were chosen
    ],
)
def test_days_after_the_last_whole_week_can_be_shown(
    weeks: int, newest: date | None, newer: tuple[date, date] | None
) -> None:
    view = Page("todo", ("To do",), CHOICE, (FIRST, LAST))
    now = Now(LAST + timedelta(4), History(FIRST, newest), 6)
    visit = Visit(Query(CHOICE, weeks), Names({}, {}), now, ZoneInfo("UTC"))
    assert ViewContext(view, visit).newer_days == newer


def test_a_day_that_was_read_in_part_is_not_compared_but_in_what_is_to_be_done() -> None:
    now = Now(LAST + DAY, History(FIRST - 40 * DAY, LAST - DAY, LAST), 6)
    for name, is_compared in (("people", False), ("todo", True)):
        view = Page(name, (name,), CHOICE, (FIRST - 7 * DAY, FIRST - DAY))
        visit = Visit(Query(CHOICE, 0), Names({}, {}), now, ZoneInfo("UTC"))
        assert ViewContext(view, visit).is_compared == is_compared


def test_a_figure_without_one_before_is_shown_alone() -> None:
    tile = Tile("posters", "People who posted", Kind.COUNT, change(4, None))
    view = Page("people", ("People",), CHOICE, (FIRST, LAST), lead=(Tiles((tile,)),))
    now = Now(LAST, History(FIRST, LAST), 6)
    page = view_page(view, Visit(Query(CHOICE, 1), Names({}, {}), now, ZoneInfo("UTC")))
    assert "People who posted" in page
    assert 'class="delta' not in page


def test_where_a_table_goes_on_that_is_seen_and_said() -> None:
    column = Column("words", "Words", Kind.COUNT)
    table = Table("people", "People", (column,), pl.DataFrame({"words": range(50)}))
    view = Page("people", ("People",), CHOICE, (FIRST, LAST), sections=(Section.of(table),))
    now = Now(LAST, History(FIRST, LAST), 6)
    page = view_page(view, Visit(Query(CHOICE, 1), Names({}, {}), now, ZoneInfo("UTC")))
    assert page.count("<td") == 20
    assert "<span>1\N{EN DASH}20 of 50</span>" in page
    assert "tall" not in page  # no box of its own that scrolls up and down


def shown(view: Page, weeks: int = 1) -> str:
    now = Now(LAST, History(FIRST, LAST), 6)
    return view_page(view, Visit(Query(CHOICE, weeks), Names({}, {}), now, ZoneInfo("UTC")))


def test_a_section_without_rows_says_why() -> None:
    rows = pl.DataFrame(schema={"words": pl.Int64})
    table = Table("people", "People", (Column("words", "Words", Kind.COUNT),), rows)
    section = Section.of(table, empty="Everybody is on holiday.")
    page = shown(Page("people", ("People",), CHOICE, (FIRST, LAST), sections=(section,)))
    assert '<p class="empty">Everybody is on holiday.</p>' in page


def test_a_page_that_has_nothing_of_the_days_before_is_not_said_to_be_compared_with_them() -> None:
    for compares in (True, False):
        page = Page("todo", ("To do",), CHOICE, (FIRST, LAST), compares=compares)
        assert ("compared with" in shown(page)) == compares
        assert "time zone UTC" in shown(page)


def test_the_list_to_do_says_that_its_days_are_others() -> None:
    for view, weeks, is_said in (("todo", 1, True), ("todo", 0, False), ("people", 1, False)):
        page = shown(Page(view, (view,), CHOICE, (FIRST, LAST)), weeks)
        assert page.count("<strong>Sun 10 Mar to Sat 16 Mar 2024</strong>") == 1
        assert ("other pages end with the last whole week" in page) == is_said


def test_one_week_is_a_week() -> None:
    page = shown(Page("people", ("People",), CHOICE, (FIRST, LAST)), weeks=4)
    assert "so this shows 1 week instead of 4 weeks" in page


def test_the_first_rows_of_a_list_lead_to_all_of_it() -> None:
    for view, text in (("todo", "The whole list"), ("people", "All people")):
        column = Column("words", "Words", Kind.COUNT)
        table = Table("some", "Some", (column,), pl.DataFrame({"words": [1]}), whole=view)
        page = shown(
            Page("overview", ("All",), CHOICE, (FIRST, LAST), sections=(Section.of(table),))
        )
        assert f">{text}</a>" in page


@pytest.mark.parametrize(("view", "is_first"), [("todo", True), ("threads", False)])
def test_why_messages_are_not_linked_is_said_first_where_something_is_to_be_done(
    view: str, *, is_first: bool
) -> None:
    rows = pl.DataFrame({"message": ["C1/1710061200.000100/"]})
    table = Table("some", "Some", (Column("message", "Message", Kind.MESSAGE),), rows)
    page = shown(Page(view, (view,), CHOICE, (FIRST, LAST), sections=(Section.of(table),)))
    assert page.count("Messages are not linked") == 1
    is_before = page.index("Messages are not linked") < page.index('class="cards"')
    assert is_before == is_first


def test_nobody_is_asked_for_the_workspace_of_messages_that_have_no_links() -> None:
    rows = pl.DataFrame({"message": ["C1/1710061200.000100/"]})
    table = Table("some", "Some", (Column("message", "Message", Kind.MESSAGE),), rows)
    view = Page("todo", ("todo",), CHOICE, (FIRST, LAST), sections=(Section.of(table),))
    now = Now(LAST, History(FIRST, LAST), 6)
    visit = Visit(Query(CHOICE, 1), Names({}, {}), now, ZoneInfo("UTC"), has_links=False)
    assert "slack_name" not in view_page(view, visit)
