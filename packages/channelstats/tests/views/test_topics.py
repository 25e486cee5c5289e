"""What rises: words that more people use than before, by how surprising that is."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from channelstats.privacy import Pseudonyms
from channelstats.stats import Options, Period
from channelstats.tables.topics import WeekTopics
from channelstats.views.loading import DashboardData, load_topics
from channelstats.views.topics import Rising, rising, topics_section
from support.channelstats.house import MODERN, UTC, House
from support.channelstats.inputs import inputs_of
from support.channelstats.views import look
from support.channelstats.workspace import Workspace

WEEK = date(2024, 3, 10)


def weeks(
    now: dict[str, int], *before: dict[str, int], people: int = 100
) -> dict[date, WeekTopics]:
    found = {WEEK: WeekTopics(1000, 100, now)}
    for number, terms in enumerate(before, 1):
        found[WEEK - number * timedelta(7)] = WeekTopics(1000, people, terms)
    return found


def data(
    topics: dict[date, WeekTopics], options: Options | None = None, start: date = WEEK
) -> DashboardData:
    return DashboardData(
        inputs_of(Workspace()),
        Period(start, 7, UTC),
        options or Options(MODERN),
        topics=topics,
    )


def test_what_is_usual_does_not_rise() -> None:
    before = [{"harvest": 20, "rain": 20}] * 8
    assert rising(weeks({"harvest": 20, "rain": 60, "snow": 5}, *before), WEEK) == [
        Rising("rain", 60, 20.0),
        Rising("snow", 5, 0.0),
    ]


def test_the_most_surprising_is_first_and_equals_go_by_the_alphabet() -> None:
    found = rising(weeks({"b": 9, "a": 9, "c": 50}, {"c": 10}), WEEK)
    assert [of.term for of in found] == ["c", "a", "b"]


def test_a_week_that_was_counted_over_few_people_is_compared_by_their_share() -> None:
    assert rising(weeks({"harvest": 20}, {"harvest": 5}, people=25), WEEK) == []


def test_a_small_group_is_not_shown() -> None:
    of = weeks({"harvest": 9, "snow": 10}, {})
    assert rising(of, WEEK, 10) == [Rising("snow", 10, 0.0)]


@pytest.mark.parametrize("topics", [{}, weeks({"harvest": 9})])
def test_without_weeks_to_compare_with_nothing_rises(topics: dict[date, WeekTopics]) -> None:
    assert rising(topics, WEEK) == []
    assert look("topics", data(topics)).view.notes[-1].startswith(("Words of this", "None of the"))


def test_the_view_has_words_and_links_apart() -> None:
    looked = look("topics", data(weeks({"harvest": 9, "example.org/a": 8}, {"harvest": 1})))
    assert looked.rows("words") == [{"term": "harvest", "used_by": 9, "usual": 1.0}]
    assert looked.rows("links") == [{"term": "example.org/a", "used_by": 8, "usual": 0.0}]
    # With the tables, as a phone does not show what the whole page is about.
    for of in looked.tables.values():
        assert of.about == "The week of Sunday 10 March 2024 to Saturday 16 March 2024."


def test_of_a_longer_period_it_is_the_last_week_that_ends_in_it() -> None:
    later = data(weeks({"harvest": 9}, {}), start=WEEK + timedelta(3))
    assert later.topic_week == WEEK
    assert look("topics", later).rows("words")


def test_it_says_why_it_shows_nothing() -> None:
    of = weeks({"harvest": 9}, {"harvest": 9})
    words, links = look("topics", data(of)).view.sections
    assert (words.empty, links.empty) == tuple(
        f"No {what} was used by clearly more people than before." for what in ("word", "link")
    )
    off = look("topics", data(of, Options(MODERN, topics=False))).view
    assert "count_topics" in off.notes[-1]


def test_a_person_and_a_channel_have_none() -> None:
    of = data(weeks({"harvest": 9}, {}))
    for chosen in ({"channel": "C1"}, {"person": "U1"}):
        view = look("topics", of, **chosen).view
        assert "whole workspace" in view.notes[-1]
        assert all(table.rows.is_empty() for table in view.tables)


def test_under_pseudonyms_nothing_is_said() -> None:
    of = data(weeks({"harvest": 9}, {}))
    hidden = replace(of, inputs=replace(of.inputs, mark=str))
    looked = look("topics", hidden)
    assert looked.rows("words") == []
    assert "pseudonyms" in looked.view.notes[-1]


async def test_under_pseudonyms_nothing_is_read(empty: House) -> None:
    tables, mark = empty.tables, ""
    await tables.topics.put(weeks({"harvest": 9}, {}), mark)
    period, names = Period(WEEK, 7, UTC), Pseudonyms(b"a secret that is long enough")
    assert len(await load_topics(tables, period, Options(MODERN), 6)) == 2
    assert await load_topics(tables, period, Options(MODERN), 6, names) == {}
    assert await load_topics(tables, period, Options(MODERN, topics=False), 6) == {}
    excluded = Options(MODERN, excluded_users=frozenset({"bob"}))
    assert await load_topics(tables, period, excluded, 6) == {}


def test_a_report_has_it_where_there_is_something() -> None:
    assert topics_section([]) is None
    section = topics_section([Rising("harvest", 9, 1.0)])
    assert section is not None
    assert [part.title for part in section.parts if hasattr(part, "title")] == ["Words that rise"]
